package edits

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/simulate"
)

// Write prints the edits for the class of a pod, given as namespace/name, or for all classes that cannot be placed. It prints nothing where all are.
func Write(ctx context.Context, w io.Writer, world World, outcome *simulate.Outcome, pod string) error {
	list, err := Find(ctx, world, outcome, pod)
	if err != nil {
		return err
	}
	unsearched := 0
	for _, u := range list {
		if u.Unsearched {
			unsearched += u.Count
			continue
		}
		of := ""
		if pod == "" || u.Count > 1 {
			of = " for " + catalog.CountText(u.Count, "pod") + " of " + u.Namespace + ", " + u.Owner
		}
		switch {
		case len(u.Edits) == 0 && u.Incomplete:
			fmt.Fprintf(w, "No edit that helps%s was found in %s.\n", of, within)
			continue
		case len(u.Edits) == 0:
			fmt.Fprintf(w, "No single edit that slipway knows of helps%s.\n", of)
			continue
		}
		fmt.Fprintf(w, "The smallest edit that helps%s, checked by the planner:\n", of)
		for i, e := range u.Edits {
			or := ""
			if i > 0 {
				or = "or: "
			}
			fmt.Fprintf(w, "  %s%s\n", or, e)
		}
	}
	if unsearched > 0 {
		fmt.Fprintf(w, "Edits for %s of smaller classes were not looked for.\n", catalog.CountText(unsearched, "pod"))
	}
	return nil
}

// String returns the edit as a sentence, and what it would cost.
func (e Edit) String() string {
	node := strings.Join([]string{e.InstanceType, e.CapacityType, "in", e.Zone}, " ")
	switch e.Nodes {
	case 0:
		return e.Text + " The pods then fit nodes that exist or boot."
	case 1:
		return e.Text + " A node is launched, " + node + ": " + catalog.USD(e.Price) + " USD per hour more."
	}
	return e.Text + " The pods get " + catalog.CountText(e.Nodes, "new node") + ", such as " + node + ": " + catalog.USD(e.Price) + " USD per hour more."
}
