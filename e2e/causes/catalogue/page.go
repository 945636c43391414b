package catalogue

import (
	"fmt"
	"strings"
)

// Page returns the tables of docs/causes.md.
func Page(groups []Group) string {
	var out strings.Builder
	for _, g := range groups {
		fmt.Fprintf(&out, "## %s\n\n| sentence | what it means | the edit that `slipway explain` proposes |\n|---|---|---|\n", g.Title)
		for i := range g.Causes {
			c := &g.Causes[i]
			fmt.Fprintf(&out, "| %s | %s | %s |\n", cell(c.shown(c.Says)), cell(c.Means), cell(c.shown(c.Edit)))
		}
		out.WriteByte('\n')
	}
	return out.String()
}

// shown returns a text for readers: the names of the sandbox's objects are NAME.
func (c *Cause) shown(text string) string { return strings.ReplaceAll(text, c.Name, "NAME") }

// cell returns a text as a cell of a table.
func cell(text string) string { return strings.ReplaceAll(strings.TrimSpace(text), "|", `\|`) }
