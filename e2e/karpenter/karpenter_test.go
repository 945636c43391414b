package karpenter_test

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/aws"
	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/e2e/sandbox"
)

// Karpenter's controller takes the sandbox's AWS for AWS: it launches nodes for all pods, moves those of an interrupted spot instance before
// that ends, consolidates, and leaves no instance behind.
func TestKarpenter(t *testing.T) {
	c := start(t, karpenter)
	c.pool()
	c.awaitPool()
	d := c.deployment(int32(c.pods))
	begun := time.Now()
	c.await("all pods to run", func() bool { return c.running() == c.pods })
	t.Logf("%d pods run after %.0f s on %d nodes for %.2f USD/h", c.pods, time.Since(begun).Seconds(), len(c.claims()), c.bill())
	t.Run("interruption", func(t *testing.T) { c.interrupt(t) })
	before, bill := len(c.claims()), c.bill()
	c.scale(d, int32(c.pods/5))
	begun = time.Now()
	c.await("consolidation", func() bool {
		return c.running() == c.pods/5 && len(c.claims()) < before && c.bill() < bill/2
	})
	t.Logf("consolidated from %d nodes for %.2f USD/h to %d for %.2f in %.0f s", before, bill, len(c.claims()), c.bill(), time.Since(begun).Seconds())
	if err := c.client.Delete(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if err := c.client.Delete(t.Context(), &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "default"}}); err != nil {
		t.Fatal(err)
	}
	c.await("all NodeClaims to be gone", func() bool { return len(c.claims()) == 0 })
	if left := c.instances(); len(left) > 0 {
		t.Errorf("%d instances are left: %+v", len(left), left)
	}
	for _, line := range c.refused() {
		t.Errorf("Karpenter's controller says: %s", line)
	}
}

// interrupt has EC2 take a spot instance away.
func (c *cluster) interrupt(t *testing.T) {
	t.Helper()
	i := slices.IndexFunc(c.instances(), func(i aws.Instance) bool { return i.CapacityType == "spot" })
	if i < 0 {
		t.Fatal("there is no spot instance")
	}
	victim := c.instances()[i]
	if err := c.AWS().Interrupt(victim.ID); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	gone := func() (out observe.Claim) {
		for _, claim := range c.recorder.Claims() {
			if strings.HasSuffix(claim.Object.Status.ProviderID, victim.ID) {
				out = claim
			}
		}
		return out
	}
	c.await("the interrupted node to be gone and all pods to run", func() bool { return gone().Deleted.Seen() && c.running() == c.pods })
	if !gone().Terminating.Seen() || gone().Terminating.At.Sub(begun) > 2*time.Minute {
		t.Errorf("NodeClaim %s was ended %s after the warning: not because of it", gone().Object.Name, gone().Terminating.At.Sub(begun))
	}
	t.Logf("instance %s: its NodeClaim was ended %.1f s after the warning", victim.ID, gone().Terminating.At.Sub(begun).Seconds())
}

// refused lists the errors in Karpenter's log that an answer of AWS caused.
func (c *cluster) refused() []string {
	text, err := os.ReadFile(c.LogFile(karpenter))
	if err != nil {
		return []string{err.Error()}
	}
	var out []string
	for line := range strings.Lines(string(text)) {
		var entry struct{ Level, Error, Message string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Level == "ERROR" && strings.Contains(entry.Error, "api error") {
			out = append(out, entry.Message+": "+entry.Error)
		}
	}
	return out
}

// pool creates the EC2NodeClass and the NodePool of the samples, which consolidates after 30 s.
func (c *cluster) pool() { c.pools("default") }

// pools creates the EC2NodeClass and NodePools of these names, with budgets that are open.
func (c *cluster) pools(names ...string) { c.poolsWithin("100%", names...) }

// poolsWithin does so with a budget.
func (c *cluster) poolsWithin(budget string, names ...string) {
	c.t.Helper()
	class := sandbox.NodeClass("default")
	pool := &karpv1.NodePool{}
	template := &pool.Spec.Template
	template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}
	template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
		{Key: karpv1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{karpv1.CapacityTypeSpot, karpv1.CapacityTypeOnDemand}},
		{Key: awsv1.LabelInstanceCategory, Operator: corev1.NodeSelectorOpIn, Values: []string{"c", "m", "r"}},
		// Karpenter replaces no spot node by a smaller one unless asked: it consolidates where there are several.
		{Key: awsv1.LabelInstanceCPU, Operator: corev1.NodeSelectorOpLt, Values: []string{"17"}},
		{Key: awsv1.LabelInstanceGeneration, Operator: corev1.NodeSelectorOpGt, Values: []string{"4"}},
	}
	pool.Spec.Disruption.ConsolidationPolicy = karpv1.ConsolidationPolicyWhenEmptyOrUnderutilized
	pool.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("30s")
	pool.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: budget}}
	objects := []client.Object{class}
	for _, name := range names {
		named := pool.DeepCopy()
		named.Name = name
		objects = append(objects, named)
	}
	for _, obj := range objects {
		if err := c.client.Create(c.t.Context(), obj); err != nil {
			c.t.Fatal(err)
		}
	}
}

