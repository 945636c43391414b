package simulate_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/slipway-k8s/slipway/plugin/simulate"
)

// A simulation of slipway's own profile keeps affinity and topology spread: it has Kubernetes' plugins in place of those with a memory, and has nothing to note.
func TestSampleKeepsAffinityAndSpread(t *testing.T) {
	text, err := os.ReadFile("../../manifests/scheduler/beside.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s, err := simulate.ReadScheduler(text)
	if err != nil {
		t.Fatal(err)
	}
	points := s.Profiles()[0].Plugins.MultiPoint
	for _, name := range []string{"InterPodAffinity", "PodTopologySpread"} {
		named := func(p config.Plugin) bool { return p.Name == name }
		if !slices.ContainsFunc(points.Enabled, named) || slices.ContainsFunc(points.Disabled, named) {
			t.Errorf("%s: enabled %v, disabled %v", name, points.Enabled, points.Disabled)
		}
	}
	if len(s.Notes) > 0 {
		t.Errorf("notes %q", s.Notes)
	}
	lists := strings.ReplaceAll(string(text), "    pluginConfig:\n", "    pluginConfig:\n      - {name: PodTopologySpread, args: {defaultingType: List}}\n")
	if _, err := simulate.ReadScheduler([]byte(lists)); err == nil || !strings.Contains(err.Error(), "args of PodTopologySpread have no effect") {
		t.Errorf("args without effect: error %v", err)
	}
}
