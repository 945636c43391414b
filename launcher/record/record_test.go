package record_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/record"
)

func pool() *karpv1.NodePool {
	p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "uid-pool"}}
	p.Spec.Template.Labels = map[string]string{"team": "a"}
	p.Spec.Template.Annotations = map[string]string{"note": "hello"}
	p.Spec.Template.Spec = karpv1.NodeClaimTemplateSpec{
		Requirements:  []karpv1.NodeSelectorRequirementWithMinValues{{Key: corev1.LabelInstanceType, Operator: "Exists", MinValues: new(2)}},
		Taints:        []corev1.Taint{{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}},
		StartupTaints: []corev1.Taint{{Key: "cni", Effect: corev1.TaintEffectNoExecute}},
		NodeClassRef:  &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"},
		ExpireAfter:   karpv1.MustParseNillableDuration("720h"),

		TerminationGracePeriod: &metav1.Duration{Duration: time.Hour},
	}
	return p
}

func class() *awsv1.EC2NodeClass {
	return &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default", Annotations: map[string]string{
		awsv1.AnnotationEC2NodeClassHash: "42", awsv1.AnnotationEC2NodeClassHashVersion: "v-of-42",
	}}}
}

func planned() *api.Claim {
	return &api.Claim{
		Name: "default-1", NodePool: "default", InstanceTypes: []string{"m7g.large", "m6g.large"}, Replaces: []string{"node-0", "node-1"},
		Requirements: []*api.Requirement{
			{Key: corev1.LabelTopologyZone, Operator: "In", Values: []string{"us-east-1a"}},
			{Key: corev1.LabelInstanceTypeStable, Operator: "In", Values: []string{"m7g.large", "m6g.large"}, MinValues: 2},
			{Key: "cores", Operator: "Gt", Values: []string{"1"}},
		},
		Requests: map[string]string{"cpu": "1500m", "memory": "3Gi"},
		Pods:     []*api.PodRef{{Namespace: "default", Name: "web-1", Uid: "u1"}, {Namespace: "default", Name: "gpu-1", Uid: "u2", SchedulerOnly: "GPU", Adopted: true}},
		Expected: &api.Expected{InstanceType: "m7g.large", Zone: "us-east-1a", CapacityType: "spot", Price: 0.01234},
	}
}

func TestNewNodeClaim(t *testing.T) {
	p := pool()
	p.Annotations = map[string]string{catalog.BurstUseAnnotation: "40", catalog.NodeCostAnnotation: "1"}
	got, err := record.NewNodeClaim(planned(), p, class())
	if err != nil {
		t.Fatal(err)
	}
	wantLabels := map[string]string{
		"team": "a", corev1.LabelTopologyZone: "us-east-1a", karpv1.NodePoolLabelKey: "default", awsv1.LabelNodeClass: "default",
	}
	if diff := cmp.Diff(wantLabels, got.Labels); diff != "" {
		t.Errorf("labels follow from requirements with one value, -want +got:\n%s", diff)
	}
	wantAnnotations := map[string]string{
		"note": "hello", karpv1.NodePoolHashAnnotationKey: p.Hash(), karpv1.NodePoolHashVersionAnnotationKey: karpv1.NodePoolHashVersion,
		awsv1.AnnotationEC2NodeClassHash: "42", awsv1.AnnotationEC2NodeClassHashVersion: "v-of-42",
		catalog.InstanceTypesAnnotation: "m7g.large,m6g.large", catalog.ExpectedAnnotation: "m7g.large/us-east-1a/spot/0.012340",
		catalog.BurstUseAnnotation: "40",
		catalog.ReplacesAnnotation: "node-0,node-1", karpv1.NodeClaimMinValuesRelaxedAnnotationKey: "false",
		catalog.PodsAnnotation: `[{"uids":["u1"]},{"uids":["u2"],"schedulerOnly":"GPU","adopted":true}]`, catalog.ForPodsAnnotation: "true",
	}
	if diff := cmp.Diff(wantAnnotations, got.Annotations); diff != "" {
		t.Errorf("annotations, -want +got:\n%s", diff)
	}
	if nodes := record.Replaces(got); !slices.Equal(nodes, []string{"node-0", "node-1"}) || record.Replaces(&karpv1.NodeClaim{}) != nil {
		t.Errorf("replaces %v", nodes)
	}
	if diff := cmp.Diff([]string{karpv1.TerminationFinalizer}, got.Finalizers); diff != "" {
		t.Errorf("finalizers, -want +got:\n%s", diff)
	}
	checkSpec(t, got, p)
	if len(p.Spec.Template.Labels) != 1 || len(p.Spec.Template.Annotations) != 1 {
		t.Error("the NodePool was changed")
	}
}

