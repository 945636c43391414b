package join_test

import (
	"cmp"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/scalein"
)

// ownedBy makes a pod one of a set.
func ownedBy(pod *corev1.Pod, kind string) {
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: "web", UID: "web", Controller: new(true)}}
}

// The pods of a ReplicaSet get one deletion cost on a node, but for one that the set keeps for last until it keeps enough. Those of others get none, and none do on the
// nodes of a NodePool that wants none.
func TestDeletionCosts(t *testing.T) {
	for what, c := range map[string]struct {
		kind, off  string
		elsewhere  string
		kept       int
		last, with int
	}{
		"the first node of a set":       {kind: "ReplicaSet", last: 1, with: 3},
		"the third one":                 {kind: "ReplicaSet", kept: scalein.LastNodes - 1, last: 1, with: 3},
		"the next one":                  {kind: "ReplicaSet", kept: scalein.LastNodes, with: 3},
		"pods of others name its UID":   {kind: "ReplicaSet", kept: scalein.LastNodes, elsewhere: "tenant-2", last: 1, with: 3},
		"a StatefulSet":                 {kind: "StatefulSet"},
		"a NodePool that wants none":    {kind: "ReplicaSet", off: catalog.DeletionCostOff},
		"a NodePool that says nonsense": {kind: "ReplicaSet", off: "no", last: 1, with: 3},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
			if c.off != "" {
				pool.Annotations = map[string]string{catalog.DeletionCostAnnotation: c.off}
			}
			w.create(pool)
			for i := range c.kept {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("kept-", i)}, Spec: corev1.PodSpec{NodeName: fmt.Sprint("other-", i)}}
				pod.Namespace = cmp.Or(c.elsewhere, pod.Namespace)
				ownedBy(pod, c.kind)
				pod.Annotations = map[string]string{corev1.PodDeletionCost: scalein.Cost(&corev1.Node{}, true)}
				w.create(pod)
			}
			names := []string{"web-1", "web-2", "web-3"}
			w.claim(time.Minute, names...)
			pod := func(name string) *corev1.Pod {
				out := &corev1.Pod{}
				if err := w.api.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: name}, out); err != nil {
					t.Fatal(err)
				}
				return out
			}
			for _, name := range names {
				p := pod(name)
				ownedBy(p, c.kind)
				if err := w.api.Update(t.Context(), p); err != nil {
					t.Fatal(err)
				}
			}
			controller := w.controller()
			w.looks(controller, 2)
			w.kubelet("node-1", corev1.ConditionTrue)
			w.looks(controller, 3)
			costs, with, last := map[string]bool{}, 0, 0
			for _, name := range names {
				p := pod(name)
				cost, there := p.Annotations[corev1.PodDeletionCost]
				switch {
				case p.Spec.NodeName != "node-1":
					t.Errorf("pod %s is not bound", name)
				case !there:
					continue
				case scalein.Kept(cost):
					last++
				default:
					costs[cost] = true
				}
				with++
			}
			if with != c.with || last != c.last || len(costs) > 1 {
				t.Errorf("%d pods have a deletion cost, %d are kept for last, the others cost %v; want %d and %d", with, last, costs, c.with, c.last)
			}
		})
	}
}