// awaitPool waits until the NodePool is ready.
func (c *cluster) awaitPool() { c.awaitReady("default") }

func (c *cluster) awaitReady(name string) {
	c.t.Helper()
	err := wait.PollUntilContextTimeout(c.t.Context(), 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		pool := &karpv1.NodePool{}
		err := c.client.Get(ctx, client.ObjectKey{Name: name}, pool)
		return err == nil && pool.StatusConditions().Root().IsTrue(), err
	})
	if err != nil {
		c.t.Fatalf("waiting for NodePool %s: %v", name, err)
	}
}

// deployment creates a Deployment of n pods that ask for half a core, and run on the NodePool's nodes alone.
func (c *cluster) deployment(n int32) *appsv1.Deployment {
	return c.create(c.workload("web", n, func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{karpv1.NodePoolLabelKey: "default"} }))
}

func (c *cluster) create(d *appsv1.Deployment) *appsv1.Deployment {
	c.t.Helper()
	if err := c.client.Create(c.t.Context(), d); err != nil {
		c.t.Fatal(err)
	}
	return d
}

// workload is a Deployment of n pods that ask for half a core.
func (c *cluster) workload(name string, n int32, edit func(*corev1.PodSpec)) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	d.Spec.Replicas = &n
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{
			Name: "main", Image: "registry.example/main:1",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("1Gi"),
			}},
		}},
	}}
	edit(&d.Spec.Template.Spec)
	return d
}

func (c *cluster) scale(d *appsv1.Deployment, n int32) {
	c.t.Helper()
	patch := client.MergeFrom(d.DeepCopy())
	d.Spec.Replicas = &n
	if err := c.client.Patch(c.t.Context(), d, patch); err != nil {
		c.t.Fatal(err)
	}
}

// running counts the Deployment's pods that run and stay.
func (c *cluster) running() int { return c.runningOf("web") }

func (c *cluster) runningOf(app string) int {
	n := 0
	for _, p := range c.recorder.Pods() {
		if p.Object.Labels["app"] == app && !p.Deleted.Seen() && !p.Terminating.Seen() && p.Object.Status.Phase == corev1.PodRunning {
			n++
		}
	}
	return n
}

// claims are the NodeClaims that exist.
func (c *cluster) claims() []observe.Claim {
	return slices.DeleteFunc(c.recorder.Claims(), func(c observe.Claim) bool { return c.Deleted.Seen() })
}

// instances are those of the NodePool that EC2 has not ended.
func (c *cluster) instances() []aws.Instance {
	return slices.DeleteFunc(c.AWS().Instances(), func(i aws.Instance) bool {
		return i.Tags[karpv1.NodePoolLabelKey] == "" || i.State == aws.StateTerminated || i.State == aws.StateShuttingDown
	})
}

// bill is the price of the instances at their launch, in USD per hour.
func (c *cluster) bill() float64 {
	sum := 0.0
	for _, i := range c.instances() {
		sum += i.Price
	}
	return sum
}
