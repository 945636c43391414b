package main

import (
	"github.com/spf13/cobra"

	"github.com/slipway-k8s/slipway/e2e/machines/kubelet"
	"github.com/slipway-k8s/slipway/e2e/sandbox"
)

// newMachineCommand returns the command that a sandbox starts in separate namespaces, for each instance with a real kubelet.
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

// newMachineCheckCommand returns the command that checks whether this host can run machines with real kubelets.
func newMachineCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "machine-check",
		Short:  "List what this host lacks for up --machines kubelet",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return kubelet.Check(cmd.Context())
		},
	}
}
