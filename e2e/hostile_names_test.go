package e2e_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

const (
	// longNames is the number of pods with names of 253 characters, all for one node.
	longNames = 600
	// annotationBytes is what the API server allows for all annotations of an object.
	annotationBytes = 256 << 10
)

// Six hundred pods of one node, with the longest names that the API server accepts and a volume of another name each, fit into the
// annotations of its NodeClaim: the node joins, its pods are bound ahead of the queue, and the claim is Initialized.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "long-names")
	boot := w.hold("long-names")
	w.pool("long-names", func(p *karpv1.NodePool) {
		onlyTypes(p, "c6gd.16xlarge")
		require(p, karpv1.CapacityTypeLabelKey, "on-demand")
	})
	tenant := w.tenant()
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "owner"}}
	w.create(owner)
	var group sync.WaitGroup
	for lane := range 8 {
		group.Go(func() {
			for i := lane; i < longNames; i += 8 {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: fmt.Sprintf("p-%s-%d", strings.Repeat("x", 247), 100+i)}}
				pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID, Controller: new(true)}}
				pod.Spec = w.podSpec("10m", "16Mi", nil)
				pod.Spec.Volumes = []corev1.Volume{{Name: fmt.Sprintf("v-%d-%s", i, strings.Repeat("y", 50)), VolumeSource: corev1.VolumeSource{
					ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "owner"}},
				}}}
				if err := persist(t.Context(), func() error { return tenant.Create(t.Context(), pod) }); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	created := time.Now()
	w.awaitPromised("long-names", longNames)
	boot()
	w.awaitRunning(longNames)
	t.Logf("%d pods ran %v after the last was created", longNames, time.Since(created))
	most := 0
	for _, c := range w.claimsOf("long-names") {
		total := 0
		for key, value := range c.Object.Annotations {
			total += len(key) + len(value)
		}
		most = max(most, strings.Count(c.Object.Annotations[catalog.PodsAnnotation], `-`)/4)
		shared.measured(t, "NodeClaim %s: annotations of %d bytes, %d of them %s, %d of them %s", c.Object.Name, total,
			len(c.Object.Annotations[catalog.PodsAnnotation]), catalog.PodsAnnotation, len(c.Object.Annotations[catalog.BindingsAnnotation]), catalog.BindingsAnnotation)
		if total > annotationBytes/2 {
			t.Errorf("annotations of %d bytes, more than half of what the API server allows", total)
		}
		if c.Object.Annotations[catalog.BindingsAnnotation] == "" {
			t.Error("when the pods are bound is not recorded")
		}
	}
	w.await(t, "the NodeClaims to be initialized", func() bool {
		for _, c := range w.claimsOf("long-names") {
			if !c.Object.StatusConditions().Get(karpv1.ConditionTypeInitialized).IsTrue() {
				return false
			}
		}
		return true
	})
	if most < longNames/2 {
		t.Errorf("at most %d pods were promised to one node, want %d", most, longNames/2)
	}
}
