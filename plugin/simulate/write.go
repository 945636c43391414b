package simulate

import (
	"encoding/json"
	"io"

	"sigs.k8s.io/yaml"
)

// Write prints the outcome as a table, json or yaml.
func (o *Outcome) Write(w io.Writer, format string) error {
	switch format {
	case "json":
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(o.Result())
	case "yaml":
		text, err := yaml.Marshal(o.Result())
		if err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	}
	return o.table(w)
}
