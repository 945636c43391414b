package clusterview

import (
	"fmt"
	"math/rand/v2"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/daemon"
)

// A DaemonSet runs where the DaemonSet controller says, whatever its node affinity, selector and tolerations.
func TestDaemonsRunWhereTheControllerRunsThem(t *testing.T) {
	d := rand.New(rand.NewPCG(1, 1))
	one := func(list ...string) string { return list[d.IntN(len(list))] }
	runs := 0
	for i := range 5000 {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: one("a", "b"), Labels: map[string]string{"x": one("1", "2", "7"), one("y", "z"): ""}}}
		if d.IntN(2) == 0 {
			node.Spec.Taints = []corev1.Taint{{Key: one("x", "y"), Value: one("", "1"), Effect: corev1.TaintEffect(one("NoSchedule", "NoExecute", "PreferNoSchedule"))}}
		}
		ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "agent", UID: "agent"}}
		s := &ds.Spec.Template.Spec
		if d.IntN(8) == 0 {
			s.NodeName = one("a", "b")
		}
		if d.IntN(4) == 0 {
			s.NodeSelector = map[string]string{one("x", "y"): one("", "1", "2")}
		}
		if d.IntN(2) == 0 {
			s.Tolerations = []corev1.Toleration{{Key: one("x", "y", ""), Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffect(one("", "NoSchedule", "NoExecute"))}}
		}
		if d.IntN(2) == 0 {
			selector := &corev1.NodeSelector{}
			for range d.IntN(3) {
				term := corev1.NodeSelectorTerm{}
				if d.IntN(4) == 0 {
					term.MatchFields = []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{one("a", "b")}}}
				}
				for range d.IntN(2) * d.IntN(40) {
					term.MatchExpressions = append(term.MatchExpressions, expression(d, one))
				}
				selector.NodeSelectorTerms = append(selector.NodeSelectorTerms, term)
			}
			s.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: selector}}
		}
		want, _ := daemon.NodeShouldRunDaemonPod(klog.Background(), node, ds)
		if got := newDaemonSet(ds).runsOn(node); got != want {
			t.Fatalf("case %d: %t, want %t: node %v %v, pod %+v", i, got, want, node.Labels, node.Spec.Taints, s)
		}
		if want {
			runs++
		}
	}
	if runs < 500 || runs > 4500 {
		t.Errorf("%d of 5000 DaemonSets run: too few, or too many, to tell", runs)
	}
}

// expression is a requirement on labels; some cannot be parsed.
func expression(d *rand.Rand, one func(...string) string) corev1.NodeSelectorRequirement {
	switch d.IntN(40) {
	case 0:
		return corev1.NodeSelectorRequirement{Key: "x", Operator: corev1.NodeSelectorOpGt, Values: []string{one("3", "no number")}}
	case 1:
		return corev1.NodeSelectorRequirement{Key: one("x", "y"), Operator: corev1.NodeSelectorOpIn, Values: []string{one("1", "2", "")}}
	}
	return corev1.NodeSelectorRequirement{Key: one("x", "v"), Operator: corev1.NodeSelectorOpNotIn, Values: []string{one("8", "9")}}
}

// A pod that asks for more than a node has never runs there. A node that has reported nothing may have anything.
func TestDaemonsLargerThanTheNode(t *testing.T) {
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "agent", UID: "agent"}}
	requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), "example.com/gpu": resource.MustParse("1")}
	ds.Spec.Template.Spec.Containers = []corev1.Container{{Name: "a", Resources: corev1.ResourceRequirements{Requests: requests}}}
	for _, c := range []struct {
		cpu, gpu string
		want     bool
	}{{"4", "1", true}, {"2", "1", true}, {"1999m", "1", false}, {"4", "0", false}, {"0", "0", true}} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
		node.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(c.cpu), "example.com/gpu": resource.MustParse(c.gpu)}
		if got := newDaemonSet(ds).runsOn(node); got != c.want {
			t.Errorf("on a node with %s CPUs and %s GPUs: %v", c.cpu, c.gpu, got)
		}
	}
}

// A DaemonSet of 5,000 expressions and tolerations is compiled once: what is asked for each instance type in each zone copies and parses
// none of them.
func TestDaemonsShareWhatTheyAre(t *testing.T) {
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "agent", UID: "agent"}}
	term := corev1.NodeSelectorTerm{}
	for i := range 5000 {
		key := fmt.Sprintf("example.com/key-%d", i)
		term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpDoesNotExist})
		ds.Spec.Template.Spec.Tolerations = append(ds.Spec.Template.Spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
	}
	ds.Spec.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}},
	}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	d := newDaemonSet(ds)
	if n := testing.AllocsPerRun(10, func() { d.runsOn(node) }); n > 500 {
		t.Errorf("%v allocations to ask whether it runs on a node", n)
	}
	first, second := d.pod("a").Pod, d.pod("b").Pod
	if !d.runsOn(node) || first.Name != "agent-a" || first.Spec.NodeName != "a" || first.UID == second.UID || len(first.Spec.Tolerations) < 5000 {
		t.Errorf("pod %s of %s on %s with %d tolerations", first.Name, first.UID, first.Spec.NodeName, len(first.Spec.Tolerations))
	}
	if &first.Spec.Tolerations[0] != &second.Spec.Tolerations[0] {
		t.Error("each pod has a copy of the tolerations")
	}
}
