package input

import (
	"cmp"
	"slices"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	autoscalingv1beta1 "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/apis/v1alpha1"
)

// Objects is the input of a simulation, each list in the order of the input. Objects share memory.
type Objects struct {
	// NodePools are Karpenter's.
	NodePools []*karpv1.NodePool
	// NodeClasses are those to which NodePools refer.
	NodeClasses []*awsv1.EC2NodeClass
	// NodeOverlays change prices and add resources.
	NodeOverlays []*v1alpha1.NodeOverlay
	// NodeClaims show which nodes are in flight, and which pods wait for them.
	NodeClaims []*karpv1.NodeClaim
	// Nodes are the nodes that exist.
	Nodes []*corev1.Node
	// Pods are bound and pending pods, those of workloads after those of the input, those of CapacityBuffers last. Finished pods are left out.
	Pods []Pod
	// DaemonSets are those whose pods run on nodes.
	DaemonSets []*appsv1.DaemonSet
	// Namespaces with the labels that affinity terms may select.
	Namespaces []*corev1.Namespace
	// PersistentVolumes, PersistentVolumeClaims and StorageClasses of the pods' volumes.
	PersistentVolumes []*corev1.PersistentVolume
	// PersistentVolumeClaims include those of StatefulSets' templates and of generic ephemeral volumes.
	PersistentVolumeClaims []*corev1.PersistentVolumeClaim
	// StorageClasses of the claims.
	StorageClasses []*storagev1.StorageClass
	// CSINodes and CSIDrivers limit how many volumes a node takes.
	CSINodes []*storagev1.CSINode
	// CSIDrivers is described at CSINodes.
	CSIDrivers []*storagev1.CSIDriver
	// ResourceClaims of dynamic resource allocation.
	ResourceClaims []*resourcev1.ResourceClaim
	// Services select pods for the profile's default topology spread.
	Services []*corev1.Service
	// ReplicaSets, StatefulSets and Controllers own pods. ReplicaSets include those that Deployments would make. Their selectors
	// decide which pods the profile's default topology spread counts.
	ReplicaSets []*appsv1.ReplicaSet
	// StatefulSets is described at ReplicaSets.
	StatefulSets []*appsv1.StatefulSet
	// Controllers is described at ReplicaSets.
	Controllers []*corev1.ReplicationController
	// Budgets are the PodDisruptionBudgets, which limit what may be moved.
	Budgets []*policyv1.PodDisruptionBudget
	// Invalid lists pods that the API server would refuse; they are not in Pods.
	Invalid []Invalid
	// Problems are those of objects that are left out, or are read differently from what they say.
	Problems []Problem
	// Notes are sentences about what was left out.
	Notes []string
	// Ignored counts objects of kinds that no simulation uses, by kind.
	Ignored map[string]int
}

// Pod is a pod with a number for what it shares with others.
type Pod struct {
	*corev1.Pod
	// Shape is equal for pods that differ in their name, UID and creation alone.
	Shape int
	// Booked means that no node is launched for the pod: it is one of a CapacityBuffer that had room for all of its pods once.
	Booked bool
	// unseen means that no API server has admitted the pod yet.
	unseen bool
}

// Invalid is a pod that cannot be planned.
type Invalid struct {
	// Namespace and Name of the pod.
	Namespace, Name string
	// Reason names the field and what is wrong with it.
	Reason string
}

// list keeps objects in order. An object that comes again replaces the first.
type list[T metav1.Object] struct {
	kind  string
	items []T
	at    map[string]int
}

func (l *list[T]) add(r *Reader, kind string, object T) {
	l.kind = kind
	if object.GetName() == "" {
		r.refuse(kind+" without a name", "metadata.name", "a name is required")
		return
	}
	key := object.GetNamespace() + "/" + object.GetName()
	first := firstEdit(r, kind, object)
	if i, ok := l.at[key]; ok {
		if !first {
			r.problem(nameOf(kind, object), "", "is in the input more than once: the last one counts")
		}
		l.items[i] = object
		return
	}
	if l.at == nil {
		l.at = map[string]int{}
	}
	l.at[key] = len(l.items)
	l.items = append(l.items, object)
}

// firstEdit reports whether edits are read and have named the object for the first time.
func firstEdit(r *Reader, kind string, object metav1.Object) bool {
	if r.edits == nil {
		return false
	}
	name := nameOf(kind, object)
	first := !r.edits[name]
	r.edits[name] = true
	return first
}

// get returns the object of a namespace and name.
func (l *list[T]) get(namespace, name string) (object T, ok bool) {
	i, ok := l.at[namespace+"/"+name]
	if ok {
		object = l.items[i]
	}
	return object, ok
}

func nameOf(kind string, object metav1.Object) string {
	if object.GetNamespace() == "" {
		return kind + " " + object.GetName()
	}
	return kind + " " + object.GetNamespace() + "/" + object.GetName()
}

