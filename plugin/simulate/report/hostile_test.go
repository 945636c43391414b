package report_test

import (
	"strings"
	"testing"
)

// evil is a name that would end any place of a page, run a script, fetch a picture and turn the direction of reading.
const evil = `'\"></style></script><script>alert(1)</script><img src=x onerror=alert(2)><a href=javascript:alert(3)>{{.}}\u202e\u0000` + "`"

// Names, labels and messages are shown, and do nothing else.
func TestNamesRunNothing(t *testing.T) {
	for name, page := range map[string]string{
		"plan":  planned(t, hostile(file(t, "plan.yaml"))),
		"fleet": consolidated(t, hostile(file(t, "fleet.yaml"))),
	} {
		wellFormed(t, name, page)
		shown := textOf(t, page)
		for _, want := range []string{"<script>alert(1)</script>", "onerror=alert(2)", "{{.}}"} {
			if !strings.Contains(shown, want) {
				t.Errorf("%s does not show %s:\n%s", name, want, shown)
			}
		}
		if strings.Contains(page, "<script") || strings.Contains(page, "<img") {
			t.Errorf("%s has an element of a name", name)
		}
	}
}

// hostile gives names of all kinds the text behind them.
func hostile(text string) string {
	for _, word := range []string{
		"name: default", "nodepool: default", "name: team", "nodepool: team", "name: n1", "nodeName: n1", "name: large1", "nodeName: large1", "namespace: shop",
		"name: web", "name: web-5d4f-1", "name: web-5d4f", "name: train", "instance-type: unheard.of", "name: gated", "name: example.com/wait", "name: kept", "nodeName: kept",
	} {
		key, value, _ := strings.Cut(word, ": ")
		for _, end := range []string{",", "}"} {
			text = strings.ReplaceAll(text, word+end, key+`: "`+value+evil+`"`+end)
		}
	}
	return text
}
