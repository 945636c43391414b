package variants_test

import (
	"flag"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/sandbox"
)

// version is the Kubernetes version of TestVersion. The default is the oldest that is supported: it has the least of what a scheduler of 1.36 knows.
var version = flag.String("variants.version", "1.33", "Kubernetes version that API server, controllers and scheduler emulate in TestVersion")

// An API server of an older version, and the scheduler with --emulated-version of the same: pods get nodes, nodes are consolidated, a deleted
// node's pod gets another one. The scheduler has no feature on that the API server's version does not have on, and neither program asks for
// an API that is not served.
func TestVersion(t *testing.T) {
	l := newLab(t, sandbox.Config{EmulatedVersion: *version})
	t.Run("emulates", func(t *testing.T) { l.emulates(t) })
	filler := l.deployment("filler", 2, "1300m", nil)
	l.deployment("web", 2, "300m", func(s *corev1.PodSpec) {
		s.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		}}
	})
	l.awaitRunning("filler", 2)
	l.awaitRunning("web", 2)
	before := len(l.claims())
	if before < 2 {
		t.Errorf("%d NodeClaims for pods that fill two nodes", before)
	}
	l.scale(filler, 0)
	l.Await("consolidation onto one node", func() bool { return len(l.claims()) == 1 && len(l.pods("web")) == 2 })
	last := l.claims()[0].Object
	if err := l.API.Delete(t.Context(), &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: last.Name}}, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Fatal(err)
	}
	l.Await("the pods to run on another node", func() bool {
		claims := l.claims()
		return len(claims) == 1 && claims[0].Object.Name != last.Name && len(l.pods("web")) == 2
	})
	t.Run("features", func(t *testing.T) { l.sameFeatures(t) })
	l.logsLack("the server could not find the requested resource", "no matches for kind", "unknown field", " is forbidden: User ",
		"the server rejected our request")
}

// emulates holds that the API server is of the version.
func (l *lab) emulates(t *testing.T) {
	t.Helper()
	got, err := l.Client().Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if emulated := got.EmulationMajor + "." + got.EmulationMinor; emulated != *version {
		t.Errorf("the API server emulates %s, want %s", emulated, *version)
	}
}

// sameFeatures holds that the scheduler has no feature on that Kubernetes of the API server's version, which runs in this process, has not.
func (l *lab) sameFeatures(t *testing.T) {
	t.Helper()
	known := utilfeature.DefaultMutableFeatureGate.GetAll()
	asked := 0
	for _, m := range l.schedulerMetrics()["kubernetes_feature_enabled"].GetMetric() {
		var name string
		for _, label := range m.GetLabel() {
			if label.GetName() == "name" {
				name = label.GetValue()
			}
		}
		if _, ok := known[featuregate.Feature(name)]; !ok || strings.HasPrefix(name, "All") {
			continue
		}
		asked++
		if m.GetGauge().GetValue() == 1 && !utilfeature.DefaultFeatureGate.Enabled(featuregate.Feature(name)) {
			t.Errorf("the scheduler has %s on, which Kubernetes %s has not", name, *version)
		}
	}
	if asked < 50 {
		t.Errorf("the scheduler shows %d features that the API server knows, want all of them", asked)
	}
}
