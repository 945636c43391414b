package catalog

import (
	"strings"
	"testing"
)

// A value is suggested where the asked one is a misspelling, and not where it is another word.
func TestNearest(t *testing.T) {
	families := []string{"c7g", "m6i", "m7g", "m7gd", "r7g"}
	for asked, want := range map[string]string{
		"m7gg": "m7g", "M7G": "m7g", "m7-g": "m7g", "6mi": "m6i", "m7i": "", "x1e.large": "", "ab": "", "m": "", "": "", strings.Repeat("m7g", 10000): "",
	} {
		if got := Nearest(Set{Values: map[string]bool{asked: true}}, families); got != want {
			t.Errorf("%.20q: %q, want %q", asked, got, want)
		}
	}
	if got := Nearest(Set{Values: map[string]bool{"m7gg": true}, Complement: true}, families); got != "" {
		t.Errorf("all but m7gg: %q", got)
	}
	if got := Nearest(Set{Values: map[string]bool{"amd64": true}}, []string{"arm64"}); got != "" {
		t.Errorf("amd64: %q", got)
	}
	if got := Offered(Set{Values: map[string]bool{"spto": true}}, []string{"on-demand", "spot"}); got != "[on-demand spot]; did you mean spot?" {
		t.Error(got)
	}
}
