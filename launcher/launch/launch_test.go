package launch_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/cloud/memory"
	"github.com/slipway-k8s/slipway/launcher/launch"
)

func (w *world) want(states map[string]string) {
	w.t.Helper()
	if diff := cmp.Diff(states, w.state()); diff != "" {
		w.t.Errorf("claims, -want +got:\n%s", diff)
	}
}

func (w *world) wantLaunches(n int) {
	w.t.Helper()
	if got := w.ec2.Calls(memory.Launch); got != n {
		w.t.Errorf("%d calls of CreateFleet, want %d", got, n)
	}
}

// bindings records when the pods of a claim are bound.
func (w *world) bindings(_ context.Context, c *karpv1.NodeClaim) (written func()) {
	metav1.SetMetaDataAnnotation(&c.ObjectMeta, catalog.BindingsAnnotation, "of "+c.Name)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.planned = append(w.planned, c.Name)
	}
}

func TestEqualClaimsShareACall(t *testing.T) {
	inWorld(t, memory.Config{VisibleAfter: time.Second}, func(t *testing.T, w *world) {
		t.Helper()
		w.record("default-a", "default-b", "default-c")
		w.settle(2 * time.Second)
		w.wantLaunches(1)
		w.want(map[string]string{"default-a": "m7g.large us-east-1a", "default-b": "m7g.large us-east-1a", "default-c": "m7g.large us-east-1a"})
		w.owners()
		c := w.claims()[0]
		if c.Status.NodeName == "" || !c.StatusConditions().Get(karpv1.ConditionTypeLaunched).IsTrue() || c.Status.Allocatable.Cpu().String() != "1930m" {
			t.Errorf("status %+v", c.Status)
		}
		if c.Annotations[catalog.ExpectedAnnotation] != "m7g.large/us-east-1a/on-demand/0.080000" {
			t.Errorf("annotations %v", c.Annotations)
		}
		if slices.Sort(w.planned); c.Annotations[catalog.BindingsAnnotation] != "of default-a" || !slices.Equal(w.planned, []string{"default-a", "default-b", "default-c"}) {
			t.Errorf("bindings %q, planned %v", c.Annotations[catalog.BindingsAnnotation], w.planned)
		}
		if got := c.Annotations[awsv1.AnnotationInstanceProfile]; got != "nodes" {
			t.Errorf("instance profile %q", got)
		}
		if cost, ok := catalog.ParseCost(c.Annotations[catalog.CostAnnotation]); !ok || cost != (catalog.Cost{Instance: 0.08}) {
			t.Errorf("cost %+v of %q", cost, c.Annotations[catalog.CostAnnotation])
		}
		instances, err := w.ec2.Instances(context.Background(), cloud.Selector{})
		if err != nil || instances[0].Tags["karpenter.sh/nodeclaim"] != "default-a" {
			t.Errorf("error %v, tags %v", err, instances[0].Tags)
		}
		w.subject.Enqueue(&c) // The claim is known, and it has an instance.
		w.settle(time.Minute)
		w.wantLaunches(1)
	})
}

// An instance is named after its node, unless the class's tags name it.
func TestNameTag(t *testing.T) {
	for given, want := range map[string]string{"": "ip-10-0-0-2.ec2.internal", "workers": "workers"} {
		inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
			t.Helper()
			class := &awsv1.EC2NodeClass{}
			if err := w.api.Get(t.Context(), client.ObjectKey{Name: "default"}, class); err != nil {
				t.Fatal(err)
			}
			if given != "" {
				class.Spec.Tags = map[string]string{"Name": given}
			}
			if err := w.api.Update(t.Context(), class); err != nil {
				t.Fatal(err)
			}
			w.record("default-a")
			w.settle(2 * time.Second)
			instances, err := w.ec2.Instances(t.Context(), cloud.Selector{})
			if err != nil || len(instances) != 1 {
				t.Fatalf("%v, %v", instances, err)
			}
			if tags := instances[0].Tags; tags["Name"] != want || tags["karpenter.sh/nodeclaim"] != "default-a" {
				t.Errorf("spec.tags.Name %q: tags %v, want the name %s", given, tags, want)
			}
		})
	}
}

// The kubelet's labels do not depend on the expected instance: equal user data is one launch template.
func TestKubeletLabels(t *testing.T) {
	inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
		t.Helper()
		of := func(zone, instanceType string) map[string]string {
			return map[string]string{
				karpv1.NodePoolLabelKey: "default", "team": "a", corev1.LabelTopologyZone: zone, corev1.LabelInstanceTypeStable: instanceType,
				corev1.LabelArchStable: "arm64", "topology.k8s.aws/zone-id": "id-" + zone, catalog.LabelInstanceFamily: "m7g",
				corev1.LabelFailureDomainBetaZone: zone, "karpenter.k8s.aws/capacity-reservation-id": "cr-" + zone,
			}
		}
		for name, labels := range map[string]map[string]string{"default-a": of("us-east-1a", "m7g.large"), "default-b": of("us-east-1b", "m7g.xlarge")} {
			c := w.newClaim(name)
			c.Labels = labels
			w.create(c)
			w.subject.Enqueue(c)
		}
		w.settle(time.Second)
		w.owners()
		w.wantLaunches(2)
		for _, in := range w.inputs {
			if diff := cmp.Diff(map[string]string{karpv1.NodePoolLabelKey: "default", "team": "a"}, in.Labels); diff != "" {
				t.Errorf("labels, -want +got:\n%s", diff)
			}
		}
	})
}

