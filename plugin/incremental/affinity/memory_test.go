package affinity

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/slipway-k8s/slipway/plugin/incremental/incrementaltest"
)

// spoiled has the class count none of the pods that there are.
func spoiled(t *testing.T, p *Plugin, of *class, nodes []fwk.NodeInfo) {
	t.Helper()
	wrong := framework.NewCycleState()
	wrong.Write(counts, of.filter)
	for _, node := range nodes {
		for _, pod := range node.GetPods() {
			if status := p.RemovePod(t.Context(), wrong, of.pod.GetPod(), pod, node); !status.IsSuccess() {
				t.Fatal(status)
			}
		}
	}
}

// trial is a plugin whose memory is spoiled, in a cluster of four nodes of which two have a pod.
type trial struct {
	*incrementaltest.World
	plugin *Plugin
	causes []string
}

func newTrial(t *testing.T) *trial {
	t.Helper()
	w := &trial{World: incrementaltest.New(t, 1)}
	made, err := New(func(_ string, cause any) { w.causes = append(w.causes, fmt.Sprint(cause)) })(t.Context(), nil, w.Handle)
	if err != nil {
		t.Fatal(err)
	}
	w.plugin = made.(*Plugin)
	for i := range 4 {
		if node := w.AddNode("1", "0").Name; i%2 == 0 {
			w.AddPod(w.like(), node)
		}
	}
	return w
}

// like returns a pod of the one class.
func (w *trial) like() *corev1.Pod {
	name := w.Name("p")
	return st.MakePod().Namespace("a").Name(name).UID(name).Label("app", "x").PodAntiAffinity(corev1.LabelHostname,
		&metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}, st.PodAntiAffinityWithRequiredPreferredReq).Obj()
}

// ask runs so many cycles, whose answers have to be InterPodAffinity's.
func (w *trial) ask(cycles int) { w.Same(w.plugin.InterPodAffinity, w.plugin, w.like, cycles) }

// What is remembered wrongly is not used: it is forgotten, and a second time the plugin remembers nothing for a while. A panic has the same end at once. The answers are
// InterPodAffinity's in all cycles.
func TestMemoryThatIsWrongIsGivenUp(t *testing.T) {
	for _, test := range []struct {
		name, cause string
		times       int
		spoil       func(p *Plugin, of *class, nodes []fwk.NodeInfo)
	}{
		{"differs", "differs from InterPodAffinity", 2, func(p *Plugin, of *class, nodes []fwk.NodeInfo) { spoiled(t, p, of, nodes) }},
		{"panics", "nil pointer", 1, func(_ *Plugin, of *class, _ []fwk.NodeInfo) { of.pod, of.score = nil, nil }},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newTrial(t)
			for range test.times {
				w.ask(3)
				of, err := w.plugin.class(w.like())
				if of == nil || err != nil || len(w.causes) > 0 {
					t.Fatalf("class %v is remembered, error %v, tripped %q", of, err, w.causes)
				}
				test.spoil(w.plugin, of, w.Nodes())
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

// Labels of a namespace that change while InterPodAffinity counts are not those that it counted with: nothing is remembered of that.
func TestNamespaceThatChangesMeanwhile(t *testing.T) {
	w := incrementaltest.New(t, 1)
	made, err := New(w.Tripped)(t.Context(), nil, w.Handle)
	if err != nil {
		t.Fatal(err)
	}
	p := made.(*Plugin)
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}
	pod := st.MakePod().Namespace("a").Name("p").UID("p").Label("app", "x").PodAntiAffinity(corev1.LabelHostname, selector, st.PodAntiAffinityWithRequiredReq).Obj()
	w.AddNode("1", "0")
	for name, change := range map[string]func(state fwk.CycleState){
		"labels": func(fwk.CycleState) { w.Label("a", "2") },
		"ledger": func(fwk.CycleState) { p.memory.Forget() },
		"none":   func(fwk.CycleState) {},
	} {
		state := framework.NewCycleState()
		other := pod.DeepCopy()
		other.UID = "other"
		if first, err := p.class(other); first != nil || err != nil {
			t.Fatalf("%s: class %v is remembered before a second pod of it came, error %v", name, first, err)
		}
		of, remembered := p.recall(t.Context(), state, pod, w.Nodes())
		if of == nil || remembered {
			t.Fatalf("%s: class %v, remembered %t", name, of, remembered)
		}
		if _, status := p.InterPodAffinity.PreFilter(t.Context(), state, pod, w.Nodes()); !status.IsSuccess() {
			t.Fatal(status)
		}
		change(state)
		p.remember(state, pod, of)
		if kept := of.filter != nil; kept != (name == "none") {
			t.Errorf("%s changes: remembered %t", name, kept)
		}
		p.memory.Forget()
	}
}