// Reader collects objects. It is not safe for concurrent use.
type Reader struct {
	nodePools       list[*karpv1.NodePool]
	nodeClasses     list[*awsv1.EC2NodeClass]
	nodeOverlays    list[*v1alpha1.NodeOverlay]
	nodeClaims      list[*karpv1.NodeClaim]
	nodes           list[*corev1.Node]
	pods            list[Pod]
	daemonSets      list[*appsv1.DaemonSet]
	deployments     list[*appsv1.Deployment]
	replicaSets     list[*appsv1.ReplicaSet]
	statefulSets    list[*appsv1.StatefulSet]
	jobs            list[*batchv1.Job]
	cronJobs        list[*batchv1.CronJob]
	controllers     list[*corev1.ReplicationController]
	namespaces      list[*corev1.Namespace]
	volumes         list[*corev1.PersistentVolume]
	claims          list[*corev1.PersistentVolumeClaim]
	storageClasses  list[*storagev1.StorageClass]
	csiNodes        list[*storagev1.CSINode]
	csiDrivers      list[*storagev1.CSIDriver]
	priorityClasses list[*schedulingv1.PriorityClass]
	runtimeClasses  list[*nodev1.RuntimeClass]
	resourceClaims  list[*resourcev1.ResourceClaim]
	services        list[*corev1.Service]
	limitRanges     list[*corev1.LimitRange]
	budgets         list[*policyv1.PodDisruptionBudget]
	buffers         list[*autoscalingv1beta1.CapacityBuffer]
	podTemplates    list[*corev1.PodTemplate]

	specs    map[string]*sharedSpec
	metas    map[string]*sharedMeta
	shapes   map[[2]int]int
	generate map[string]int
	invalid  []Invalid
	notes    []string
	// edits are the objects by kind and name that were read as edits, which take the place of what was read before; nil while none are read.
	edits   map[string]bool
	ignored map[string]int
	problemList
}

// NewReader returns a Reader without objects.
func NewReader() *Reader {
	return &Reader{
		specs: map[string]*sharedSpec{}, metas: map[string]*sharedMeta{}, shapes: map[[2]int]int{},
		generate: map[string]int{}, ignored: map[string]int{},
	}
}

// newObject returns an empty object of the kinds that a simulation reads besides pods, nil for others.
func newObject(group, kind string) runtime.Object {
	switch group + "/" + kind {
	case "karpenter.sh/NodePool":
		return &karpv1.NodePool{}
	case "karpenter.sh/NodeOverlay":
		return &v1alpha1.NodeOverlay{}
	case "karpenter.sh/NodeClaim":
		return &karpv1.NodeClaim{}
	case "karpenter.k8s.aws/EC2NodeClass":
		return &awsv1.EC2NodeClass{}
	case "/Node":
		return &corev1.Node{}
	case "/Namespace":
		return &corev1.Namespace{}
	case "/PersistentVolume":
		return &corev1.PersistentVolume{}
	case "/PersistentVolumeClaim":
		return &corev1.PersistentVolumeClaim{}
	case "/Service":
		return &corev1.Service{}
	case "storage.k8s.io/StorageClass":
		return &storagev1.StorageClass{}
	case "storage.k8s.io/CSINode":
		return &storagev1.CSINode{}
	case "storage.k8s.io/CSIDriver":
		return &storagev1.CSIDriver{}
	}
	if rule := newRule(group, kind); rule != nil {
		return rule
	}
	return newWorkload(group, kind)
}

// newRule returns an empty object of a kind that defines how pods are treated; nil for others.
func newRule(group, kind string) runtime.Object {
	switch group + "/" + kind {
	case "/LimitRange":
		return &corev1.LimitRange{}
	case "scheduling.k8s.io/PriorityClass":
		return &schedulingv1.PriorityClass{}
	case "node.k8s.io/RuntimeClass":
		return &nodev1.RuntimeClass{}
	case "policy/PodDisruptionBudget":
		return &policyv1.PodDisruptionBudget{}
	case "resource.k8s.io/ResourceClaim":
		return &resourcev1.ResourceClaim{}
	}
	return nil
}

func newWorkload(group, kind string) runtime.Object {
	switch group + "/" + kind {
	case "apps/DaemonSet":
		return &appsv1.DaemonSet{}
	case "apps/Deployment":
		return &appsv1.Deployment{}
	case "apps/ReplicaSet":
		return &appsv1.ReplicaSet{}
	case "apps/StatefulSet":
		return &appsv1.StatefulSet{}
	case "batch/Job":
		return &batchv1.Job{}
	case "batch/CronJob":
		return &batchv1.CronJob{}
	case "/ReplicationController":
		return &corev1.ReplicationController{}
	case "/PodTemplate":
		return &corev1.PodTemplate{}
	case "autoscaling.x-k8s.io/CapacityBuffer":
		return &autoscalingv1beta1.CapacityBuffer{}
	}
	return nil
}

