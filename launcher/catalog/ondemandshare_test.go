package catalog_test

import (
	"testing"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

func TestOnDemandShare(t *testing.T) {
	for text, want := range map[string]float64{"30%": 0.3, " 50 ": 0.5, "0": 0, "100%": 1, "12.5%": 0.125} {
		if got, err := catalog.OnDemandShare(map[string]string{catalog.OnDemandShareAnnotation: text}); err != nil || got != want {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "a third", "-1", "101%", "NaN", "0.5.1", "%"} {
		got, err := catalog.OnDemandShare(map[string]string{catalog.OnDemandShareAnnotation: text})
		if err == nil || got != 0 {
			t.Errorf("%q is %v without an error; want 0 and an error", text, got)
		}
	}
	if got, err := catalog.OnDemandShare(nil); got != 0 || err != nil {
		t.Errorf("without the annotation it is %v, %v", got, err)
	}
}
