package parity_test

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/plugin/simulate/input"
)

// noon is when everything is decided: twelve hours after a bubble of testing/synctest begins.
func noon() time.Time { return time.Date(2000, 1, 1, 12, 0, 0, 0, time.UTC) }

// ago is a time before noon.
func ago(d time.Duration) metav1.Time { return metav1.NewTime(noon().Add(-d)) }

// member is a node with its NodeClaim and its pods.
type member struct {
	claim *karpv1.NodeClaim
	node  *corev1.Node
	pods  []*corev1.Pod
}

// fleet is a cluster: nodes of NodePools, and one large node outside of all of them, which has room for every pod.
type fleet struct {
	pool    *karpv1.NodePool
	subject *member
	third   *member
	others  []*member
	pools   []*karpv1.NodePool
	budgets []*policyv1.PodDisruptionBudget
	// disruptBare is the setting disruptBarePods.
	disruptBare bool
}

// newFleet returns a fleet whose NodePool default has the nodes subject and third, each with one pod, and all budgets open. Nothing
// keeps them. The node always, of a NodePool of its own, is never changed: that it goes shows that something was decided.
func newFleet() *fleet {
	f := &fleet{pool: newPool("default")}
	f.pools = []*karpv1.NodePool{f.pool, newPool("always")}
	f.subject, f.third = newMember("subject", "default"), newMember("third", "default")
	f.others = []*member{newMember("always", "always")}
	return f
}

func newPool(name string) *karpv1.NodePool {
	p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("pool-" + name)}}
	p.Spec.Disruption = karpv1.Disruption{
		ConsolidationPolicy: karpv1.ConsolidationPolicyWhenEmptyOrUnderutilized,
		ConsolidateAfter:    karpv1.MustParseNillableDuration("1m"),
		Budgets:             []karpv1.Budget{{Nodes: "100%"}},
	}
	p.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}
	p.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
		{Key: karpv1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{"on-demand"}},
	}
	return p
}

func newMember(name, pool string) *member {
	m := &member{node: newNode(name, "1930m", "7Gi")}
	m.node.Labels[karpv1.NodePoolLabelKey] = pool
	m.claim = &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: "claim-" + name, UID: types.UID("claim-" + name), CreationTimestamp: ago(24 * time.Hour), Labels: map[string]string{karpv1.NodePoolLabelKey: pool},
	}}
	m.claim.Status.NodeName, m.claim.Status.LastPodEventTime = name, ago(time.Hour)
	m.set(karpv1.ConditionTypeInitialized, 23*time.Hour)
	m.set(karpv1.ConditionTypeConsolidatable, time.Hour)
	m.pods = []*corev1.Pod{newPod("web-"+name, name)}
	return m
}

// set makes a condition of the NodeClaim True since a time before noon.
func (m *member) set(condition string, since time.Duration) {
	m.claim.StatusConditions().SetTrue(condition)
	for i := range m.claim.Status.Conditions {
		if c := &m.claim.Status.Conditions[i]; c.Type == condition {
			c.LastTransitionTime = ago(since)
		}
	}
}

// empty takes the pods away, since a time before noon.
func (m *member) empty(since time.Duration) {
	m.pods, m.claim.Status.LastPodEventTime = nil, ago(since)
}

// ready sets the condition Ready of the node.
func (m *member) ready(status corev1.ConditionStatus) {
	m.node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
}

func newNode(name, cpu, memory string) *corev1.Node {
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory), corev1.ResourcePods: resource.MustParse("29"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("node-" + name), CreationTimestamp: ago(24 * time.Hour), Labels: map[string]string{
			corev1.LabelInstanceTypeStable: "m5.large", corev1.LabelTopologyZone: "us-east-1a", karpv1.CapacityTypeLabelKey: "on-demand",
			corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux", corev1.LabelHostname: name,
		}},
		Status: corev1.NodeStatus{
			Capacity: room, Allocatable: room, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

// newPod returns a pod of a ReplicaSet, which runs on the node since yesterday and is ready.
func newPod(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID("pod-" + name), CreationTimestamp: ago(24 * time.Hour),
			Labels: map[string]string{"app": name}, Annotations: map[string]string{},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "web", Controller: new(true)}},
		},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main", Image: "app", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi")},
		}}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, StartTime: new(ago(24 * time.Hour)),
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
}

// daemon has a DaemonSet own the pod.
func daemon(p *corev1.Pod) *corev1.Pod {
	p.OwnerReferences[0].Kind = "DaemonSet"
	return p
}

// mirror has the pod be the mirror of a static one.
func mirror(p *corev1.Pod) *corev1.Pod {
	p.OwnerReferences[0].APIVersion, p.OwnerReferences[0].Kind = "v1", "Node"
	p.Annotations[corev1.MirrorPodAnnotationKey] = "hash"
	return p
}

// unready has the pod run and not be ready.
func unready(p *corev1.Pod) *corev1.Pod {
	p.Status.Conditions[0].Status = corev1.ConditionFalse
	return p
}

// annotated gives an object an annotation.
func annotated[T metav1.Object](o T, key, value string) T {
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	o.SetAnnotations(annotations)
	return o
}

// terminating deletes an object some time before noon; a finalizer keeps it.
func terminating[T metav1.Object](o T, since time.Duration) T {
	o.SetDeletionTimestamp(new(ago(since)))
	o.SetFinalizers([]string{"example.com/kept"})
	return o
}

// guard adds a PodDisruptionBudget for the pods of an app.
func (f *fleet) guard(name, app string, allowed int32) *policyv1.PodDisruptionBudget {
	name = fmt.Sprintf("%s-%d", name, len(f.budgets))
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("pdb-" + name)}}
	b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
	b.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, DisruptionsAllowed: allowed, CurrentHealthy: 1, DesiredHealthy: 1 - allowed, ExpectedPods: 1}
	f.budgets = append(f.budgets, b)
	return b
}

// members are all nodes of NodePools.
func (f *fleet) members() []*member { return append([]*member{f.subject, f.third}, f.others...) }

// objects are all of the cluster.
func (f *fleet) objects() []client.Object {
	out := []client.Object{newNode("room", "64", "256Gi")}
	for _, p := range f.pools {
		out = append(out, p)
	}
	for _, b := range f.budgets {
		out = append(out, b)
	}
	for _, m := range f.members() {
		out = append(out, m.claim, m.node)
		for _, p := range m.pods {
			out = append(out, p)
		}
	}
	return out
}

// input returns the cluster as a simulation reads it.
func (f *fleet) input() *input.Objects {
	r := input.NewReader()
	for _, o := range f.objects() {
		r.Add(o.DeepCopyObject())
	}
	return r.Finish()
}
