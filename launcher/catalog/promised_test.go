package catalog_test

import (
	"slices"
	"testing"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// The UIDs are found without decoding, and also where they have characters that JSON escapes.
func TestPromisedUIDs(t *testing.T) {
	pods := []catalog.PodRef{{UID: "a-1"}, {UID: "a-2", SchedulerOnly: "its network is not ready"}, {UID: "a-3", Adopted: true}}
	for range 2 {
		found := slices.Collect(catalog.PromisedUIDs(catalog.FormatPods(pods)))
		for _, p := range pods {
			if !slices.Contains(found, p.UID) {
				t.Errorf("%q is not among %q", p.UID, found)
			}
		}
		if slices.Contains(found, "a-4") {
			t.Errorf("found %q", found)
		}
		pods = append(pods, catalog.PodRef{UID: `a"\4`})
	}
	if found := slices.Collect(catalog.PromisedUIDs(`no list \ at all`)); len(found) != 0 {
		t.Errorf("found %q in what is no list", found)
	}
}
