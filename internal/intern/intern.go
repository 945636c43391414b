// Package intern has informers keep once what many pods have in common. The pods of a workload differ in their names and their status; all else is
// decoded from the API server's answer for each again, and is most of what a process that keeps all pods weighs.
package intern

import (
	"crypto/sha256"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/lru"
)

const (
	// kept is how many different values of each part are known at a time. One that was forgotten is kept again for the pods that come.
	kept = 1024
	// largest is the size of a part as protobuf, in bytes, up to which it is kept: with kept it bounds what outlives its last pod to some tens of
	// megabytes, whatever pods contain.
	largest = 4096
	// tokenVolume is the prefix of the volume that every pod gets for its service account's token. Its suffix is random
	// (plugin/pkg/admission/serviceaccount, ServiceAccountVolumeName), and nothing refers to it from outside of the pod.
	tokenVolume = "kube-api-access-"
	// sharedToken is its name in all pods.
	sharedToken = tokenVolume + "token"
)

// Pods keeps parts of pods. New makes it.
type Pods struct {
	// mu is held for a pod: informers of several versions may share one.
	mu                         sync.Mutex
	specs, volumes, affinities part[corev1.PodSpec]
	identities                 part[metav1.ObjectMeta]
	messages                   part[string]
	marshaled                  []byte
}

// New returns one that knows no pod.
func New() *Pods {
	return &Pods{
		specs: newPart[corev1.PodSpec](), volumes: newPart[corev1.PodSpec](), affinities: newPart[corev1.PodSpec](),
		identities: newPart[metav1.ObjectMeta](), messages: newPart[string](),
	}
}

// Transform is a cache.TransformFunc of client-go: it changes the object that was read and returns it. It leaves out managedFields. Of a pod it gives
// the volume of the service account's token the same name as in all pods, and has equal parts of pods share their memory. So a pod of the cache may not be changed,
// as ever, nor written back whole. The error is always nil.
func (p *Pods) Transform(obj any) (any, error) {
	if o, err := meta.Accessor(obj); err == nil && o.GetManagedFields() != nil {
		o.SetManagedFields(nil)
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.identity(&pod.ObjectMeta)
	p.spec(&pod.Spec)
	for i := range pod.Status.Conditions {
		p.message(&pod.Status.Conditions[i].Message)
	}
	return pod, nil
}

// message shares the text of a condition, which is the same for all pods that wait for the same reason.
func (p *Pods) message(text *string) {
	if len(*text) <= largest {
		*text = p.messages.share(digest([]byte(*text)), len(*text), *text)
	}
}

// identity shares what the pods of one owner have in common.
func (p *Pods) identity(m *metav1.ObjectMeta) {
	common := metav1.ObjectMeta{
		GenerateName: m.GenerateName, Namespace: m.Namespace, Labels: m.Labels, Annotations: m.Annotations, OwnerReferences: m.OwnerReferences, Finalizers: m.Finalizers,
	}
	key, size, ok := p.key(&common)
	if !ok {
		return
	}
	common = p.identities.share(key, size, common)
	m.GenerateName, m.Namespace, m.Labels, m.Annotations = common.GenerateName, common.Namespace, common.Labels, common.Annotations
	m.OwnerReferences, m.Finalizers = common.OwnerReferences, common.Finalizers
}

// spec shares what is left of a spec without the parts that differ between the pods of one owner: the host, the volumes of a StatefulSet, and the node
// affinity of a DaemonSet.
func (p *Pods) spec(s *corev1.PodSpec) {
	renameToken(s)
	volumes := p.part(&p.volumes, corev1.PodSpec{Volumes: s.Volumes}).Volumes
	affinity := p.part(&p.affinities, corev1.PodSpec{Affinity: s.Affinity}).Affinity
	node, host := s.NodeName, s.Hostname
	s.NodeName, s.Hostname, s.Volumes, s.Affinity = "", "", nil, nil
	*s = p.part(&p.specs, *s)
	s.NodeName, s.Hostname, s.Volumes, s.Affinity = node, host, volumes, affinity
}

func (p *Pods) part(of *part[corev1.PodSpec], s corev1.PodSpec) corev1.PodSpec {
	key, size, ok := p.key(&s)
	if !ok {
		return s
	}
	return of.share(key, size, s)
}

// renameToken gives the volume of the token, and its mounts, a name that is the same in all pods.
func renameToken(s *corev1.PodSpec) {
	from := ""
	for i := range s.Volumes {
		if v := &s.Volumes[i]; v.Projected != nil && strings.HasPrefix(v.Name, tokenVolume) {
			from, v.Name = v.Name, sharedToken
			break
		}
	}
	if from == "" {
		return
	}
	for _, containers := range [][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range containers {
			for j := range containers[i].VolumeMounts {
				if m := &containers[i].VolumeMounts[j]; m.Name == from {
					m.Name = sharedToken
				}
			}
		}
	}
}

// marshaler is a message of Kubernetes' protobuf.
type marshaler interface {
	Size() int
	MarshalToSizedBuffer(into []byte) (int, error)
}

// key is equal for equal values alone: protobuf has them whole, with the keys of maps in order. ok is false for a value that is too large, or that
// cannot be marshaled.
func (p *Pods) key(value marshaler) (key [sha256.Size]byte, size int, ok bool) {
	size = value.Size()
	if size > largest {
		return key, size, false
	}
	if p.marshaled == nil {
		p.marshaled = make([]byte, largest)
	}
	if _, err := value.MarshalToSizedBuffer(p.marshaled[:size]); err != nil {
		return key, size, false
	}
	return digest(p.marshaled[:size]), size, true
}

func digest(data []byte) [sha256.Size]byte { return sha256.Sum256(data) }

// part has the values of one part of pods that are known, by their digests.
type part[T any] struct{ known *lru.Cache }

func newPart[T any]() part[T] { return part[T]{known: lru.New(kept)} }

// share returns the value that is known under the key, which is value itself where there is none.
func (p part[T]) share(key [sha256.Size]byte, size int, value T) T {
	if size == 0 || size > largest {
		return value
	}
	if known, ok := p.known.Get(key); ok {
		return known.(T)
	}
	p.known.Add(key, value)
	return value
}
