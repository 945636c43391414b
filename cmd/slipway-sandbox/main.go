// Command slipway-sandbox runs a whole Kubernetes cluster on a simulated AWS on one machine, with slipway in it, and controls a running one.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

func main() {
	// Kubernetes' own components log there: into the sandbox's folder.
	log.SetLogger(klog.Background())
	// If the reader closes the pipe, as in `up | head`, a write fails: the process must still remove its files.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// A second Ctrl-C ends the process at once.
	context.AfterFunc(ctx, stop)
	if err := newCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "slipway-sandbox",
		Short:         "A Kubernetes cluster with an AWS beneath it, on this machine alone",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	var name string
	cmd.PersistentFlags().StringVar(&name, "sandbox", "", "name of the sandbox; needed where several run")
	cmd.AddCommand(newUpCommand(&name))
	cmd.AddCommand(newDemoCommand(&name))
	cmd.AddCommand(newAWSCommand(&name))
	cmd.AddCommand(newKillCommand(&name))
	cmd.AddCommand(newMachineCommand(), newMachineCheckCommand())
	return cmd
}
