package bufferpods

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	autoscalingv1beta1 "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"

	"github.com/slipway-k8s/slipway/internal/buffersize"
	"github.com/slipway-k8s/slipway/plugin/buffers"
)

// Template is what a CapacityBuffer refers to.
type Template struct {
	// Pod is the template as it is written.
	Pod corev1.PodTemplateSpec
	// Replicas are those of a workload, nil for the API server's default. A PodTemplate has none.
	Replicas *int32
	// Selector of the pods.
	Selector *metav1.LabelSelector
}

// Input is what the pods are made of. Every field is required.
type Input struct {
	// Buffers in any order. They are sorted in place.
	Buffers []*autoscalingv1beta1.CapacityBuffer
	// Template returns the template of an object of the input. ok is false where there is none of the name.
	Template func(namespace, kind, name string) (t Template, ok bool)
	// Now decides which of the buffers' windows are open.
	Now time.Time
	// OnNodes are the pods on nodes, finished ones included.
	OnNodes []*corev1.Pod
	// Admit returns the spec of a pod as the API server would admit it, whatever its priority. The error says why it would not.
	Admit func(namespace string, spec *corev1.PodSpec) (corev1.PodSpec, error)
}

// Problem is why a buffer has fewer pods than it asks for.
type Problem struct {
	// Buffer that has the problem.
	Buffer *autoscalingv1beta1.CapacityBuffer
	// Field of the buffer, and what is wrong with it.
	Field, Message string
}

// Output is what becomes of the buffers.
type Output struct {
	// Pods of each buffer. Those of one differ in name and UID alone.
	Pods [][]*corev1.Pod
	// Booked are those of one-shot buffers that had room for all of their pods once: what is lost of it is not launched again.
	Booked [][]*corev1.Pod
	// Problems in the order of the buffers.
	Problems []Problem
	// Unread are the buffers of a cluster whose launcher reads none: its feature gate is off.
	Unread []*autoscalingv1beta1.CapacityBuffer
}

