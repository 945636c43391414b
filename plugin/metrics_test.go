package plugin_test

import (
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/slipway-k8s/slipway/internal/announce"
	"github.com/slipway-k8s/slipway/internal/described"
	"github.com/slipway-k8s/slipway/plugin"
)

// docs/metrics.md lists what the plugin registers, whole and by its right name, with its labels.
func TestMetricsAreDocumented(t *testing.T) {
	registered := &described.Registerer{}
	if _, err := plugin.New(plugin.Options{Registerer: registered}); err != nil {
		t.Fatal(err)
	}
	// The program's Events are written by what it gives the plugin.
	if _, err := announce.NewFor(&rest.Config{}, registered, 0); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	if want, got := registered.Rows(), described.Section(string(page), "## The scheduler"); !slices.Equal(want, got) {
		t.Errorf("docs/metrics.md (-want +got):\n%s", cmp.Diff(want, got))
	}
}
