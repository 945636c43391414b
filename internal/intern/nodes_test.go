package intern_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/intern"
)

// resources is what a machine has.
func resources(cpu int64) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewQuantity(cpu, resource.DecimalSI), corev1.ResourceMemory: resource.MustParse("15Gi"),
		corev1.ResourcePods: resource.MustParse("58"), corev1.ResourceEphemeralStorage: resource.MustParse("20Gi"),
	}
}

// labels are those of a machine, without its name.
func labels(n int) map[string]string {
	out := map[string]string{corev1.LabelTopologyZone: fmt.Sprint("us-east-1", string(rune('a'+n%3))), corev1.LabelInstanceTypeStable: "m7g.xlarge"}
	for i := range 25 {
		out[fmt.Sprint("karpenter.k8s.aws/instance-property-", i)] = fmt.Sprint("value-", i)
	}
	return out
}

// nodeOf returns Node n as a kubelet writes it: each has memory of its own.
func nodeOf(tb testing.TB, n int) *corev1.Node {
	tb.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("ip-10-0-%d-%d.ec2.internal", n/256, n%256), Labels: labels(n)}}
	node.Labels[corev1.LabelHostname] = node.Name
	node.Annotations = map[string]string{"csi.volume.kubernetes.io/nodeid": fmt.Sprintf(`{"ebs.csi.aws.com":"i-%017d"}`, n)}
	node.Status = corev1.NodeStatus{Capacity: resources(4), Allocatable: resources(3)}
	for i := range 20 {
		node.Status.Images = append(node.Status.Images, corev1.ContainerImage{SizeBytes: 1 << 20, Names: []string{
			fmt.Sprintf("registry.example.com/app-%d@sha256:%064d", i, i), fmt.Sprintf("registry.example.com/app-%d:v1", i),
		}})
	}
	for _, kind := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, corev1.NodeReady} {
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
			Type: kind, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientMemory", Message: "kubelet has sufficient memory available",
		})
	}
	return decoded(tb, node)
}

// claimOf returns NodeClaim n as the launcher writes it: each has memory of its own.
func claimOf(tb testing.TB, n int) *karpv1.NodeClaim {
	tb.Helper()
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("default-%05d", n), Labels: labels(n)}}
	values := make([]string, 60)
	for i := range values {
		values[i] = fmt.Sprintf("m7g.%dxlarge", i)
	}
	claim.Annotations = map[string]string{"example.com/types": fmt.Sprint(values), "example.com/pods": fmt.Sprint("pod-", n)}
	claim.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
		{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: values},
		{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"arm64"}},
	}
	claim.Spec.Resources.Requests = resources(2)
	claim.Status.Capacity, claim.Status.Allocatable = resources(4), resources(3)
	for _, kind := range []string{karpv1.ConditionTypeLaunched, karpv1.ConditionTypeRegistered, karpv1.ConditionTypeInitialized} {
		claim.StatusConditions().SetTrue(kind)
	}
	return reread(tb, claim)
}

func reread(tb testing.TB, claim *karpv1.NodeClaim) *karpv1.NodeClaim {
	tb.Helper()
	data, err := json.Marshal(claim)
	if err != nil {
		tb.Fatal(err)
	}
	out := &karpv1.NodeClaim{}
	if err := json.Unmarshal(data, out); err != nil {
		tb.Fatal(err)
	}
	return out
}

// Whatever Nodes and NodeClaims contain, they are the same afterwards.
func TestNodesStayAsTheyAre(t *testing.T) {
	o := intern.New()
	random := rand.New(rand.NewPCG(3, 4))
	few := func(prefix string) string { return fmt.Sprint(prefix, random.IntN(3)) }
	for n := range 1000 {
		node, claim := nodeOf(t, n), claimOf(t, n)
		node.Labels[few("key-")], claim.Labels[few("key-")] = few("value-"), few("value-")
		node.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse(few("1"))
		claim.Spec.Resources.Requests[corev1.ResourceName(few("example.com/device-"))] = resource.MustParse(few("1"))
		claim.Spec.Requirements[1].Values = append(claim.Spec.Requirements[1].Values, few("arch-"), few("arch-"))
		claim.Spec.Requirements[1].Operator = corev1.NodeSelectorOperator(few("op-"))
		if random.IntN(2) == 0 {
			claim.Spec.Requirements[0].MinValues = new(random.IntN(3))
		}
		if random.IntN(8) == 0 {
			node.Status.Images, node.Status.Conditions, node.Labels, claim.Annotations, claim.Spec.Requirements = nil, nil, nil, nil, nil
		}
		wantNode, wantClaim := decoded(t, node), reread(t, claim)
		if got := transformed(t, o, node); !apiequality.Semantic.DeepEqual(got, wantNode) {
			t.Fatalf("node %d became\n%+v\nit was\n%+v", n, got, wantNode)
		}
		if got := transformed(t, o, claim); !apiequality.Semantic.DeepEqual(got, wantClaim) {
			t.Fatalf("claim %d became\n%+v\nit was\n%+v", n, got, wantClaim)
		}
	}
}

// Texts that follow on each other are told apart wherever one ends.
func TestListsThatReadAlike(t *testing.T) {
	o := intern.New()
	list := func(values ...string) *karpv1.NodeClaim {
		c := &karpv1.NodeClaim{}
		c.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{{Key: "k", Operator: corev1.NodeSelectorOpIn, Values: values}}
		return c
	}
	for _, values := range [][]string{{"ab", "c"}, {"a", "bc"}, {"abc"}, {"1 a", "b"}, {"1", "a1 b"}} {
		got := transformed(t, o, list(values...))
		if fmt.Sprintf("%q", got.Spec.Requirements[0].Values) != fmt.Sprintf("%q", values) {
			t.Errorf("%q became %q", values, got.Spec.Requirements[0].Values)
		}
	}
}