// Make returns the pods of all buffers. Those of a namespace share its limits, the oldest buffer first.
func Make(in Input) Output {
	slices.SortStableFunc(in.Buffers, func(a, b *autoscalingv1beta1.CapacityBuffer) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	var out Output
	taken, older := map[string]int{}, map[string]int{}
	for _, cb := range in.Buffers {
		switch {
		case cb.DeletionTimestamp != nil:
			continue
		case cb.UID != "" && meta.FindStatusCondition(cb.Status.Conditions, autoscalingv1beta1.ReadyForProvisioningCondition) == nil:
			out.Unread = append(out.Unread, cb)
			continue
		case buffersize.Finished(cb):
			continue
		}
		b := builder{Input: &in, buffer: cb}
		pods := b.pods(taken[cb.Namespace], older[cb.Namespace])
		taken[cb.Namespace] += len(pods)
		switch {
		case len(pods) == 0:
		case b.booking.Provisioned():
			out.Booked = append(out.Booked, pods)
		default:
			out.Pods = append(out.Pods, pods)
		}
		if !b.booking.Expired(in.Now) {
			older[cb.Namespace]++
		}
		out.Problems = append(out.Problems, b.problems...)
	}
	return out
}

// builder makes the pods of one buffer.
type builder struct {
	*Input
	buffer   *autoscalingv1beta1.CapacityBuffer
	problems []Problem
	// booking is that of a one-shot buffer, and the zero value for all others.
	booking buffersize.Booking
}

func (b *builder) problem(field, format string, args ...any) {
	b.problems = append(b.problems, Problem{Buffer: b.buffer, Field: field, Message: fmt.Sprintf(format, args...)})
}

// pods returns the buffer's pods, where taken are those of the older buffers of its namespace.
func (b *builder) pods(taken, older int) []*corev1.Pod {
	if failure := buffersize.TooMany(older); failure != nil {
		b.problem("spec", "%s: no room is kept for it", failure.Message)
		return nil
	}
	t, ok := b.template()
	if !ok {
		return nil
	}
	cb := b.buffer
	if err := b.book(t.Selector); err != nil {
		b.problem("spec", "%v: no room is kept for it", err)
		return nil
	}
	oneShot := buffersize.Strategy(&cb.Spec) == buffersize.StrategyOneShot
	now, note, err := buffersize.SpecAt(cb, b.Now)
	if err != nil {
		b.problem("spec", "%v: no room is kept for it", err)
		return nil
	}
	if note != "" {
		b.problem("spec", "%s", note)
	}
	granted, limited := buffersize.Grant(b.booking.Open(buffersize.Wanted(&now, &t.Pod.Spec, t.Replicas), b.Now), taken, oneShot)
	if limited != "" {
		b.problem("spec", "%s", limited)
	}
	spec, err := b.Admit(cb.Namespace, &t.Pod.Spec)
	if err != nil {
		b.problem("spec", "the API server refuses pods of the template: %v", err)
		return nil
	}
	buffer := buffers.Buffer{
		Namespace: cb.Namespace, Name: cb.Name, UID: cmp.Or(string(cb.UID), cb.Namespace+"/"+cb.Name), Count: int(granted),
		Template: corev1.PodTemplateSpec{ObjectMeta: t.Pod.ObjectMeta, Spec: spec},
		Whole:    oneShot && !b.booking.Provisioned(),
	}
	return buffer.Pods(spec.SchedulerName)
}

// book finds out which pods may take the room, and for a one-shot buffer how far it is and how many of them came. own selects the pods of what the buffer
// refers to. The error says what is wrong.
func (b *builder) book(own *metav1.LabelSelector) error {
	cb := b.buffer
	if buffersize.Strategy(&cb.Spec) == buffersize.StrategyActive {
		return nil
	}
	takers, err := buffersize.TakersOf(cb, own)
	if err != nil || buffersize.Strategy(&cb.Spec) != buffersize.StrategyOneShot {
		return err
	}
	if b.booking, err = buffersize.BookingOf(cb); err != nil || !b.booking.Provisioned() {
		return err
	}
	matcher, err := takers.Matcher(cb.Namespace)
	if err != nil {
		return err
	}
	for _, p := range b.OnNodes {
		if b.booking.Took(p) && matcher.Match(p) {
			b.booking.Came++
		}
	}
	return nil
}

// template returns what the buffer refers to. ok is false where no room can be kept for it.
func (b *builder) template() (t Template, ok bool) {
	unsupported, ref := buffersize.Unsupported(&b.buffer.Spec), b.buffer.Spec.ScalableRef
	switch {
	case unsupported != "":
		b.problem("spec.provisioningStrategy", "%s: no room is kept for it", unsupported)
		return t, false
	case b.buffer.Spec.PodTemplateRef != nil:
		t, ok = b.named("spec.podTemplateRef.name", "PodTemplate", b.buffer.Spec.PodTemplateRef.Name)
		t.Replicas = nil
		return t, ok
	case ref == nil:
		b.problem("spec", "neither podTemplateRef nor scalableRef is set, want one of them: no room is kept for it")
		return t, false
	case ref.APIGroup != "" && ref.APIGroup != appsv1.GroupName:
		b.problem("spec.scalableRef.apiGroup", "%s is not supported, want %s: no room is kept for it", ref.APIGroup, appsv1.GroupName)
		return t, false
	case ref.Kind != autoscalingv1beta1.KindDeployment && ref.Kind != autoscalingv1beta1.KindStatefulSet && ref.Kind != autoscalingv1beta1.KindReplicaSet:
		b.problem("spec.scalableRef.kind", "%s is not supported, want Deployment, StatefulSet or ReplicaSet: no room is kept for it", ref.Kind)
		return t, false
	}
	t, ok = b.named("spec.scalableRef.name", ref.Kind, ref.Name)
	if t.Replicas == nil {
		t.Replicas = new(int32(1)) // The API server's default.
	}
	return t, ok
}

// named returns the template of an object that the field names.
func (b *builder) named(field, kind, name string) (t Template, ok bool) {
	t, ok = b.Template(b.buffer.Namespace, kind, name)
	if !ok {
		b.problem(field, "%s %s is not in the input: no room is kept for it", kind, name)
		return t, false
	}
	if size := t.Pod.Size(); size > buffersize.MostTemplate {
		b.problem(field, "the pod template has %d bytes, at most %d are read: no room is kept for it", size, buffersize.MostTemplate)
		return t, false
	}
	return t, true
}
