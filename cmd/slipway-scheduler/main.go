// Command slipway-scheduler is kube-scheduler with slipway's plugins NodeLaunch and NodeReserve.
package main

import (
	"os"

	"k8s.io/component-base/cli"

	"github.com/slipway-k8s/slipway/cmd/slipway-scheduler/app"
)

func main() { os.Exit(cli.Run(app.NewCommand())) }