// Add adds an object as an API server returns it.
func (r *Reader) Add(object runtime.Object) {
	switch o := object.(type) {
	case *karpv1.NodePool:
		r.nodePools.add(r, "NodePool", o)
	case *awsv1.EC2NodeClass:
		r.nodeClasses.add(r, "EC2NodeClass", o)
	case *v1alpha1.NodeOverlay:
		r.nodeOverlays.add(r, "NodeOverlay", o)
	case *karpv1.NodeClaim:
		r.nodeClaims.add(r, "NodeClaim", o)
	case *corev1.Node:
		r.nodes.add(r, "Node", o)
	case *corev1.Pod:
		r.addPod(o)
	case *corev1.Namespace:
		r.namespaces.add(r, "Namespace", o)
	case *corev1.LimitRange:
		r.limitRanges.add(r, "LimitRange", namespaced(o))
	case *corev1.Service:
		r.services.add(r, "Service", namespaced(o))
	case *schedulingv1.PriorityClass:
		r.priorityClasses.add(r, "PriorityClass", o)
	case *nodev1.RuntimeClass:
		r.runtimeClasses.add(r, "RuntimeClass", o)
	case *policyv1.PodDisruptionBudget:
		r.budgets.add(r, "PodDisruptionBudget", namespaced(o))
	case *resourcev1.ResourceClaim:
		r.resourceClaims.add(r, "ResourceClaim", namespaced(o))
	default:
		r.addStorage(object)
		r.addWorkload(object)
	}
}

func (r *Reader) addStorage(object runtime.Object) {
	switch o := object.(type) {
	case *corev1.PersistentVolume:
		r.volumes.add(r, "PersistentVolume", o)
	case *corev1.PersistentVolumeClaim:
		r.claims.add(r, "PersistentVolumeClaim", namespaced(o))
	case *storagev1.StorageClass:
		r.storageClasses.add(r, "StorageClass", o)
	case *storagev1.CSINode:
		r.csiNodes.add(r, "CSINode", o)
	case *storagev1.CSIDriver:
		r.csiDrivers.add(r, "CSIDriver", o)
	}
}

func (r *Reader) addWorkload(object runtime.Object) {
	switch o := object.(type) {
	case *appsv1.DaemonSet:
		r.daemonSets.add(r, "DaemonSet", namespaced(o))
	case *appsv1.Deployment:
		r.deployments.add(r, "Deployment", namespaced(o))
	case *appsv1.ReplicaSet:
		r.replicaSets.add(r, "ReplicaSet", namespaced(o))
	case *appsv1.StatefulSet:
		r.statefulSets.add(r, "StatefulSet", namespaced(o))
	case *batchv1.Job:
		r.jobs.add(r, "Job", namespaced(o))
	case *batchv1.CronJob:
		r.cronJobs.add(r, "CronJob", namespaced(o))
	case *corev1.ReplicationController:
		r.controllers.add(r, "ReplicationController", namespaced(o))
	case *corev1.PodTemplate:
		r.podTemplates.add(r, "PodTemplate", namespaced(o))
	case *autoscalingv1beta1.CapacityBuffer:
		r.buffers.add(r, "CapacityBuffer", namespaced(o))
	}
}

// namespaced returns the object, in the namespace default if it has none.
func namespaced[T metav1.Object](object T) T {
	object.SetNamespace(cmp.Or(object.GetNamespace(), metav1.NamespaceDefault))
	return object
}

// Finish sets defaults, expands the workloads and returns all objects. The Reader must not be used afterwards.
func (r *Reader) Finish() *Objects {
	r.defaultNodes()
	r.expand()
	r.defaultVolumeClaims()
	defaultLimitRanges(r.limitRanges.items)
	out := &Objects{
		NodePools: r.nodePools.items, NodeClasses: r.nodeClasses.items, NodeOverlays: r.nodeOverlays.items, NodeClaims: r.nodeClaims.items, Nodes: r.nodes.items, DaemonSets: r.finishedDaemonSets(),
		Namespaces: r.namespaces.items, PersistentVolumes: r.volumes.items, PersistentVolumeClaims: r.claims.items,
		StorageClasses: r.storageClasses.items, CSINodes: r.csiNodes.items, CSIDrivers: r.csiDrivers.items,
		ResourceClaims: r.resourceClaims.items, Services: r.services.items, ReplicaSets: r.replicaSets.items,
		StatefulSets: r.statefulSets.items, Controllers: r.controllers.items, Budgets: r.budgets.items, Ignored: r.ignored,
	}
	r.pods.items = r.limit(r.pods.items)
	onNodes := podsOnNodes(r.pods.items)
	out.Pods = slices.DeleteFunc(r.pods.items, func(p Pod) bool {
		return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	})
	r.admit(out.Pods)
	out.Pods = append(out.Pods, bufferPods(r, onNodes)...)
	out.Invalid, out.Problems, out.Notes = r.invalid, r.problems, r.notes
	return out
}
