package server

import (
	"context"
	"sync"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/slipway-k8s/slipway/internal/deleted"
)

// hub notifies all streams of a change; they find out themselves what changed.
type hub struct {
	mu      sync.Mutex
	changed chan struct{}
	// nodes maps each Node to the number of its last change, changes is the number of the last change of any.
	nodes   map[string]uint64
	changes uint64
	// ends are those that the cache showed.
	ends shownEnds
}

func newHub() *hub { return &hub{changed: make(chan struct{}), nodes: map[string]uint64{}} }

// touch records a change of a Node, gone its deletion.
func (h *hub) touch(node string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changes++
	h.nodes[node] = h.changes
}

func (h *hub) gone(node string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.nodes, node)
}

// versionOf returns a number that increases with the Node's changes; read it before the Node.
func (h *hub) versionOf(node string) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.nodes[node]
}

func (h *hub) notify() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.changed)
	h.changed = make(chan struct{})
}

// next returns a channel that is closed at the first notification after the call.
func (h *hub) next() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changed
}

// watch notifies the hub of every change that a stream may send.
func (s *Server) watch(ctx context.Context) error {
	for _, obj := range watched(s.config.Overlays) {
		informer, err := s.config.Cache.GetInformer(ctx, obj)
		if err != nil {
			return err
		}
		notify := func(before, after client.Object) {
			if decidesTypes(before, after, s.config.Overlay != nil) {
				s.types.poke()
			}
			s.hub.notify()
		}
		// The version of a Node is recorded before the streams read it.
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(added any) {
				if node, ok := added.(*corev1.Node); ok {
					s.hub.touch(node.Name)
				}
				notify(nil, object(added))
			},
			UpdateFunc: func(before, after any) {
				if matters(before, after) {
					if node, ok := after.(*corev1.Node); ok {
						s.hub.touch(node.Name)
					}
					s.hub.ends.changed(before, after)
					notify(object(before), object(after))
				}
			},
			DeleteFunc: func(obj any) {
				obj = deleted.Object(obj)
				if node, ok := obj.(*corev1.Node); ok {
					s.hub.gone(node.Name)
				}
				s.hub.ends.changed(obj, nil)
				notify(nil, object(obj))
			},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// watched returns an object of each kind whose changes a stream may send.
func watched(overlays bool) []client.Object {
	out := []client.Object{&karpv1.NodePool{}, &karpv1.NodeClaim{}, &corev1.Node{}, &awsv1.EC2NodeClass{}}
	if overlays {
		out = append(out, &v1alpha1.NodeOverlay{})
	}
	return out
}

// object returns an informer's object; nil for one that is none.
func object(from any) client.Object {
	out, _ := from.(client.Object)
	return out
}

// decidesTypes reports whether a change may be one of instance types. Of NodePools and NodeOverlays, whose status changes with each node, only
// another spec is; before is nil for an object that is new or deleted.
func decidesTypes(before, after client.Object, overlays bool) bool {
	switch after.(type) {
	case *awsv1.EC2NodeClass:
		return true
	case *karpv1.NodePool, *v1alpha1.NodeOverlay:
		return overlays && (before == nil || before.GetGeneration() != after.GetGeneration())
	}
	return false
}

// matters filters out the heartbeats of nodes that slipway does not manage or that are initialized: thousands of them contain no news.
func matters(before, after any) bool {
	node, ok := after.(*corev1.Node)
	if !ok {
		return true
	}
	old, ok := before.(*corev1.Node)
	if !ok || node.Labels[karpv1.NodePoolLabelKey] == "" {
		return false
	}
	return node.Labels[karpv1.NodeInitializedLabelKey] == "" || old.Labels[karpv1.NodeInitializedLabelKey] == ""
}

// failures records why claims failed, by name: the planner never uses a name twice.
type failures struct {
	mu     sync.Mutex
	claims map[string]failure
	order  []string
}

type failure struct{ reason, message string }

// mostFailures bounds the memory: an ending is sent within milliseconds of the failure.
const mostFailures = 10_000

func newFailures() *failures { return &failures{claims: map[string]failure{}} }

func (f *failures) note(claim, reason, message string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, known := f.claims[claim]; !known {
		f.order = append(f.order, claim)
	}
	f.claims[claim] = failure{reason, message}
	if len(f.order) > mostFailures {
		delete(f.claims, f.order[0])
		f.order = f.order[1:]
	}
}

func (f *failures) named(claim string) (failure, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	found, ok := f.claims[claim]
	return found, ok
}
