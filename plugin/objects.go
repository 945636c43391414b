package plugin

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/intake"
)

// disruptedTaint is Karpenter's, on nodes that are about to terminate.
const disruptedTaint = "karpenter.sh/disrupted"

// objects are the cluster's objects as the informers show them. It is safe for concurrent use.
type objects struct {
	pods       corelisters.PodLister
	nodes      corelisters.NodeLister
	namespaces corelisters.NamespaceLister
	claims     corelisters.PersistentVolumeClaimLister
	// podsSynced and nodesSynced report whether the informers have their first lists.
	podsSynced, nodesSynced cache.InformerSynced

	owners     *intake.Owners
	rules      *admissionRules
	daemonSets *daemonSets
	young      *youngNodes
}

// newObjects returns the objects of informers that do not run yet.
func newObjects(f informers.SharedInformerFactory) (*objects, error) {
	owners, err := intake.NewOwners(f)
	if err != nil {
		return nil, err
	}
	rules, err := newAdmissionRules(f)
	if err != nil {
		return nil, err
	}
	daemonSets, err := newDaemonSets(f, owners, rules)
	if err != nil {
		return nil, err
	}
	pods, nodes := f.Core().V1().Pods(), f.Core().V1().Nodes()
	young := newYoungNodes()
	if err := young.watch(nodes.Informer()); err != nil {
		return nil, err
	}
	return &objects{
		pods: pods.Lister(), nodes: nodes.Lister(), namespaces: f.Core().V1().Namespaces().Lister(),
		claims:     f.Core().V1().PersistentVolumeClaims().Lister(),
		podsSynced: pods.Informer().HasSynced, nodesSynced: nodes.Informer().HasSynced, owners: owners, rules: rules, daemonSets: daemonSets, young: young,
	}, nil
}

// pod returns the pod as the informer has it, nil if it is gone or another one by now.
func (o *objects) pod(ref catalog.PodRef) *corev1.Pod {
	pod, err := o.pods.Pods(ref.Namespace).Get(ref.Name)
	if err != nil || string(pod.UID) != ref.UID {
		return nil
	}
	return pod
}

// current returns the pod as the informer has it by now, nil if it is gone.
func (o *objects) current(pod *corev1.Pod) *corev1.Pod { return o.pod(catalog.PodRefOf(pod)) }

// placed reports whether the pod is gone, or has a node.
func (o *objects) placed(pod *corev1.Pod) bool {
	current := o.current(pod)
	return current == nil || current.Spec.NodeName != ""
}

// node returns the node, nil if there is none of the name.
func (o *objects) node(name string) *corev1.Node {
	node, err := o.nodes.Get(name)
	if err != nil {
		return nil
	}
	return node
}

// oncePod reports whether the access mode of a PersistentVolumeClaim is ReadWriteOncePod.
func (o *objects) oncePod(namespace, name string) bool {
	claim, err := o.claims.PersistentVolumeClaims(namespace).Get(name)
	return err == nil && slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteOncePod)
}

// noNodes reports whether the cluster has no node at all.
func (o *objects) noNodes() bool {
	if !o.nodesSynced() {
		return false
	}
	nodes, err := o.nodes.List(labels.Everything())
	return err == nil && len(nodes) == 0
}

// terminates reports whether a node is cordoned to terminate, or gone.
func (o *objects) terminates(name string) bool {
	n := o.node(name)
	return n == nil || n.DeletionTimestamp != nil || disrupted(n)
}

// nodeClaimOf returns the NodeClaim that owns the node; empty for none.
func nodeClaimOf(n *corev1.Node) string {
	for _, o := range n.OwnerReferences {
		if o.Kind == "NodeClaim" {
			return o.Name
		}
	}
	return ""
}

// disrupted reports whether the node has Karpenter's taint of nodes that are about to terminate.
func disrupted(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == disruptedTaint })
}
