package simulate

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/slipway-k8s/slipway/plugin/simulate/input"
)

// Write prints the outcome as a table, json or yaml.
func (o *Outcome) Write(ctx context.Context, w io.Writer, format string) error {
	switch format {
	case "json":
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(o.Result(ctx))
	case "yaml":
		text, err := yaml.Marshal(o.Result(ctx))
		if err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	}
	return o.table(ctx, w)
}

// WriteNotes prints what users have to know about the input beside the result: what was ignored, assumed and wrong.
func WriteNotes(w io.Writer, objects *input.Objects, o *Outcome) {
	for _, kind := range slices.Sorted(maps.Keys(objects.Ignored)) {
		fmt.Fprintf(w, "ignored: %d of kind %s\n", objects.Ignored[kind], kind)
	}
	for _, note := range o.Notes {
		fmt.Fprintln(w, "note:", note)
	}
	for _, p := range o.Problems {
		fmt.Fprintln(w, "problem:", p)
	}
}
