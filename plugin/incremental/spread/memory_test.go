package spread

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/slipway-k8s/slipway/plugin/incremental/incrementaltest"
)

// What is remembered wrongly is found after some cycles, whether pods are filtered or scored by it, and is not used any more: from then on the answers are
// PodTopologySpread's. A panic ends the same way.
func TestMemoryThatIsWrongIsGivenUp(t *testing.T) {
	wrong := func(c *class) {
		for i := range c.counts {
			c.counts[i].add("3", 7)
		}
	}
	for _, test := range []struct {
		name, cause string
		when        corev1.UnsatisfiableConstraintAction
		spoil       func(c *class)
	}{
		{"filters", "differs from PodTopologySpread", corev1.DoNotSchedule, wrong},
		{"scores", "differs from PodTopologySpread", corev1.ScheduleAnyway, wrong},
		{"panics", "nil", corev1.DoNotSchedule, func(c *class) { c.counts = []*counts{nil} }},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := incrementaltest.New(t, 1)
			var causes []string
			made, err := New(func(_ string, cause any) { causes = append(causes, fmt.Sprint(cause)) })(t.Context(), nil, w.Handle)
			if err != nil {
				t.Fatal(err)
			}
			p := made.(*Plugin)
			selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}
			like := func() *corev1.Pod {
				name := w.Name("p")
				return st.MakePod().Namespace("a").Name(name).UID(name).Label("app", "x").
					SpreadConstraint(1, corev1.LabelTopologyZone, test.when, selector, nil, nil, nil, nil).Obj()
			}
			for i := range 6 {
				if node := w.AddNode(fmt.Sprint(1+i%3), "0").Name; i == 0 {
					w.AddPod(like(), node)
				}
			}
			for range 2 {
				w.Answers(p, like())
			}
			for _, c := range p.classes {
				test.spoil(c)
			}
			w.AddPod(like(), w.Nodes()[1].Node().Name)
			for range 2 * 256 {
				w.Answers(p, like())
			}
			if len(causes) != 1 || !strings.Contains(causes[0], test.cause) {
				t.Errorf("causes %q, want one: %s", causes, test.cause)
			}
			pod := like()
			if want, got := w.Answers(p.PodTopologySpread, pod), w.Answers(p, pod); !slices.Equal(want, got) {
				t.Errorf("got %q\nwant %q", got, want)
			}
			if len(p.classes) > 0 {
				t.Errorf("%d classes are remembered", len(p.classes))
			}
		})
	}
}
