package standby_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// Reconcile calls the Controller. A write of a NodeClaim comes back as an event.
func (s *scene) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	before := s.version(req.Name)
	result, err := s.subject.Reconcile(ctx, req)
	if err == nil && s.version(req.Name) != before {
		result.RequeueAfter = time.Millisecond
	}
	return result, err
}

func (s *scene) version(name string) string {
	claim := &karpv1.NodeClaim{}
	_ = s.API.Get(s.t.Context(), client.ObjectKey{Name: name}, claim) // One that is gone has no version.
	return claim.ResourceVersion
}

func (s *scene) get(name string) *karpv1.NodeClaim {
	claim := &karpv1.NodeClaim{}
	s.Must(s.API.Get(s.t.Context(), client.ObjectKey{Name: name}, claim))
	return claim
}

func (s *scene) change(name string, by func(*karpv1.NodeClaim)) {
	claim := s.get(name)
	by(claim)
	s.Must(s.API.Update(s.t.Context(), claim))
	s.Enqueue(name)
}

func (s *scene) instance(name string) cloud.Instance {
	id := index.InstanceID(s.get(name).Status.ProviderID)
	found, err := s.ec2.Instances(s.t.Context(), cloud.Selector{IDs: []string{id}})
	s.Must(err)
	return found[0]
}

// claim adds a NodeClaim whose instance runs.
func (s *scene) claim(d *datadriven.TestData, name string) {
	kind := "on-demand"
	if d.HasArg("spot") {
		kind = "spot"
	}
	id := s.ec2.Put(cloud.Instance{ID: "i-" + name, InstanceType: "m7g.large", Zone: "us-east-1a", CapacityType: kind, Hibernates: d.HasArg("hibernates")})
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(name), CreationTimestamp: metav1.Now(), Annotations: map[string]string{catalog.StandbyAnnotation: "buffer"},
		Labels: map[string]string{
			corev1.LabelInstanceTypeStable: "m7g.large", corev1.LabelTopologyZone: "us-east-1a", karpv1.CapacityTypeLabelKey: kind, karpv1.NodePoolLabelKey: "default",
		},
	}}
	if d.HasArg("foreign") {
		claim.Labels["foreign"] = "yes"
	}
	status := karpv1.NodeClaimStatus{ProviderID: "aws:///us-east-1a/" + id, NodeName: "node-" + name}
	s.Must(s.API.Create(s.t.Context(), claim))
	claim.Status = status
	claim.StatusConditions().SetTrue(karpv1.ConditionTypeLaunched)
	s.Must(s.API.Status().Update(s.t.Context(), claim))
	s.Enqueue(name)
}

// node makes the node of a claim ready, as far as package join brings it.
func (s *scene) node(d *datadriven.TestData, name string) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-" + name, UID: types.UID("node-" + name), Finalizers: []string{karpv1.TerminationFinalizer}}}
	node.Spec = corev1.NodeSpec{ProviderID: s.get(name).Status.ProviderID, Unschedulable: true}
	s.Must(client.IgnoreAlreadyExists(s.API.Create(s.t.Context(), node)))
	s.Must(s.API.Get(s.t.Context(), client.ObjectKeyFromObject(node), node))
	if len(node.Status.Conditions) == 0 {
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	}
	var images string
	var starting, running int
	if d.HasArg("images") {
		d.ScanArgs(s.t, "images", &images)
	}
	if d.HasArg("starting") {
		d.ScanArgs(s.t, "starting", &starting)
	}
	node.Status.Images = []corev1.ContainerImage{{Names: strings.Split(images, ",")}}
	s.Must(s.API.Status().Update(s.t.Context(), node))
	if d.HasArg("running") {
		d.ScanArgs(s.t, "running", &running)
	}
	for i := range starting + running {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: fmt.Sprintf("agent-%s-%d", name, i)}}
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", UID: "agent", Controller: new(true)}}
		pod.Spec.NodeName, pod.Status.Phase = node.Name, corev1.PodPending
		if i >= starting {
			pod.Status.Phase = corev1.PodRunning
		}
		s.Must(s.API.Create(s.t.Context(), pod))
	}
	claim := s.get(name)
	set := claim.StatusConditions()
	set.SetTrue(karpv1.ConditionTypeRegistered)
	set.SetUnknownWithReason(karpv1.ConditionTypeInitialized, record.ConditionStandby, "The node is ready to be stopped for a standby buffer")
	s.Must(s.API.Status().Update(s.t.Context(), claim))
	s.Enqueue(name)
}

// occupy has a pod that is no DaemonSet's run on the node of a claim, or end there. As daemon it is of a controller like DaemonSets', and as pinned of one that selects the
// node by name.
func (s *scene) occupy(as, name string) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-" + name}}
	pod.Spec.NodeName = "node-" + name
	if as == "daemon" || as == "pinned" {
		kind := map[string]string{"daemon": "ExtendedDaemonSetReplicaSet", "pinned": "Agents"}[as]
		pod.Name, pod.OwnerReferences = as+"-"+name, []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: kind, Name: as, UID: "1", Controller: new(true)}}
	}
	if as == "pinned" {
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{pod.Spec.NodeName}}}}},
		}}}
	}
	s.Must(client.IgnoreAlreadyExists(s.API.Create(s.t.Context(), pod)))
	pod.Status.Phase = corev1.PodRunning
	if as == "freed" {
		pod.Status.Phase = corev1.PodSucceeded
	}
	s.Must(s.API.Status().Update(s.t.Context(), pod))
}

func (s *scene) show() {
	claims := &karpv1.NodeClaimList{}
	s.Must(s.API.List(s.t.Context(), claims))
	slices.SortFunc(claims.Items, func(a, b karpv1.NodeClaim) int { return strings.Compare(a.Name, b.Name) })
	for i := range claims.Items {
		claim := &claims.Items[i]
		state := string(record.StandbyOf(claim).State)
		if state == "" {
			state = "preparing"
		}
		said := ""
		for _, condition := range []string{record.ConditionStandby, karpv1.ConditionTypeRegistered} {
			if c := conditions.Claim(claim, condition); c != nil {
				said += fmt.Sprintf(", %s=%s %s", c.Type, c.Status, c.Reason)
			}
		}
		i := s.instance(claim.Name)
		how := string(i.State)
		if i.Hibernated {
			how = "hibernated, " + how
		}
		if record.Outdated(claim) {
			said += ", to be replaced"
		}
		if why := record.StandbyOf(claim).Kept; why != "" {
			said += ", kept since " + why
		}
		s.Log("%s is %s, its instance %s%s", claim.Name, state, how, said)
	}
	nodes := &corev1.NodeList{}
	s.Must(s.API.List(s.t.Context(), nodes))
	for i := range nodes.Items {
		s.Log("Node %s", nodes.Items[i].Name)
	}
	for _, pod := range s.pods() {
		s.Log("pod %s on %s", pod.Name, pod.Spec.NodeName)
	}
}

// pods are those that are bound.
func (s *scene) pods() []corev1.Pod {
	list := &corev1.PodList{}
	s.Must(s.API.List(s.t.Context(), list))
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.Spec.NodeName == "" })
}
