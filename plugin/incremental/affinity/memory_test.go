package affinity

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/slipway-k8s/slipway/plugin/incremental/incrementaltest"
)

// What is remembered wrongly is found after some cycles, and is not used any more: from then on the answers are InterPodAffinity's. A panic ends the same way.
func TestMemoryThatIsWrongIsGivenUp(t *testing.T) {
	for name, spoil := range map[string]func(p *Plugin, of *class, nodes []fwk.NodeInfo){
		"differs from InterPodAffinity": func(p *Plugin, of *class, nodes []fwk.NodeInfo) {
			spoiled := framework.NewCycleState()
			spoiled.Write(counts, of.filter)
			for _, node := range nodes {
				for _, pod := range node.GetPods() {
					p.RemovePod(t.Context(), spoiled, of.pod.GetPod(), pod, node)
				}
			}
		},
		"nil": func(_ *Plugin, of *class, _ []fwk.NodeInfo) { of.pod, of.score = nil, nil },
	} {
		t.Run(name, func(t *testing.T) {
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
					PodAntiAffinity(corev1.LabelHostname, selector, st.PodAntiAffinityWithRequiredPreferredReq).Obj()
			}
			for i := range 4 {
				if node := w.AddNode("1", "0").Name; i%2 == 0 {
					w.AddPod(like(), node)
				}
			}
			for range 2 {
				w.Answers(p, like())
			}
			for _, of := range p.classes {
				spoil(p, of, w.Nodes())
			}
			for range 2 * 256 {
				w.Answers(p, like())
			}
			if len(causes) != 1 || !strings.Contains(causes[0], name) {
				t.Errorf("causes %q, want one: %s", causes, name)
			}
			pod := like()
			if want, got := w.Answers(p.InterPodAffinity, pod), w.Answers(p, pod); !slices.Equal(want, got) {
				t.Errorf("got %q\nwant %q", got, want)
			}
			if len(p.classes) > 0 {
				t.Errorf("%d classes are remembered", len(p.classes))
			}
		})
	}
}
