package simulate

import (
	"fmt"
	"io"
	"text/tabwriter"
)

func (o *Outcome) table(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "NODE\tTYPE")
	return tw.Flush()
}
