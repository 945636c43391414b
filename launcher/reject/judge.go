package reject

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/slipway-k8s/slipway/internal/disruption"
)

// reasons matches the reasons of a kubelet's admission that are not a lack of resources (pkg/kubelet/lifecycle/predicate.go,
// pkg/kubelet/cm).
var reasons = regexp.MustCompile(`^(NodeAffinity|NodePorts|NodeName|TaintToleration|UnexpectedAdmissionError|TopologyAffinityError|` +
	`SMTAlignmentError|EmptyPodSharedPoolError|PodFeatureUnsupported|InvalidNodeInfo|PodOSNotSupported|PodOSSelectorNodeLabelDoesNotMatch)$`)

// outOf is the prefix of the other reasons: OutOfcpu, OutOfpods.
const outOf = "OutOf"

// lacks matches the kubelet's message for a pod that did not fit: cpu in thousandths, everything else in units.
var lacks = regexp.MustCompile(`Node didn't have enough resource: (\S+), requested: (\d+), used: (\d+), capacity: (\d+)`)

// lacksCPUs matches the CPU manager's message for a pod that requested whole cores.
var lacksCPUs = regexp.MustCompile(`not enough cpus available to satisfy request: requested=(\d+), available=(\d+)`)

// mirrorAnnotation marks the API server's copy of a pod that a kubelet runs from a file.
const mirrorAnnotation = "kubernetes.io/config.mirror"

// Rejected reports whether a kubelet rejected the pod.
func Rejected(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed && pod.Spec.NodeName != "" && len(pod.Status.ContainerStatuses) == 0 &&
		(strings.HasPrefix(pod.Status.Reason, outOf) || reasons.MatchString(pod.Status.Reason))
}

// Facts are the inputs of a judgment.
type Facts struct {
	// Pod that was rejected.
	Pod *corev1.Pod
	// Node that it was bound to.
	Node *corev1.Node
	// Promised is the node's planned allocatable.
	Promised corev1.ResourceList
	// OnNode are the pods that are bound to it.
	OnNode []*corev1.Pod
	// Ours means that slipway bound the pod, according to its own count of the node's free capacity.
	Ours bool
}

// Lesson is a correction for the next nodes of the same instance type and AMI.
type Lesson struct {
	// Resource is the one with less capacity; empty if the rejection shows nothing.
	Resource corev1.ResourceName
	// Room is what pods may request together.
	Room resource.Quantity
}

// Judge returns what a rejection shows. The capacity of the lacking resource is what the node reports less the requests of its static pods;
// or, if that does not explain the rejection, the planned amount less the shortage.
func Judge(f Facts) Lesson {
	name, lacking := shortage(f.Pod.Status.Message)
	if !slices.Contains([]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourcePods}, name) {
		return Lesson{} // The other resources are not planned with a number that can be corrected.
	}
	promised, room := f.Promised[name], f.Node.Status.Allocatable[name].DeepCopy()
	for _, p := range f.OnNode {
		if f.fromFile(p) {
			room.Sub(asked(p, name))
		}
	}
	if room.Cmp(promised) >= 0 {
		if !f.Ours || f.overcommitted(name) {
			return Lesson{}
		}
		room = promised.DeepCopy()
		room.Sub(lacking)
	}
	if room.Sign() < 0 {
		room = resource.Quantity{}
	}
	return Lesson{Resource: name, Room: room}
}

// fromFile reports whether the node's kubelet runs the pod from a file. Every user who may create pods may write the annotation. The kubelet
// also sets its Node as the owner (pkg/kubelet/pod/mirror_client.go) and the pod's start time, which users cannot write. A finished pod
// takes no capacity.
func (f Facts) fromFile(p *corev1.Pod) bool {
	_, mirror := p.Annotations[mirrorAnnotation]
	owner := metav1.GetControllerOfNoCopy(p)
	return mirror && p.Status.StartTime != nil && !disruption.Terminal(p) &&
		owner != nil && owner.APIVersion == "v1" && owner.Kind == "Node" && owner.Name == f.Node.Name && owner.UID == f.Node.UID
}

// overcommitted reports whether the pods of the node, including the rejected one, request more than it reports.
func (f Facts) overcommitted(name corev1.ResourceName) bool {
	sum := asked(f.Pod, name)
	for _, p := range f.OnNode {
		if p.UID != f.Pod.UID && !disruption.Terminal(p) {
			sum.Add(asked(p, name))
		}
	}
	return sum.Cmp(f.Node.Status.Allocatable[name]) > 0
}

// shortage parses the lacking resource, and the amount, from a kubelet's message.
func shortage(message string) (corev1.ResourceName, resource.Quantity) {
	if m := lacks.FindStringSubmatch(message); m != nil {
		name := corev1.ResourceName(m[1])
		return name, quantity(name, number(m[2])+number(m[3])-number(m[4]))
	}
	if m := lacksCPUs.FindStringSubmatch(message); m != nil {
		return corev1.ResourceCPU, quantity(corev1.ResourceCPU, 1000*(number(m[1])-number(m[2])))
	}
	return "", resource.Quantity{}
}

func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0 // More digits than any machine has.
	}
	return n
}

func quantity(name corev1.ResourceName, n int64) resource.Quantity {
	if name == corev1.ResourceCPU {
		return *resource.NewMilliQuantity(n, resource.DecimalSI)
	}
	if name == corev1.ResourcePods {
		return *resource.NewQuantity(n, resource.DecimalSI)
	}
	return *resource.NewQuantity(n, resource.BinarySI)
}

func asked(pod *corev1.Pod, name corev1.ResourceName) resource.Quantity {
	if name == corev1.ResourcePods {
		return *resource.NewQuantity(1, resource.DecimalSI)
	}
	return resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})[name]
}
