package clusterview

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/version"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-helpers/nodedeclaredfeatures"
	"k8s.io/component-helpers/nodedeclaredfeatures/features"
	_ "k8s.io/kubernetes/pkg/features" // The gates of Kubernetes, with their defaults.
)

// gates are those of Kubernetes, as a kubelet reads them.
type gates struct{ featuregate.FeatureGate }

// Enabled reports whether the gate is on by default.
func (g gates) Enabled(key string) bool { return g.FeatureGate.Enabled(featuregate.Feature(key)) }

// The table is what the kubelet's own code declares: with the next version of Kubernetes in go.mod it has to be looked at again.
func TestDeclaredFeaturesAreTheKubelets(t *testing.T) {
	framework := nodedeclaredfeatures.New(features.AllFeatures)
	of := version.MajorMinor(1, kubeletMinor)
	want := framework.DiscoverNodeFeatures(&nodedeclaredfeatures.NodeConfiguration{FeatureGates: gates{utilfeature.DefaultFeatureGate}, Version: of})
	slices.Sort(want)
	if diff := cmp.Diff(want, declaredFeatures(kubeletMinor)); diff != "" {
		t.Errorf("-kubelet +table\n%s", diff)
	}
	if built := utilfeature.DefaultFeatureGate.(featuregate.MutableVersionedFeatureGate).EmulationVersion(); built.Minor() != kubeletMinor {
		t.Errorf("the scheduler is of 1.%d, and nodes are taken to be of 1.%d", built.Minor(), kubeletMinor)
	}
	if older := declaredFeatures(kubeletMinor - 1); len(older) > 0 {
		t.Errorf("a kubelet of 1.%d declares %v, want nothing: its gate NodeDeclaredFeatures is off", kubeletMinor-1, older)
	}
}
