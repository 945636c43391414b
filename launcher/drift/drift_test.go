package drift_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/drift"
	"github.com/slipway-k8s/slipway/launcher/leadership/leadershiptest"
)

// sky is a cloud with one instance, which counts the calls for it.
type sky struct {
	asked                      int
	subnet, reservation, group string
	failure                    error
}

func (*sky) AllInstanceTypes(context.Context, *awsv1.EC2NodeClass) ([]catalog.InstanceType, error) {
	return nil, nil
}

func (s *sky) Instances(context.Context, cloud.Selector) ([]cloud.Instance, error) {
	s.asked++
	return []cloud.Instance{{ID: "i-1", SubnetID: s.subnet, ReservationID: s.reservation, SecurityGroupIDs: []string{s.group}}}, s.failure
}

// ground is an API server with a claim, its NodePool and its class.
type ground struct {
	t       *testing.T
	api     client.Client
	sky     *sky
	foreign bool
	subject *drift.Detector
	// after is when the claim is looked at again.
	after time.Duration
}

func newGround(t *testing.T) *ground {
	t.Helper()
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "pool", Annotations: map[string]string{
		karpv1.NodePoolHashAnnotationKey: "1", karpv1.NodePoolHashVersionAnnotationKey: "v3",
	}}}
	pool.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Name: "class"}
	class := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "class"}}
	class.Status.Subnets = []awsv1.Subnet{{ID: "subnet-a"}}
	class.Status.SecurityGroups = []awsv1.SecurityGroup{{ID: "sg-1"}}
	set := class.StatusConditions()
	for _, c := range []string{
		awsv1.ConditionTypeAMIsReady, awsv1.ConditionTypeSubnetsReady, awsv1.ConditionTypeSecurityGroupsReady,
		awsv1.ConditionTypeInstanceProfileReady, awsv1.ConditionTypeCapacityReservationsReady, awsv1.ConditionTypePlacementGroupReady,
		awsv1.ConditionTypeValidationSucceeded,
	} {
		set.SetTrue(c)
	}
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "claim", Annotations: pool.Annotations, Labels: map[string]string{karpv1.NodePoolLabelKey: "pool"}}}
	claim.Status.ProviderID = "aws:///us-east-1a/i-1"
	claim.StatusConditions().SetTrue(karpv1.ConditionTypeLaunched)
	g := &ground{t: t, sky: &sky{subnet: "subnet-a", group: "sg-1"}}
	g.api = fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(pool, class, claim).WithStatusSubresource(claim).Build()
	var err error
	g.subject, err = drift.New(drift.Config{Client: g.api, Cloud: g.sky, Guard: leadershiptest.Always{}, Ours: func(*karpv1.NodeClaim) bool { return !g.foreign }})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// look reconciles the claim and returns the reason of its condition Drifted; empty for none.
func (g *ground) look() string {
	g.t.Helper()
	key := client.ObjectKey{Name: "claim"}
	result, err := g.subject.Reconcile(g.t.Context(), reconcile.Request{NamespacedName: key})
	if err != nil {
		g.t.Fatal(err)
	}
	g.after = result.RequeueAfter
	var claim karpv1.NodeClaim
	if err := g.api.Get(g.t.Context(), key, &claim); err != nil {
		g.t.Fatal(err)
	}
	if c := claim.StatusConditions().Get(karpv1.ConditionTypeDrifted); c != nil {
		return c.Reason
	}
	return ""
}

func (g *ground) hash(value string) {
	g.t.Helper()
	var pool karpv1.NodePool
	if err := g.api.Get(g.t.Context(), client.ObjectKey{Name: "pool"}, &pool); err != nil {
		g.t.Fatal(err)
	}
	pool.Annotations[karpv1.NodePoolHashAnnotationKey] = value
	if err := g.api.Update(g.t.Context(), &pool); err != nil {
		g.t.Fatal(err)
	}
}

// TestConditionFollowsTheFacts checks that a claim drifts when its NodePool changes, and no longer when the change is
// reverted. Claims of a running Karpenter are left alone.
func TestConditionFollowsTheFacts(t *testing.T) {
	g := newGround(t)
	if got := g.look(); got != "" {
		t.Fatalf("Drifted for %s as launched", got)
	}
	g.hash("2")
	g.foreign = true
	if got := g.look(); got != "" {
		t.Errorf("Drifted for %s, though a Karpenter has the claim", got)
	}
	g.foreign = false
	if got := g.look(); got != drift.NodePoolDrifted {
		t.Errorf("Drifted for %q, want %s", got, drift.NodePoolDrifted)
	}
	g.hash("1")
	if got := g.look(); got != "" {
		t.Errorf("still drifted for %s after the change was taken back", got)
	}
}

