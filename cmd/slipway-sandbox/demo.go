package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/slipway-k8s/slipway/e2e/demo"
	"github.com/slipway-k8s/slipway/e2e/sandbox"
)

// newDemoCommand returns the command that demonstrates slipway step by step and fails if a step does not succeed.
func newDemoCommand(name *string) *cobra.Command {
	var output, binDir string
	var page bool
	divisor := speed(5)
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch pods go from Pending to Running on nodes that slipway plans, launches and pre-binds",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "text" && output != "json" {
				return fmt.Errorf("--output: %q is not one of text, json", output)
			}
			if binDir == "" {
				var err error
				if binDir, err = ownFolder(); err != nil {
					return err
				}
			}
			report, err := demo.Run(cmd.Context(), demo.Config{
				// Scheduler and launcher use real time: they get EC2's two minutes in full.
				Sandbox:  sandbox.Config{Name: *name, BinDir: binDir, Speed: float64(divisor), ManagedNodes: 1, Addons: true, SpotNotice: 2 * time.Minute},
				Out:      cmd.OutOrStdout(),
				JSON:     output == "json",
				Page:     page,
				Terminal: term.IsTerminal(int(os.Stdout.Fd())),
			})
			if err != nil {
				return err
			}
			if !report.OK {
				return errors.New("a step of the demo did not succeed")
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text prints each step, json prints one object at the end")
	cmd.Flags().BoolVar(&page, "ui", false, "serve the page of slipway ui while the demo runs, and print its address")
	cmd.Flags().Var(&divisor, "speed", "divides the delays of machines and of AWS")
	cmd.Flags().StringVar(&binDir, "bin-dir", "", "folder of slipway-scheduler and slipway-launcher (default: beside this program)")
	return cmd
}
