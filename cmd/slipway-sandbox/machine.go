package main

import (
	"github.com/spf13/cobra"

	"github.com/slipway-k8s/slipway/e2e/machines/kubelet"
	"github.com/slipway-k8s/slipway/e2e/sandbox"
)

// newMachineCommand is what a sandbox starts in namespaces of their own, for each instance with a real kubelet.
func newMachineCommand() *cobra.Command {
	return &cobra.Command{
		Use:    sandbox.MachineCommand + " FILE",
		Short:  "Be the init of a machine (started by up --machines kubelet)",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return kubelet.Boot(cmd.Context(), args[0])
		},
	}
}