func checkSpec(t *testing.T, got *karpv1.NodeClaim, p *karpv1.NodePool) {
	t.Helper()
	if len(got.OwnerReferences) != 1 || got.OwnerReferences[0].UID != "uid-pool" || got.OwnerReferences[0].Kind != "NodePool" {
		t.Errorf("owners %v", got.OwnerReferences)
	}
	keys := []string{}
	for _, r := range got.Spec.Requirements {
		keys = append(keys, fmt.Sprint(r.Key, " ", r.Operator, " ", r.Values))
	}
	if diff := cmp.Diff([]string{
		"cores Gt [1]", "node.kubernetes.io/instance-type In [m7g.large m6g.large]", "topology.kubernetes.io/zone In [us-east-1a]",
	}, keys); diff != "" {
		t.Errorf("requirements, -want +got:\n%s", diff)
	}
	if m := got.Spec.Requirements[1].MinValues; m == nil || *m != 2 {
		t.Errorf("minValues %v", m)
	}
	if cpu := got.Spec.Resources.Requests[corev1.ResourceCPU]; cpu.String() != "1500m" {
		t.Errorf("requests %v", got.Spec.Resources.Requests)
	}
	if diff := cmp.Diff(p.Spec.Template.Spec.Taints, got.Spec.Taints); diff != "" {
		t.Errorf("taints, -want +got:\n%s", diff)
	}
	if diff := cmp.Diff(p.Spec.Template.Spec.StartupTaints, got.Spec.StartupTaints); diff != "" {
		t.Errorf("startup taints, -want +got:\n%s", diff)
	}
	if d := got.Spec.TerminationGracePeriod; d == nil || d.Duration != time.Hour {
		t.Errorf("termination grace period %v", d)
	}
	if got.Spec.NodeClassRef.Name != "default" || *got.Spec.ExpireAfter.Duration != *p.Spec.Template.Spec.ExpireAfter.Duration {
		t.Errorf("spec %+v", got.Spec)
	}
}

// The NodeClaim of a static NodePool has the labels that its NodePool requires, so that it does not drift from it.
func TestStaticNodeClaimMeetsItsRequirements(t *testing.T) {
	p := pool()
	p.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
		{Key: "beta.kubernetes.io/arch", Operator: "In", Values: []string{"arm64"}},
		{Key: corev1.LabelTopologyZone, Operator: "In", Values: []string{"a", "b"}},
		{Key: "rack", Operator: "Exists"},
		{Key: "level", Operator: "Gt", Values: []string{"4"}},
		{Key: "ring", Operator: "In", Values: []string{"x", "y"}},
		{Key: "ring", Operator: "NotIn", Values: []string{"x"}},
		{Key: "team", Operator: "In", Values: []string{"a", "b"}},
		{Key: "absent", Operator: "DoesNotExist"},
	}
	got := record.NewStaticNodeClaim("static-1", p, class()).Labels
	for key, want := range map[string]string{
		corev1.LabelArchStable: "arm64", "beta.kubernetes.io/arch": "", corev1.LabelTopologyZone: "", "rack": "1", "level": "5", "ring": "y", "team": "a", "absent": "",
	} {
		if got[key] != want {
			t.Errorf("label %s is %q, want %q", key, got[key], want)
		}
	}
}

// Well-known labels of the template are requirements and labels of the NodeClaim, as in Karpenter: what is launched for it has them.
func TestStaticNodeClaimKeepsItsTemplatesLabels(t *testing.T) {
	p := pool()
	p.Spec.Template.Labels = map[string]string{"team": "a", karpv1.CapacityTypeLabelKey: "on-demand", "beta.kubernetes.io/arch": "arm64"}
	claim := record.NewStaticNodeClaim("static-1", p, class())
	reqs, err := record.Requirements(claim)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{karpv1.CapacityTypeLabelKey: "on-demand", corev1.LabelArchStable: "arm64"} {
		if got := reqs[key].List(); !slices.Equal(got, []string{want}) || claim.Labels[key] != want {
			t.Errorf("%s: requirement %v, label %q, want %q", key, got, claim.Labels[key], want)
		}
	}
	if _, ok := reqs["team"]; ok || len(p.Spec.Template.Spec.Requirements) != 1 {
		t.Errorf("requirements %v of the NodeClaim, %v of the NodePool", claim.Spec.Requirements, p.Spec.Template.Spec.Requirements)
	}
	if claim.Annotations[karpv1.NodePoolHashAnnotationKey] != p.Hash() {
		t.Error("the NodeClaim has another hash than its NodePool")
	}
}

// A record is read back unchanged: a restarted launcher has nothing else.
func TestMinValuesRelaxed(t *testing.T) {
	claim := planned()
	claim.Requirements[1].MinValues = 1
	got, err := record.NewNodeClaim(claim, pool(), class())
	if err != nil || got.Annotations[karpv1.NodeClaimMinValuesRelaxedAnnotationKey] != "true" {
		t.Errorf("minValues of 1 where the NodePool asks for 2: %v, %v", got, err)
	}
}

