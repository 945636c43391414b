// Package intern has informers keep once what many objects have in common. The pods of a workload differ in their names and their status, nodes of one
// instance type in little more. All else is decoded from the API server's answer for each again, and is most of what a process that keeps them weighs.
package intern

import (
	"crypto/sha256"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/lru"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

const (
	// kept is how many different values of each part are known at a time. One that was forgotten is kept again for the pods that come.
	kept = 1024
	// largest is the size of a part as protobuf, in bytes, up to which it is kept: with kept it bounds what outlives its last pod to some tens of
	// megabytes, whatever pods contain.
	largest = 4096
)

// Objects keeps parts of objects. New makes it.
type Objects struct {
	// mu is held for an object: informers of several versions may share one.
	mu                         sync.Mutex
	specs, volumes, affinities part[corev1.PodSpec]
	identities                 part[metav1.ObjectMeta]
	texts                      part[string]
	resources                  part[corev1.ResourceList]
	requirements               part[[]karpv1.NodeSelectorRequirementWithMinValues]
	buffer                     []byte
}

// New returns one that knows no object.
func New() *Objects {
	return &Objects{
		specs: newPart[corev1.PodSpec](), volumes: newPart[corev1.PodSpec](), affinities: newPart[corev1.PodSpec](),
		identities: newPart[metav1.ObjectMeta](), texts: newPart[string](),
		resources: newPart[corev1.ResourceList](), requirements: newPart[[]karpv1.NodeSelectorRequirementWithMinValues](),
	}
}

// Transform is a cache.TransformFunc of client-go: it changes the object that was read and returns it. It leaves out managedFields. Of a pod it gives
// the volume of the service account's token the same name as in all pods. Equal parts of pods, Nodes and NodeClaims share their memory. So an object of the
// cache may not be changed, as ever, nor a pod written back whole. The error is always nil.
func (o *Objects) Transform(obj any) (any, error) {
	if m, err := meta.Accessor(obj); err == nil && m.GetManagedFields() != nil {
		m.SetManagedFields(nil)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch of := obj.(type) {
	case *corev1.Pod:
		o.pod(of)
	case *corev1.Node:
		o.node(of)
	case *karpv1.NodeClaim:
		o.claim(of)
	}
	return obj, nil
}

// text shares a text.
func text[T ~string](o *Objects, t *T) {
	*t = T(o.texts.share(string(*t), len(*t), string(*t)))
}

// condition shares the texts of a condition, which are the same for all objects that are in a state for the same reason.
func condition[K, S ~string](o *Objects, kind *K, status *S, reason, message *string) {
	text(o, kind)
	text(o, status)
	text(o, reason)
	text(o, message)
}

// fit returns the list in memory of its length: decoding doubles the memory as it goes on.
func fit[T any](list []T) []T {
	if cap(list) == len(list) {
		return list
	}
	return append(make([]T, 0, len(list)), list...)
}

// marshaler is a message of Kubernetes' protobuf.
type marshaler interface {
	Size() int
	MarshalToSizedBuffer(into []byte) (int, error)
}

// key is equal for equal values alone: protobuf has them whole, with the keys of maps in order. ok is false for a value that is too large, or that
// cannot be marshaled.
func (o *Objects) key(value marshaler) (key [sha256.Size]byte, size int, ok bool) {
	size = value.Size()
	if size > largest {
		return key, size, false
	}
	if o.buffer == nil {
		o.buffer = make([]byte, largest)
	}
	if _, err := value.MarshalToSizedBuffer(o.buffer[:size]); err != nil {
		return key, size, false
	}
	return sha256.Sum256(o.buffer[:size]), size, true
}

// part has the values of one part of objects that are known, by what is equal for equal values alone: their digest, or a text itself.
type part[T any] struct{ known *lru.Cache }

func newPart[T any]() part[T] { return part[T]{known: lru.New(kept)} }

// share returns the value that is known under the key, which is value itself where there is none. size is the value's, in bytes.
func (p part[T]) share(key any, size int, value T) T {
	if size == 0 || size > largest {
		return value
	}
	if known, ok := p.known.Get(key); ok {
		return known.(T)
	}
	p.known.Add(key, value)
	return value
}