// Every type comes in both tenancies: the claim's requirements decide, and the label shows what EC2 launched.
func TestDedicatedTenancy(t *testing.T) {
	inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
		t.Helper()
		c := w.newClaim("default-a")
		c.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
			{Key: catalog.LabelInstanceTenancy, Operator: "In", Values: []string{catalog.TenancyDedicated}},
		}
		w.create(c)
		w.subject.Enqueue(c)
		w.record("default-b")
		w.settle(time.Second)
		w.owners()
		got := map[string]string{}
		for _, c := range w.claims() {
			got[c.Name] = c.Labels[catalog.LabelInstanceTenancy]
		}
		if diff := cmp.Diff(map[string]string{"default-a": "dedicated", "default-b": "default"}, got); diff != "" {
			t.Errorf("tenancies, -want +got:\n%s", diff)
		}
	})
}

func TestInsufficientCapacityFallsToTheNextOffering(t *testing.T) {
	inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
		t.Helper()
		w.ec2.SetCapacity(memory.Offering{InstanceType: "m7g.large", Zone: "us-east-1a", CapacityType: "on-demand"}, 1)
		w.ec2.SetCapacity(memory.Offering{InstanceType: "m7g.large", Zone: "us-east-1b", CapacityType: "on-demand"}, 0)
		w.record("default-a", "default-b")
		w.settle(time.Second)
		w.want(map[string]string{"default-a": "m7g.large us-east-1a", "default-b": "m7g.xlarge us-east-1a"})
		w.owners()
	})
}

// EC2 may answer a call with fewer instances than asked for: the rest is asked for again, under another id.
func TestPartialFulfilment(t *testing.T) {
	inWorld(t, memory.Config{Types: []catalog.InstanceType{instanceType("m7g.large", 0.08)}}, func(t *testing.T, w *world) {
		t.Helper()
		w.ec2.SetCapacity(memory.Offering{}, 1)
		w.at("after", func(what string) error {
			if what == "launch" && w.attempts() == 1 {
				w.ec2.ClearCapacity(memory.Offering{Zone: "us-east-1a"})
				w.ec2.SetCapacity(memory.Offering{}, 9)
			}
			return nil
		})
		w.record("default-a", "default-b", "default-c")
		w.settle(time.Second)
		if got := w.state(); got["default-a"] != "m7g.large us-east-1a" || len(got) != 3 {
			t.Errorf("claims %v", got)
		}
		// Both offerings have failed for the remaining two claims: nothing is bought in a loop.
		w.want(map[string]string{"default-a": "m7g.large us-east-1a", "default-b": "going", "default-c": "going"})
		w.owners()
	})
}

func TestNothingLeft(t *testing.T) {
	inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
		t.Helper()
		w.ec2.SetCapacity(memory.Offering{}, 0)
		w.record("default-a")
		w.settle(time.Second)
		w.want(map[string]string{"default-a": "going"})
		if len(w.failed) != 1 || !strings.HasPrefix(w.failed[0], "default-a InsufficientCapacity: EC2 launched no instance: InsufficientInstanceCapacity in 4 of 4 offerings (m7g.large on-demand in us-east-1a, ") {
			t.Errorf("failed %v", w.failed)
		}
		if got := w.written(); len(got) != 1 || !strings.HasPrefix(got[0], "default-a Warning InsufficientCapacityError: ") {
			t.Errorf("events %v", got)
		}
		if c := w.claims()[0].StatusConditions().Get(karpv1.ConditionTypeLaunched); !c.IsFalse() || c.Reason != "InsufficientCapacity" {
			t.Errorf("condition %+v", c)
		}
		calls := w.ec2.Calls(memory.Launch)
		w.settle(time.Hour)
		w.wantLaunches(calls)
	})
}

func TestNodeClassThatCannotLaunch(t *testing.T) {
	inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
		t.Helper()
		w.ec2.BreakClass("default", "SubnetsNotFound", "spec.subnetSelectorTerms select nothing")
		w.record("default-a")
		w.settle(time.Second)
		w.want(map[string]string{"default-a": "going"})
		if len(w.failed) != 1 || !strings.Contains(w.failed[0], "NodeClassNotReady: EC2NodeClass default: SubnetsNotFound: spec.subnetSelectorTerms") {
			t.Errorf("failed %v", w.failed)
		}
	})
}