// TestInstancesAreAskedForSeldom checks that instances are listed once per period for any number of claims. An instance that
// is not listed yet has not drifted.
func TestInstancesAreAskedForSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGround(t)
		g.sky.subnet = "subnet-z"
		for range 20 {
			if got := g.look(); got != drift.SubnetDrift {
				t.Fatalf("Drifted for %q, want %s", got, drift.SubnetDrift)
			}
		}
		if g.sky.asked != 1 {
			t.Errorf("instances were asked for %d times by twenty looks", g.sky.asked)
		}
		var claim karpv1.NodeClaim
		if err := g.api.Get(t.Context(), client.ObjectKey{Name: "claim"}, &claim); err != nil {
			t.Fatal(err)
		}
		claim.Status.ProviderID = "aws:///us-east-1a/i-new"
		if err := g.api.Status().Update(t.Context(), &claim); err != nil {
			t.Fatal(err)
		}
		if got := g.look(); got != "" || g.sky.asked != 1 {
			t.Errorf("Drifted for %q after %d questions, though the instance is not known", got, g.sky.asked)
		}
		time.Sleep(6 * time.Minute)
		if g.look(); g.sky.asked != 2 {
			t.Errorf("instances were asked for %d times, want again after a while", g.sky.asked)
		}
	})
}

// TestChangesOfAnInstanceAreSeen checks that a change of a running instance, such as that of its security groups, is seen within five minutes, with
// one call for all claims, and that errors of EC2 neither hide what is known nor make each claim repeat the call.
func TestChangesOfAnInstanceAreSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGround(t)
		// until looks every ten seconds, as the claims of a cluster do together, and returns after how long it is the reason.
		until := func(reason string, most time.Duration) time.Duration {
			t.Helper()
			for start := time.Now(); time.Since(start) <= most; time.Sleep(10 * time.Second) {
				if g.look() == reason {
					return time.Since(start)
				}
			}
			t.Errorf("not Drifted for %q after %s", reason, most)
			return most
		}
		if got := g.look(); got != "" {
			t.Fatalf("Drifted for %s as launched", got)
		}
		g.sky.group = "sg-2"
		// A claim is looked at once in g.after, with an answer that may be as old as it takes until any look has another one.
		if took := until(drift.SecurityGroupDrift, 5*time.Minute); took+g.after > 5*time.Minute {
			t.Errorf("a change is seen %s later by a claim that is looked at every %s", took, g.after)
		}
		g.sky.failure, g.sky.asked = errors.New("RequestLimitExceeded"), 0
		for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); time.Sleep(10 * time.Second) {
			if got := g.look(); got != drift.SecurityGroupDrift {
				t.Fatalf("Drifted for %q while EC2 returns errors, want %s", got, drift.SecurityGroupDrift)
			}
		}
		if g.sky.asked < 10 || g.sky.asked > 20 {
			t.Errorf("instances were asked for %d times in ten minutes while EC2 returned errors", g.sky.asked)
		}
		g.sky.failure, g.sky.group, g.sky.asked = nil, "sg-1", 0
		until("", time.Minute)
		for end := time.Now().Add(20 * time.Minute); time.Now().Before(end); time.Sleep(10 * time.Second) {
			g.look()
		}
		if g.sky.asked < 8 || g.sky.asked > 12 {
			t.Errorf("instances were asked for %d times in 20 minutes of looks at every ten seconds", g.sky.asked)
		}
	})
}

// TestEndedReservationIsNoDrift checks that EC2 is asked again about an instance whose capacity reservation the class no
// longer selects. If the reservation has ended, the instance is on-demand and has not drifted.
func TestEndedReservationIsNoDrift(t *testing.T) {
	g := newGround(t)
	g.sky.reservation = "cr-1"
	if got := g.look(); got != drift.CapacityReservationDrift || g.sky.asked != 2 {
		t.Fatalf("Drifted for %q after %d questions, want %s after one more than ever", got, g.sky.asked, drift.CapacityReservationDrift)
	}
	g.sky.reservation = ""
	if got := g.look(); got != "" {
		t.Errorf("still drifted for %s after the reservation has ended", got)
	}
	if g.look(); g.sky.asked != 3 {
		t.Errorf("instances were asked for %d times, though it is known that this one is in no reservation", g.sky.asked)
	}
}

func TestNewNeedsItsDependencies(t *testing.T) {
	if _, err := drift.New(drift.Config{}); err == nil {
		t.Error("no error without any dependency")
	}
}