func TestRoundTrip(t *testing.T) {
	claim, err := record.NewNodeClaim(planned(), pool(), class())
	if err != nil {
		t.Fatal(err)
	}
	pods, err := record.Pods(claim)
	want := []catalog.PodRef{{UID: "u1"}, {UID: "u2", SchedulerOnly: "GPU", Adopted: true}}
	if diff := cmp.Diff(want, pods); diff != "" || err != nil {
		t.Errorf("error %v, -want +got:\n%s", err, diff)
	}
	if diff := cmp.Diff([]string{"m7g.large", "m6g.large"}, record.InstanceTypes(claim)); diff != "" {
		t.Errorf("instance types, -want +got:\n%s", diff)
	}
	reqs, err := record.Requirements(claim)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"cores", corev1.LabelInstanceTypeStable, corev1.LabelTopologyZone}, slices.Sorted(maps.Keys(reqs))); diff != "" {
		t.Errorf("requirements, -want +got:\n%s", diff)
	}
	if zone := reqs[corev1.LabelTopologyZone]; !zone.Has("us-east-1a") || zone.Has("us-east-1b") {
		t.Errorf("zone %v", zone)
	}
	var keys []string
	for _, taint := range record.Taints(claim) {
		keys = append(keys, taint.Key)
	}
	if diff := cmp.Diff([]string{"dedicated", "cni", catalog.StartingTaintKey}, keys); diff != "" {
		t.Errorf("taints, -want +got:\n%s", diff)
	}
	if len(claim.Spec.Taints) != 1 {
		t.Error("reading changed the claim")
	}
}

func TestInvalidClaims(t *testing.T) {
	cases := []struct {
		name          string
		change        func(c *api.Claim)
		field, reason string
	}{
		{"its name is none", func(c *api.Claim) { c.Name = "Default_1" }, "name", "InvalidName"},
		{"no instance type", func(c *api.Claim) { c.InstanceTypes = nil }, "instance_types", "InvalidInstanceTypes"},
		{"too many", func(c *api.Claim) { c.InstanceTypes = make([]string, 61) }, "instance_types", "InvalidInstanceTypes"},
		{"a pod without UID", func(c *api.Claim) { c.Pods[1].Uid = "" }, "pods[1].uid", "InvalidPod"},
		{"a request that is no quantity", func(c *api.Claim) { c.Requests["cpu"] = "much" }, "requests", "InvalidQuantity"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			in := planned()
			c.change(in)
			_, err := record.NewNodeClaim(in, pool(), class())
			invalid, ok := record.AsInvalid(fmt.Errorf("recording: %w", err))
			if !ok || invalid.Field != c.field || invalid.Reason != c.reason || invalid.Claim != in.GetName() {
				t.Fatalf("error %v (%+v), want field %s", err, invalid, c.field)
			}
			if !strings.Contains(err.Error(), in.GetName()) || !strings.Contains(err.Error(), c.field) {
				t.Errorf("%q does not name claim and field", err)
			}
		})
	}
}

func TestAddPods(t *testing.T) {
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "default-1"}}
	for _, more := range [][]*api.PodRef{{{Namespace: "a", Name: "x", Uid: "u1"}}, {{Uid: "u1", Namespace: "a", Name: "x"}, {Uid: "u2", Namespace: "a", Name: "y"}}} {
		text, err := record.AddPods(claim, more, nil)
		if err != nil {
			t.Fatal(err)
		}
		claim.Annotations = map[string]string{catalog.PodsAnnotation: text}
	}
	pods, err := record.Pods(claim)
	want := []catalog.PodRef{{UID: "u1"}, {UID: "u2"}}
	if diff := cmp.Diff(want, pods); diff != "" || err != nil {
		t.Errorf("error %v, -want +got:\n%s", err, diff)
	}
}

// An annotation may contain anything; a claim that slipway did not create has none.
func TestForeignClaims(t *testing.T) {
	none := &karpv1.NodeClaim{}
	if pods, err := record.Pods(none); pods != nil || err != nil || record.InstanceTypes(none) != nil {
		t.Errorf("pods %v, error %v", pods, err)
	}
	broken := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "default-1", Annotations: map[string]string{catalog.PodsAnnotation: `{"uids":`}}}
	_, err := record.Pods(broken)
	if err == nil || !strings.Contains(err.Error(), "NodeClaim default-1: annotation slipway.dev/pods") {
		t.Errorf("error %v", err)
	}
	if _, err := record.AddPods(broken, nil, nil); err == nil {
		t.Error("pods were added to what cannot be read")
	}
	broken.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{{Key: "cores", Operator: "Gt", Values: []string{"many"}}}
	if _, err := record.Requirements(broken); err == nil || !strings.Contains(err.Error(), "NodeClaim default-1") {
		t.Errorf("error %v", err)
	}
}