// A user may create a NodeClaim with kubectl, without any of the optional fields.
func TestClaimOfSomebodyElse(t *testing.T) {
	inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
		t.Helper()
		bare := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "bare", UID: "1", CreationTimestamp: metav1.Now(), Finalizers: []string{"x/y"}}}
		w.create(bare)
		named := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "named", UID: "2", CreationTimestamp: metav1.Now()}}
		named.Spec.NodeClassRef = &karpv1.NodeClassReference{Name: "default"}
		w.create(named)
		lost := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "lost", UID: "3", CreationTimestamp: metav1.Now(), Finalizers: []string{"x/y"}}}
		lost.Spec.NodeClassRef = &karpv1.NodeClassReference{Name: "nowhere"}
		w.create(lost)
		w.subject.Enqueue(bare, named, lost)
		w.settle(time.Second)
		w.want(map[string]string{"bare": "going", "named": "m7g.large us-east-1a", "lost": "going"})
	})
}

// The client token makes a repeated call harmless, as long as it is the same call.
func TestThrottledCallIsRepeatedUnderTheSameID(t *testing.T) {
	inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
		t.Helper()
		w.ec2.Fail(memory.Launch, memory.ErrThrottled, memory.ErrThrottled)
		w.record("default-a", "default-b")
		w.settle(10 * time.Second)
		w.wantLaunches(3)
		if n := w.attempts(); n != 1 {
			t.Errorf("%d ids: %v", n, w.tokens)
		}
		// What is kept for a repetition may be forgotten once the instances are dealt out.
		if !slices.Equal(w.settled, w.tokens[:1]) {
			t.Errorf("%v are settled, want %v once", w.settled, w.tokens[:1])
		}
		w.owners()
	})
}

// The answer is lost, and one of the claims is deleted before the call is repeated: EC2 rejects a different call with the same token.
func TestRepeatedCallIsTheSame(t *testing.T) {
	inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
		t.Helper()
		w.loseFirstAnswer()
		w.record("default-a", "default-b")
		w.settle(10 * time.Second)
		w.wantLaunches(2)
		w.want(map[string]string{"default-a": "going", "default-b": "m7g.large us-east-1a"})
		w.owners() // The surplus was terminated.
	})
}

func TestClaimDeletedDuringTheCall(t *testing.T) {
	inWorld(t, memory.Config{VisibleAfter: 5 * time.Second}, func(t *testing.T, w *world) {
		t.Helper()
		w.record("default-a", "default-b")
		w.settle(time.Second)
		claims := w.claims()
		if err := w.api.Delete(context.Background(), &claims[1]); err != nil {
			t.Fatal(err)
		}
		w.settle(10 * time.Second)
		w.want(map[string]string{"default-a": "m7g.large us-east-1a", "default-b": "going"})
		w.owners()
		if id := w.claims()[1].Status.ProviderID; id != "" {
			t.Errorf("a claim that is going was given %s: who ends it may have looked already", id)
		}
	})
}

func TestClaimDeletedBeforeTheCall(t *testing.T) {
	inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
		t.Helper()
		w.lead(false)
		w.record("default-a")
		w.settle(time.Second)
		claims := w.claims()
		if err := w.api.Delete(context.Background(), &claims[0]); err != nil {
			t.Fatal(err)
		}
		w.lead(true)
		w.settle(time.Minute)
		w.wantLaunches(0)
	})
}

// The call is repeated for as long as EC2 throttles it, but not once no claim needs its instance.
func TestClaimDeletedWhileThrottled(t *testing.T) {
	inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
		t.Helper()
		w.ec2.Throttle(20 * time.Second)
		w.record("default-a")
		w.settle(time.Second)
		claims := w.claims()
		if err := w.api.Delete(context.Background(), &claims[0]); err != nil {
			t.Fatal(err)
		}
		w.settle(time.Minute)
		all, err := w.ec2.Instances(context.Background(), cloud.Selector{})
		if err != nil || len(all) > 0 {
			t.Errorf("%d instances were launched for a claim that was gone before, %v", len(all), err)
		}
	})
}

// AWS is down for longer than a claim may take: its pods are planned again.
func TestLaunchTimeout(t *testing.T) {
	inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
		t.Helper()
		w.ec2.Throttle(time.Hour)
		w.record("default-a")
		w.settle(5 * time.Minute)
		w.want(map[string]string{"default-a": "no instance"})
		w.settle(time.Minute)
		w.want(map[string]string{"default-a": "going"})
		if len(w.failed) != 1 || !strings.HasPrefix(w.failed[0], "default-a LaunchTimeout: no instance within 5m0s") {
			t.Errorf("failed %v", w.failed)
		}
	})
}

// A failed claim that could not be written stays in progress: no other process would end it.
func TestFailureThatCannotBeWritten(t *testing.T) {
	for _, what := range []string{"status default-a", "delete default-a"} {
		inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
			t.Helper()
			w.ec2.SetCapacity(memory.Offering{}, 0)
			w.at("before", once(what, errors.New("the API server is busy")))
			w.record("default-a")
			w.settle(10 * time.Second)
			w.want(map[string]string{"default-a": "going"})
		})
	}
}

func TestNewNeedsItsDependencies(t *testing.T) {
	if _, err := launch.New(launch.Config{}); err == nil {
		t.Error("no error without any dependency")
	}
}
