package pending

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// spreading is a held pod of a workload, whose spread over the key counts the pods of the app web in its namespace.
func spreading(namespace, name, owner, key string, action corev1.UnsatisfiableConstraintAction) intake.Entry {
	e := named(namespace, name)
	ownedBy(e.Pod, owner)
	e.Pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		TopologyKey: key, MaxSkew: 1, WhenUnsatisfiable: action, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
	}}
	e.Class = plan.ClassKey(e.Pod)
	return e
}

func ownedBy(pod *corev1.Pod, owner string) {
	if owner != "" {
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: "StatefulSet", Name: owner, Controller: new(true)}}
	}
}

// Held pods whose hard spread counts a pod that was bound are planned again, but not for a pod of their own workload; all with a hard spread are if a node is gone.
func TestSpread(t *testing.T) {
	zone, hard := corev1.LabelTopologyZone, corev1.DoNotSchedule
	for _, c := range []struct {
		name     string
		nodeGone bool
		// namespace, app and owner are those of the pod that was bound; no pod for no namespace.
		namespace, app, owner string
		want                  []string
	}{
		{name: "nothing"},
		{"a node is gone", true, "", "", "", []string{"bare", "elsewhere", "web"}},
		{"of another workload", false, "a", "web", "canary", []string{"bare", "web"}},
		{"of its own", false, "a", "web", "web", []string{"bare"}},
		{"without a controller", false, "a", "web", "", []string{"bare", "web"}},
		{"of other labels", false, "a", "db", "canary", nil},
		{"of another namespace", false, "b", "web", "canary", []string{"elsewhere"}},
	} {
		p, now := New(), time.Unix(0, 0)
		p.Hold(spreading("a", "web", "web", zone, hard))
		p.Hold(spreading("a", "bare", "", zone, hard))
		p.Hold(spreading("b", "elsewhere", "web", zone, hard))
		p.Hold(spreading("a", "hosts", "web", corev1.LabelHostname, hard))
		p.Hold(spreading("a", "soft", "web", zone, corev1.ScheduleAnyway))
		p.Hold(named("a", "plain"))
		var bound []*corev1.Pod
		if c.namespace != "" {
			pod := named(c.namespace, "bound").Pod
			pod.Labels = map[string]string{"app": c.app}
			ownedBy(pod, c.owner)
			bound = append(bound, pod)
		}
		p.Spread(c.nodeGone, bound, now)
		if which := p.Due(now.Add(replanFirst - 1)); which != nil {
			t.Errorf("%s: planned again at once", c.name)
		}
		var got []string
		if which := p.Due(now.Add(replanFirst)); which != nil {
			for _, e := range p.Again(which) {
				got = append(got, e.Pod.Name)
			}
		}
		if slices.Sort(got); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v are planned again, want %v", c.name, got, c.want)
		}
	}
}

// Where nodes go all the time, a pod is planned ever later.
func TestSpreadRests(t *testing.T) {
	p, now := New(), time.Unix(0, 0)
	p.Hold(spreading("a", "web", "web", corev1.LabelTopologyZone, corev1.DoNotSchedule))
	plans := 0
	for range 60 {
		p.Spread(true, nil, now)
		if which := p.Due(now); which != nil {
			for _, e := range p.Again(which) {
				plans++
				p.Hold(e)
			}
		}
		now = now.Add(time.Second)
	}
	if plans < 4 || plans > 7 {
		t.Errorf("planned %d times in a minute in which a node went each second, want after 1, 1, 2, 4, 8 and 16 s", plans)
	}
}
