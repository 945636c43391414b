package pending

import (
	"testing"

	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// A batch that fails is tried by namespace, then in halves, gangs whole.
func TestDivide(t *testing.T) {
	gang := func(name string) intake.Entry {
		e := named("b", name)
		e.Gang = plan.Gang{Name: "b/g"}
		return e
	}
	text := func(parts [][]intake.Entry) string {
		out := ""
		for _, part := range parts {
			for _, e := range part {
				out += e.Pod.Namespace + e.Pod.Name + " "
			}
			out += "| "
		}
		return out
	}
	mixed := []intake.Entry{named("a", "1"), named("b", "1"), named("a", "2"), named("c", "1")}
	if got, want := text(Divide(mixed)), "a1 a2 | b1 | c1 | "; got != want {
		t.Errorf("divided into %q, want %q", got, want)
	}
	one := []intake.Entry{gang("1"), named("b", "2"), gang("3"), gang("4")}
	if got, want := text(Divide(one)), "b1 b3 b4 | b2 | "; got != want {
		t.Errorf("divided into %q, want %q", got, want)
	}
}
