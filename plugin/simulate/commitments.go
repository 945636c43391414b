package simulate

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// writeCommitments prints how much of each commitment is used; nothing if there is none.
func writeCommitments(w io.Writer, list []catalog.CommitmentUse) error {
	if len(list) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "COMMITMENT\tKIND\tAMOUNT\tLEFT\tUSED")
	for _, c := range list {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%.0f%%\n", c.ID, c.Kind, amountOf(c.Amount, c.Unit), amountOf(c.Left, c.Unit), 100*c.Used())
	}
	return tw.Flush()
}

func amountOf(amount float64, unit string) string {
	if unit == catalog.USDPerHour {
		return fmt.Sprintf("%.4f %s", amount, unit)
	}
	return fmt.Sprintf("%g %s", amount, unit)
}
