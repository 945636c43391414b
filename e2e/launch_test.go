package e2e_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/aws"
	"github.com/slipway-k8s/slipway/e2e/aws/meter"
	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/launcher/bill"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/fromec2"
)

// A NodePool that requires dedicated tenancy gives dedicated instances, planned, bought and labelled as such, at their own price, and the bill has the fee
// that AWS charges for each hour with one of them.
func TestDedicatedTenancy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "tenancy")
	w.pool("tenancy-dedicated", func(p *karpv1.NodePool) {
		require(p, catalog.LabelInstanceTenancy, catalog.TenancyDedicated)
		onlyTypes(p, "m6i.large")
		require(p, karpv1.CapacityTypeLabelKey, "on-demand")
	})
	w.pool("tenancy-default", nil)
	for _, tenancy := range []string{catalog.TenancyDedicated, catalog.TenancyDefault} {
		w.deployment(tenancy, 1, w.podSpec("1", "1Gi", func(s *corev1.PodSpec) { s.NodeSelector[catalog.LabelInstanceTenancy] = tenancy }))
	}
	w.awaitRunning(2)
	for _, p := range w.pods() {
		node := w.node(p.Object.Spec.NodeName).Object
		want := p.Object.Labels["app"]
		if got := node.Labels[catalog.LabelInstanceTenancy]; got != want || node.Labels[karpv1.NodePoolLabelKey] != "tenancy-"+want {
			t.Errorf("pod %s is on node %s with labels %v", p.Object.Name, node.Name, node.Labels)
		}
	}
	// m6i.large costs 0.096 with shared tenancy, and a sixteenth more with dedicated one.
	const price = 0.102
	claim := w.claimsOf("tenancy-dedicated")[0].Object
	if cost, _ := catalog.ParseCost(claim.Annotations[catalog.CostAnnotation]); math.Abs(cost.Instance-price) > 1e-9 {
		t.Errorf("the dedicated node was planned at %v, want %v for its instance", cost, price)
	}
	w.await(t, "the bill to have the fee and the price", func() bool {
		b := w.bill(bill.ByNodePool)
		l := lineOf(b, "tenancy-dedicated")
		return b.Fee >= catalog.DedicatedFee && l.NodeHours > 0 && math.Abs(l.Requested.Instance+l.Idle.Instance-price*l.NodeHours) < 1e-6
	})
	paid, lines := shared.AWS().Meter.Bill(time.Now()), map[string]meter.Line{}
	for _, line := range paid.Lines {
		lines[line.ID] = line
	}
	for _, in := range shared.AWS().Instances() {
		if line := lines[in.ID]; in.Tags[karpv1.NodePoolLabelKey] == "tenancy-dedicated" && math.Abs(line.Instance-price*line.Hours) > 1e-9 {
			t.Errorf("AWS charges %v for %v hours, want %v per hour", line.Instance, line.Hours, price)
		}
	}
	if paid.Fees < catalog.DedicatedFee {
		t.Errorf("AWS charges %v for hours with dedicated instances, want %v for each", paid.Fees, catalog.DedicatedFee)
	}
}

// The first node of an instance type and AMI reports another memory than EC2 advertises less the usual share, and leaves less
// to pods than was promised: the next node of the kind is planned with both, by a launcher that was started meanwhile, too.
func TestLearnedSizesOutliveTheLauncherAlone(t *testing.T) {
	const kind = "m6i.2xlarge"
	w := newWorld(t, "learning")
	// What the launcher does not read of it the kubelet keeps from pods all the same.
	w.lessThanPlanned("learning", "memory: 2Gi")
	w.pool("learning", func(p *karpv1.NodePool) {
		p.Spec.Template.Spec.NodeClassRef.Name = "learning"
		onlyTypes(p, kind)
		require(p, karpv1.CapacityTypeLabelKey, "on-demand")
	})
	web := w.deployment("web", 1, w.podSpec("5", "1Gi", nil))
	w.awaitRunning(1)
	first := w.claimsOf("learning")[0].Object
	node := w.node(first.Status.NodeName).Object
	var class awsv1.EC2NodeClass
	w.await(t, "what the node reports in the class", func() bool {
		if err := w.client.Get(t.Context(), keyOf("learning"), &class); err != nil {
			t.Fatal(err)
		}
		return strings.Contains(class.Annotations[catalog.LearnedAnnotation], kind)
	})
	learned := fromec2.SizesOf(&class)[fromec2.SizesKey(kind, first.Status.ImageID)][0]
	same(t, "the learned capacity of memory", learned.Memory, *node.Status.Capacity.Memory())
	same(t, "the learned allocatable memory", *learned.Allocatable.Memory(), *node.Status.Allocatable.Memory())
	w.kill("launcher")
	w.scale(web, 2)
	w.awaitRunning(2)
	// A MiB more than the first node has would have been promised before it reported, and now no node is tried for it.
	memory := node.Status.Allocatable.Memory().DeepCopy()
	memory.Add(resource.MustParse("1Mi"))
	w.deployment("big", 1, w.podSpec("1", memory.String(), nil))
	w.await(t, "a reason why the large pod gets no node", func() bool {
		return slices.ContainsFunc(w.pods(), func(p observe.Pod) bool {
			return p.Object.Labels["app"] == "big" && containsAll(scheduledMessage(p), "learning", "memory")
		})
	})
	if n := len(w.everClaimed("learning")); n != 2 {
		t.Errorf("%d NodeClaims, want 2", n)
	}
}

