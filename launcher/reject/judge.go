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

	"github.com/slipway-k8s/slipway/disruption"
)

// reasons are those of a kubelet's admission that are no want of room (pkg/kubelet/lifecycle/predicate.go, pkg/kubelet/cm).
var reasons = regexp.MustCompile(`^(NodeAffinity|NodePorts|NodeName|TaintToleration|UnexpectedAdmissionError|TopologyAffinityError|` +
	`SMTAlignmentError|EmptyPodSharedPoolError|PodFeatureUnsupported|InvalidNodeInfo|PodOSNotSupported|PodOSSelectorNodeLabelDoesNotMatch)$`)

// outOf begins the reasons that are: OutOfcpu, OutOfpods.
const outOf = "OutOf"

// lacks is the kubelet's message of a pod that found no room: cpu counts in thousandths, everything else in units.
var lacks = regexp.MustCompile(`Node didn't have enough resource: (\S+), requested: (\d+), used: (\d+), capacity: (\d+)`)

// lacksCPUs is the CPU manager's message of a pod that asked for whole cores.
var lacksCPUs = regexp.MustCompile(`not enough cpus available to satisfy request: requested=(\d+), available=(\d+)`)

// mirrorAnnotation marks the API server's copy of a pod that a kubelet runs from a file.
const mirrorAnnotation = "kubernetes.io/config.mirror"

// Rejected says that a kubelet rejected the pod.
func Rejected(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed && pod.Spec.NodeName != "" && len(pod.Status.ContainerStatuses) == 0 &&
		(strings.HasPrefix(pod.Status.Reason, outOf) || reasons.MatchString(pod.Status.Reason))
}

// Facts are what a judgement depends on.
type Facts struct {
	// Pod that was rejected.
	Pod *corev1.Pod
	// Node that it was bound to.
	Node *corev1.Node
	// Promised is what the node was planned to have allocatable.
	Promised corev1.ResourceList
	// OnNode are the pods that are bound to it.
	OnNode []*corev1.Pod
	// Ours says that slipway bound the pod, by its own count of the node's room.
	Ours bool
}

// Lesson is what the next node of the kind must be planned with.
type Lesson struct {
	// Resource of which there is less room; empty where the rejection teaches nothing.
	Resource corev1.ResourceName
	// Room is what pods may ask for together.
	Room resource.Quantity
}

// Judge finds what a rejection teaches: of the resource that lacked, pods have what the node reports, without what its kubelet runs
// from files; or, where that explains nothing, less than planned by as much as lacked.
func Judge(f Facts) Lesson {
	name, lacking := shortage(f.Pod.Status.Message)
	if !slices.Contains([]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourcePods}, name) {
		return Lesson{} // The rest is never planned with a number that can be learned.
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

// fromFile says that the node's kubelet runs the pod from a file. Everybody who may create pods may write the annotation; the kubelet
// also names its Node as the owner (pkg/kubelet/pod/mirror_client.go) and writes when the pod started, which is not for users to write.
// A pod that has ended takes no room.
func (f Facts) fromFile(p *corev1.Pod) bool {
	_, mirror := p.Annotations[mirrorAnnotation]
	owner := metav1.GetControllerOf(p)
	return mirror && p.Status.StartTime != nil && !disruption.Terminal(p) &&
		owner != nil && owner.APIVersion == "v1" && owner.Kind == "Node" && owner.Name == f.Node.Name && owner.UID == f.Node.UID
}

// overcommitted says that the pods of the node, the rejected one among them, ask for more than it reports.
func (f Facts) overcommitted(name corev1.ResourceName) bool {
	sum := asked(f.Pod, name)
	for _, p := range f.OnNode {
		if p.UID != f.Pod.UID && !disruption.Terminal(p) {
			sum.Add(asked(p, name))
		}
	}
	return sum.Cmp(f.Node.Status.Allocatable[name]) > 0
}

// shortage reads what lacked, and how much, from a kubelet's message.
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
		return 0 // Digits that no machine has.
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
