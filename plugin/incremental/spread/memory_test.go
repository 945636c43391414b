package spread

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/slipway-k8s/slipway/plugin/incremental/incrementaltest"
)

// trial is a plugin whose memory is spoiled, in a cluster of six nodes in three zones, one of which has a pod.
type trial struct {
	*incrementaltest.World
	when   corev1.UnsatisfiableConstraintAction
	plugin *Plugin
	causes []string
}

func newTrial(t *testing.T, when corev1.UnsatisfiableConstraintAction) *trial {
	t.Helper()
	w := &trial{World: incrementaltest.New(t, 1), when: when}
	made, err := New(func(_ string, cause any) { w.causes = append(w.causes, fmt.Sprint(cause)) })(t.Context(), nil, w.Handle)
	if err != nil {
		t.Fatal(err)
	}
	w.plugin = made.(*Plugin)
	for i := range 6 {
		if node := w.AddNode(fmt.Sprint(1+i%3), "0").Name; i == 0 {
			w.AddPod(w.like(), node)
		}
	}
	return w
}

// like returns a pod of the one class.
func (w *trial) like() *corev1.Pod {
	name := w.Name("p")
	return st.MakePod().Namespace("a").Name(name).UID(name).Label("app", "x").SpreadConstraint(1, corev1.LabelTopologyZone, w.when,
		&metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}, nil, nil, nil, nil).Obj()
}

// class returns what is remembered.
func (w *trial) class(t *testing.T) *class {
	t.Helper()
	of, err := needsOf(w.like(), w.when)
	if err != nil {
		t.Fatal(err)
	}
	c, err := w.plugin.class(framework.NewCycleState(), w.like(), of, w.Nodes())
	if c == nil || err != nil {
		t.Fatalf("nothing is remembered of the class, error %v", err)
	}
	return c
}

// ask runs so many cycles, whose answers have to be PodTopologySpread's.
func (w *trial) ask(cycles int) { w.Same(w.plugin.PodTopologySpread, w.plugin, w.like, cycles) }

// What is remembered wrongly is not used, whether pods are filtered or scored by it: it is forgotten, and a second time the plugin remembers nothing for a while. A panic
// has the same end at once. The answers are PodTopologySpread's in all cycles.
func TestMemoryThatIsWrongIsGivenUp(t *testing.T) {
	wrong := func(c *class) { c.counts[0].add("3", 7) }
	for _, test := range []struct {
		name, cause string
		when        corev1.UnsatisfiableConstraintAction
		times       int
		spoil       func(c *class)
	}{
		{"filters", "differs from PodTopologySpread", corev1.DoNotSchedule, 2, wrong},
		{"scores", "differs from PodTopologySpread", corev1.ScheduleAnyway, 2, wrong},
		{"panics", "nil pointer", corev1.DoNotSchedule, 1, func(c *class) { c.counts[0] = nil }},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newTrial(t, test.when)
			for range test.times {
				w.ask(3)
				if len(w.causes) > 0 {
					t.Fatalf("tripped early: %q", w.causes)
				}
				test.spoil(w.class(t))
				w.AddPod(w.like(), w.Nodes()[1].Node().Name)
				w.ask(1)
			}
			w.ask(3)
			if len(w.causes) != 1 || !strings.Contains(w.causes[0], test.cause) {
				t.Errorf("causes %q, want one: %s", w.causes, test.cause)
			}
			if n := w.plugin.memory.Len(); n > 0 {
				t.Errorf("%d classes are remembered", n)
			}
		})
	}
}