func same(t *testing.T, what string, got, want resource.Quantity) {
	t.Helper()
	if got.Cmp(want) != 0 {
		t.Errorf("%s is %s, want %s", what, got.String(), want.String())
	}
}

// Pods that ask for zones, instance types and families of their own get nodes from few launch templates: what the instance decides
// is not in the user data.
func TestFewLaunchTemplates(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "few-templates")
	w.pool("few-templates", func(p *karpv1.NodePool) { require(p, karpv1.CapacityTypeLabelKey, "on-demand") })
	wants := []map[string]string{
		{corev1.LabelTopologyZone: "us-east-1a"},
		{corev1.LabelTopologyZone: "us-east-1b"},
		{corev1.LabelTopologyZone: "us-east-1c"},
		{corev1.LabelInstanceTypeStable: "m6i.large"},
		{corev1.LabelInstanceTypeStable: "c6i.large"},
		{awsv1.LabelInstanceFamily: "m5", awsv1.LabelInstanceSize: "large"},
		{awsv1.LabelInstanceFamily: "r5", awsv1.LabelInstanceSize: "large"},
	}
	for i, labels := range wants {
		w.deployment(fmt.Sprintf("web-%d", i), 1, w.podSpec("1500m", "1Gi", func(s *corev1.PodSpec) { maps.Copy(s.NodeSelector, labels) }))
	}
	w.awaitRunning(len(wants))
	used := map[string]bool{}
	for _, i := range shared.AWS().Instances() {
		if i.Tags[karpv1.NodePoolLabelKey] == "few-templates" {
			used[i.LaunchTemplateName] = true
		}
	}
	// One for each number of pods that the kubelets are told: the zone's cheapest types may have more network interfaces.
	if n := len(w.everClaimed("few-templates")); n < 5 || len(used) > 2 {
		t.Errorf("%d nodes came from %d launch templates", n, len(used))
	}
}

// A claim that is deleted while EC2 is asked for its instance ends with none, and its pod runs elsewhere.
func TestClaimDeletedDuringItsLaunchAlone(t *testing.T) {
	w := newWorld(t, "deleted")
	w.pool("deleted", func(p *karpv1.NodePool) { onlyTypes(p, "m6i.large") })
	before := len(shared.FleetCalls())
	w.deployment("web", 1, w.podSpec("1", "1Gi", nil))
	var first observe.Claim
	w.await(t, "a call for the claim's instance", func() bool {
		claims := w.claimsOf("deleted")
		if len(claims) == 0 || len(shared.FleetCalls()) == before {
			return false
		}
		first = claims[0]
		return true
	})
	if err := w.client.Delete(t.Context(), first.Object.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	w.await(t, "the claim to be gone, and the pod on another's node", func() bool {
		for _, c := range w.claimsOf("deleted") {
			if c.Object.Name == first.Object.Name {
				return false
			}
		}
		return w.running() == 1
	})
	for _, c := range w.claimsOf("deleted") {
		if c.Object.UID == first.Object.UID {
			t.Errorf("NodeClaim %s is still there", c.Object.Name)
		}
	}
	w.await(t, "no instance but those of claims", func() bool {
		owned := map[string]bool{}
		for _, c := range w.claimsOf("deleted") {
			owned[instanceID(c)] = true
		}
		return !slices.ContainsFunc(shared.AWS().Instances(), func(i aws.Instance) bool {
			return i.Tags[karpv1.NodePoolLabelKey] == "deleted" && i.Live() && !owned[i.ID]
		})
	})
}
