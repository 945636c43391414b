package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-k8s/slipway/e2e/aws/meter"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// newBillCommand returns the command that prints what the account has paid.
func newBillCommand(at *target) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "bill",
		Short: "Print what the account has paid since the start, as EC2 bills it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "table" && output != "json" {
				return fmt.Errorf("--output %s: want table or json", output)
			}
			client, err := at.client()
			if err != nil {
				return err
			}
			bill, err := client.Bill(cmd.Context())
			if err != nil {
				return err
			}
			if output == "json" {
				encoder := json.NewEncoder(cmd.OutOrStdout())
				encoder.SetIndent("", "  ")
				return encoder.Encode(bill)
			}
			return writeBill(cmd.OutOrStdout(), bill)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table or json, which has a line for each instance")
	return cmd
}

// writeBill prints the sums, and the commitments with how much of them was used.
func writeBill(w io.Writer, bill meter.Bill) error {
	sum := bill.Sum()
	table := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintf(table, "%.4f USD since %s: %s, %.2f hours\n", bill.Total(), bill.From.UTC().Format(time.RFC3339), catalog.CountText(len(bill.Lines), "instance"), sum.Hours)
	for _, part := range []struct {
		name string
		usd  float64
	}{{"instances", sum.Instance}, {"volumes", sum.Volumes}, {"public IPv4", sum.PublicIPv4}, {"CPU credits", sum.Credits}} {
		fmt.Fprintf(table, "%s\t%.4f\n", part.name, part.usd)
	}
	for _, c := range bill.Commitments {
		fmt.Fprintf(table, "commitment %s\t%.4f\t%.1f%% used\n", c.ID, c.USD, 100*c.Used)
	}
	return table.Flush()
}
