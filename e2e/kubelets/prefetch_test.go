package kubelets_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/machines/registry"
	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// While a node's network starts, it pulls what its pods will need, with the credentials that its kubelet would use, and the
// kubelet finds it there. What only the pod's own Secret opens is the kubelet's.
func TestPrefetch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "prefetch")
	w.pool("prefetch", late)
	off := nodeClass("prefetch-off", "")
	off.Annotations = map[string]string{catalog.PrefetchAnnotation: catalog.PrefetchOff}
	w.create(off)
	w.pool("prefetch-off", func(p *karpv1.NodePool) {
		late(p)
		p.Spec.Template.Labels["prefetch"] = "off"
		p.Spec.Template.Spec.NodeClassRef.Name = "prefetch-off"
	})
	// Images of one content are one to the kubelet, which would ask the registry again about the name that it did not pull itself.
	const (
		big     = "example.com/prefetch/pad-60:1"
		private = "123456789012.dkr.ecr.us-east-1.amazonaws.com/prefetch/pad-10:1"
		secret  = "example.com/prefetch/secret:1"
		without = "example.com/prefetch/without:1"
	)
	on := func(image string, change func(*corev1.PodSpec)) corev1.PodSpec {
		return w.spec("500m", 0, func(s *corev1.PodSpec) {
			s.Containers[0].Image = image
			s.NodeSelector[karpv1.NodePoolLabelKey] = "prefetch"
			if change != nil {
				change(s)
			}
		})
	}
	w.deployment("big", 2, on(big, nil))
	w.deployment("private", 1, on(private, nil))
	w.deployment("secret", 1, on(secret, func(s *corev1.PodSpec) { s.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "mine"}} }))
	w.deployment("without", 1, on(without, func(s *corev1.PodSpec) { s.NodeSelector[karpv1.NodePoolLabelKey] = "prefetch-off" }))
	w.await(t, "all pods to run", func() bool { return w.running("") == 5 })
	w.noneFailed("")

	node, other := w.firstNode("prefetch"), w.firstNode("prefetch-off")
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("what the node's unit did:\n%s", w.unitLog(node))
		}
	})
	if list := node.Object.Annotations[catalog.PrefetchAnnotation]; list != big+","+private {
		t.Errorf("the node was told to pull %q", list)
	}
	for _, c := range []struct {
		image, pods string
		node        *observe.Node
		ahead       bool
	}{{big, "big", node, true}, {private, "private", node, true}, {secret, "secret", node, false}, {without, "without", other, false}} {
		began := w.pulls(c.image)
		if len(began) == 0 {
			t.Errorf("nobody pulled %s", c.image)
			continue
		}
		first := slices.MinFunc(began, time.Time.Compare)
		if got := first.Before(c.node.Ready.At); got != c.ahead {
			t.Errorf("%s was first pulled at %s, the node was Ready at %s", c.image, first, c.node.Ready.At)
		}
		for _, p := range w.pods(c.pods) {
			if pulled := len(w.events(p.Object.Name, "Pulling")) > 0; pulled == c.ahead {
				t.Errorf("the kubelet pulled %s itself: %v", c.image, pulled)
			}
		}
	}
}

// A node pulls few images at a time, lest a slow registry gives each of them little and its disk all of them at once: the next one begins
// when one is done.
func TestPullLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "limit")
	w.pool("limit", late)
	// Each has a content of its own, and takes seconds.
	const images, limit = 7, 3
	for i := range images {
		w.deployment(fmt.Sprintf("web-%d", i), 1, w.spec("400m", 0, func(s *corev1.PodSpec) {
			s.Containers[0].Image = fmt.Sprintf("example.com/limit/pad-%d:1", 30+i)
		}))
	}
	w.await(t, "all pods to run", func() bool { return w.running("") == images })
	w.noneFailed("")
	if n := len(w.claims("limit")); n != 1 {
		t.Fatalf("the pods have %d nodes, this test is about one", n)
	}
	node := w.firstNode("limit")
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("what the node's unit did:\n%s", w.unitLog(node))
		}
	})
	// From a manifest to the last layer.
	pulls := map[string]registry.Download{}
	for _, d := range w.downloads("example.com/limit/") {
		began := slices.MinFunc(w.pulls(d.Repository+":1"), time.Time.Compare)
		if began.Before(node.Ready.At) && d.To.After(pulls[d.Repository].To) {
			pulls[d.Repository] = registry.Download{Repository: d.Repository, From: began, To: d.To}
		}
	}
	most := 0
	for _, at := range pulls {
		n := 0
		for _, other := range pulls {
			if !other.From.After(at.From) && other.To.After(at.From) {
				n++
			}
		}
		most = max(most, n)
	}
	if most != limit || len(pulls) <= limit {
		t.Errorf("%d images were pulled ahead, at most %d at a time, want more than %d and %d: %+v", len(pulls), most, limit, limit, pulls)
	}
}

// unitLog is what the prefetch unit of a node has to say.
func (c *cluster) unitLog(node *observe.Node) string {
	id := node.Object.Spec.ProviderID
	return tail(filepath.Join(c.Folder(), "machines", id[strings.LastIndexByte(id, '/')+1:], "prefetch.log"))
}

// A pod that was bound before its kubelet had a network waits for its service account's volume, in ever longer steps (R12). One
// that is bound when the network is there does not.
func TestR12BoundBeforeNetwork(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "r12")
	w.pool("r12", late)
	w.deployment("ours", 1, w.spec("500m", 0, nil))
	w.careless("careless", "r12", w.spec("100m", 0, nil))
	w.await(t, "both pods to run", func() bool { return w.running("") == 2 })
	ours, careless := w.pods("ours")[0], w.pods("careless")[0]
	if len(w.events("careless", "FailedMount")) == 0 {
		t.Error("the pod that was bound before the network had no trouble: is R12 history?")
	}
	if found := w.events(ours.Object.Name, "FailedMount"); len(found) > 0 {
		t.Errorf("ours had the same trouble: %s", found[0].Message)
	}
	if !ours.Running.Before(careless.Running) {
		t.Errorf("ours ran at %v, the one that was bound before the network at %v", ours.Running.At, careless.Running.At)
	}
}
