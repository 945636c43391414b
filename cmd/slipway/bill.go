package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-k8s/slipway/launcher/bill"
	"github.com/slipway-k8s/slipway/launcher/billing"
)

// newBill returns the command bill.
func newBill(o *options) *cobra.Command {
	by, format, days := string(bill.ByNodePool), string(bill.FormatTable), 1
	cmd := &cobra.Command{
		Use:   "bill",
		Short: "Show what nodes have cost, by NodePool, namespace, workload or label",
		Long: `Show what nodes have cost, by NodePool, namespace, workload or label.

The launcher records it in the cluster, for 31 days. Days are those of UTC; the last one is today. A workload is charged the share of its nodes
that its pods request; the rest of a node is idle, and what a node costs from its interruption on is lost. The amounts are computed from AWS's
prices: the invoice may differ.`,
		Example: `  slipway bill
  slipway bill --by namespace --days 7
  slipway bill --by label=app.kubernetes.io/part-of -o json
  slipway bill --days 31 -o focus > focus.csv`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			divided, err := bill.ParseBy(by)
			if err != nil {
				return err
			}
			if days < 1 || days > bill.MostDays {
				return fmt.Errorf("--days %d: a number from 1 to %d is expected", days, bill.MostDays)
			}
			c, _, err := o.client()
			if err != nil {
				return err
			}
			records, faults, err := billing.Read(cmd.Context(), c, o.recordNamespace, time.Now(), days)
			if err != nil {
				return err
			}
			for _, fault := range faults {
				fmt.Fprintf(cmd.ErrOrStderr(), "A day is left out: %v\n", fault)
			}
			if len(records) == 0 {
				// As kubectl where it finds nothing.
				fmt.Fprintf(cmd.ErrOrStderr(), "No record of what nodes cost found in namespace %s for these days: the launcher writes it while there are nodes "+
					"(its setting billNamespace, --record-namespace of this command).\n", o.recordNamespace)
				return nil
			}
			return bill.Write(cmd.OutOrStdout(), records, divided, bill.Format(format))
		},
	}
	cmd.Flags().StringVar(&by, "by", by, "nodepool, namespace, workload or label=KEY, a label of app.kubernetes.io/")
	cmd.Flags().IntVar(&days, "days", days, "how many days, today included")
	o.addRecordFlag(cmd)
	cmd.Flags().StringVarP(&format, "output", "o", format, "table, json or focus (FOCUS 1.2, CSV)")
	return cmd
}

// addRecordFlag adds the flag that names the namespace of the record.
func (o *options) addRecordFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.recordNamespace, "record-namespace", "kube-system", "namespace of the record of what nodes cost")
}
