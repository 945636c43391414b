package chart_test

import (
	"path/filepath"
	"testing"

	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"

	"github.com/slipway-k8s/slipway/manifests/chart"
)

// `helm lint --strict` finds nothing in the charts that are packed, whichever values are set.
func TestHelmLint(t *testing.T) {
	folder := t.TempDir()
	for name, all := range map[string]map[string]map[string]any{
		"slipway":      {"minimal": minimal(), "everything": everything()},
		"slipway-crds": {"no values": {}},
	} {
		archive, err := chart.Pack("../charts/"+name, "v1.2.3", folder, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := chartutil.ExpandFile(folder, archive); err != nil {
			t.Fatal(err)
		}
		for which, values := range all {
			found := lint.AllWithKubeVersion(filepath.Join(folder, name), values, "kube-system", &chartutil.KubeVersion{Version: "v1.36.0", Major: "1", Minor: "36"})
			for _, m := range found.Messages {
				if m.Severity >= support.WarningSev {
					t.Errorf("%s with %s: %s", name, which, m.Error())
				}
			}
		}
	}
}
