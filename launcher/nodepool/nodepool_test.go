package nodepool_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/drift"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/leadership/leadershiptest"
	"github.com/slipway-k8s/slipway/launcher/nodepool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestConditions runs the files of testdata. The input is the spec of a NodePool; the output are its conditions:
//
//	spec [class=ready|broken|unknown|deleting|missing] [types=(NAME ARCHITECTURE ZONE CAPACITYTYPE,...)]
//
// The input is laid over a spec that is valid by itself.
func TestConditions(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		t.Helper()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			t.Helper()
			pool := validPool(t)
			if err := yaml.UnmarshalStrict([]byte(d.Input), &pool.Spec); err != nil {
				t.Fatal(err)
			}
			state := "ready"
			if d.HasArg("class") {
				d.ScanArgs(t, "class", &state)
			}
			facts := nodepool.Facts{Class: class(t, state), TypesKnown: d.HasArg("types")}
			if facts.TypesKnown {
				facts.Types = types(d)
			}
			nodepool.SetConditions(t.Context(), pool, facts)
			return render(pool)
		})
	})
}

func validPool(t *testing.T) *karpv1.NodePool {
	t.Helper()
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "default", Generation: 1}}
	err := yaml.UnmarshalStrict([]byte(`
template:
  spec:
    expireAfter: Never
    nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
    requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]
disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 30s, budgets: [{nodes: 10%}]}
`), &pool.Spec)
	if err != nil {
		t.Fatal(err)
	}
	return pool
}

func class(t *testing.T, state string) *awsv1.EC2NodeClass {
	t.Helper()
	c := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	set := c.StatusConditions()
	for _, cond := range []string{"AMIsReady", "SubnetsReady", "SecurityGroupsReady", "InstanceProfileReady", "ValidationSucceeded", "PlacementGroupReady"} {
		set.SetTrue(cond)
	}
	switch state {
	case "ready":
	case "broken":
		set.SetFalse("SubnetsReady", "SubnetsNotFound", "spec.subnetSelectorTerms match no subnet")
	case "unknown":
		set.SetUnknown("SubnetsReady")
	case "deleting":
		deleted := metav1.Now()
		c.DeletionTimestamp = &deleted
	case "missing":
		return nil
	default:
		t.Fatalf("unknown state %s", state)
	}
	return c
}

func render(pool *karpv1.NodePool) string {
	var out []string
	for _, c := range pool.Status.Conditions {
		line := fmt.Sprintf("%s=%s", c.Type, c.Status)
		if c.Reason != c.Type && c.Reason != "AwaitingReconciliation" {
			line += " " + c.Reason
		}
		if c.Message != "" && c.Reason != "AwaitingReconciliation" {
			line += ": " + c.Message
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return strings.Join(out, "\n") + "\n"
}

func newController(t *testing.T, objects ...client.Object) (*nodepool.Controller, client.Client) {
	t.Helper()
	b := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).
		WithStatusSubresource(&karpv1.NodePool{}, &karpv1.NodeClaim{}, &awsv1.EC2NodeClass{})
	index.Each(func(o client.Object, field string, value client.IndexerFunc) { b.WithIndex(o, field, value) })
	api := b.Build()
	return controllerOf(t, api), api
}

// controllerOf is the controller with a client.
func controllerOf(t *testing.T, api client.Client) *nodepool.Controller {
	t.Helper()
	c, err := nodepool.New(nodepool.Config{Client: api, Claims: index.ListClaims(api), Offers: offers{instanceType("m5.large", "amd64", "us-east-1a", "spot")}, Events: &record.FakeRecorder{}, Guard: leadershiptest.Always{}, Leading: leading, Registerer: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func reconcileOnce(t *testing.T, c *nodepool.Controller, api client.Client, name string) *karpv1.NodePool {
	t.Helper()
	key := client.ObjectKey{Name: name}
	if _, err := c.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
		t.Fatal(err)
	}
	pool := &karpv1.NodePool{}
	if err := api.Get(t.Context(), key, pool); err != nil {
		t.Fatal(err)
	}
	return pool
}

// A condition of earlier versions, of what they did not do, is taken away.
func TestNotYetIsTakenAway(t *testing.T) {
	pool := validPool(t)
	pool.StatusConditions().SetTrueWithReason("slipway.dev/NotYet", "NotYet", "drift")
	c, api := newController(t, pool, class(t, "ready"))
	pool = reconcileOnce(t, c, api, "default")
	if pool.StatusConditions().Get("slipway.dev/NotYet") != nil || !pool.StatusConditions().IsTrue("Ready") {
		t.Errorf("conditions:\n%s", render(pool))
	}
}

// A pool that is not valid is not served, and the one beside it is.
func TestOneBadPoolStopsNoOther(t *testing.T) {
	good, bad := validPool(t), validPool(t)
	bad.Name = "bad"
	bad.Spec.Template.Spec.Requirements[0].Operator = "Sometimes"
	c, api := newController(t, good, bad, class(t, "ready"))
	if pool := reconcileOnce(t, c, api, "bad"); !pool.StatusConditions().Get("Ready").IsFalse() {
		t.Errorf("bad:\n%s", render(pool))
	}
	if pool := reconcileOnce(t, c, api, "default"); !pool.StatusConditions().IsTrue("Ready") {
		t.Errorf("default:\n%s", render(pool))
	}
}

// A NodePool of another provider, such as EKS Auto Mode, is not written to. One with an EC2NodeClass of a mistyped group says so.
func TestPoolOfAnotherProvider(t *testing.T) {
	theirs, mistyped := validPool(t), validPool(t)
	theirs.Name, mistyped.Name = "general-purpose", "mistyped"
	theirs.Spec.Template.Spec.NodeClassRef.Group, theirs.Spec.Template.Spec.NodeClassRef.Kind = "eks.amazonaws.com", "NodeClass"
	mistyped.Spec.Template.Spec.NodeClassRef.Group = "karpenter.k8s.aw"
	c, api := newController(t, theirs, mistyped, class(t, "ready"))
	before := &karpv1.NodePool{}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(theirs), before); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, reconcileOnce(t, c, api, theirs.Name)); diff != "" {
		t.Errorf("another provider's is written to (-before +after):\n%s", diff)
	}
	if pool := reconcileOnce(t, c, api, "mistyped"); !pool.StatusConditions().Get("Ready").IsFalse() {
		t.Errorf("mistyped:\n%s", render(pool))
	}
}

// Status is the sum of the pool's claims only; hash and its version are Karpenter's.
func TestStatus(t *testing.T) {
	claim := func(name, pool, cpu string) *karpv1.NodeClaim {
		c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{karpv1.NodePoolLabelKey: pool}}}
		c.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
		return c
	}
	ready := class(t, "ready")
	ready.Generation = 3
	c, api := newController(t, validPool(t), ready, claim("a", "default", "2"), claim("b", "default", "1500m"), claim("c", "other", "64"))
	pool := reconcileOnce(t, c, api, "default")
	if got := pool.Status.Resources.Cpu().String(); got != "3500m" {
		t.Errorf("status.resources.cpu %s, want 3500m", got)
	}
	if got := pool.Status.Nodes; got == nil || *got != 2 {
		t.Errorf("status.nodes %v, want 2", got)
	}
	if got := pool.Status.NodeClassObservedGeneration; got != 3 {
		t.Errorf("status.nodeClassObservedGeneration %d, want 3", got)
	}
	if got := pool.Annotations[karpv1.NodePoolHashAnnotationKey]; got != validPool(t).Hash() {
		t.Errorf("hash %q, want %q", got, validPool(t).Hash())
	}
	if got := pool.Annotations[karpv1.NodePoolHashVersionAnnotationKey]; got != karpv1.NodePoolHashVersion {
		t.Errorf("hash version %q, want %q", got, karpv1.NodePoolHashVersion)
	}
}

// NodeRegistrationHealthy becomes True with the first node of the pool as it is now.
func TestRegistrationHealthy(t *testing.T) {
	pool, nodeClass := validPool(t), class(t, "ready")
	claim := karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	claim.StatusConditions().SetTrue(karpv1.ConditionTypeRegistered)
	healthy := func() bool {
		nodepool.SetConditions(t.Context(), pool, nodepool.Facts{Class: nodeClass, Claims: []*karpv1.NodeClaim{&claim}})
		return pool.StatusConditions().IsTrue(karpv1.ConditionTypeNodeRegistrationHealthy)
	}
	if healthy() {
		t.Error("a node of an older pool counts")
	}
	claim.Annotations = map[string]string{karpv1.NodePoolHashAnnotationKey: pool.Hash()}
	if !healthy() {
		t.Error("a node of this pool does not count")
	}
	// Package health reports that nodes do not join: earlier nodes that did are no evidence against it, until the pool changes.
	pool.StatusConditions().SetFalse(karpv1.ConditionTypeNodeRegistrationHealthy, "RegistrationFailed", "its nodes do not join")
	if healthy() {
		t.Error("a node that joined before makes the pool healthy")
	}
	pool.Generation++
	if !healthy() {
		t.Error("a changed pool stays unhealthy")
	}
	nodeClass.Generation++
	claim.Annotations = nil
	if healthy() {
		t.Error("a changed class did not have to prove itself again")
	}
}

// Hashes of an older version are renewed, the NodeClaims' first, so that nodes drift when the pool changes after that.
func TestHashesAreRenewed(t *testing.T) {
	old := map[string]string{karpv1.NodePoolHashAnnotationKey: "1", karpv1.NodePoolHashVersionAnnotationKey: "v0"}
	pool := validPool(t)
	pool.Annotations = maps.Clone(old)
	claim := func(name, pool string) *karpv1.NodeClaim {
		return &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: maps.Clone(old), Labels: map[string]string{karpv1.NodePoolLabelKey: pool}}}
	}
	drifted := claim("drifted", "default")
	drifted.StatusConditions().SetTrueWithReason(karpv1.ConditionTypeDrifted, drift.AMIDrift, "old")
	c, api := newController(t, pool, class(t, "ready"), claim("default-1", "default"), drifted, claim("other-1", "other"))
	pool = reconcileOnce(t, c, api, "default")
	look := func(name string) (version, reason string) {
		t.Helper()
		out := &karpv1.NodeClaim{}
		if err := api.Get(t.Context(), client.ObjectKey{Name: name}, out); err != nil {
			t.Fatal(err)
		}
		pool := pool.DeepCopy()
		pool.Spec.Template.Spec.Requirements = nil // The claims have no labels for them.
		return out.Annotations[karpv1.NodePoolHashVersionAnnotationKey], drift.Decide(drift.Facts{Claim: out, Pool: pool, Class: &awsv1.EC2NodeClass{}}).Reason
	}
	check := func(when, name, version, reason string) {
		t.Helper()
		if v, r := look(name); v != version || r != reason {
			t.Errorf("%s, %s: version %q, drift %q; want %q, %q", when, name, v, r, version, reason)
		}
	}
	check("renewed", "default-1", karpv1.NodePoolHashVersion, "")
	check("renewed", "drifted", karpv1.NodePoolHashVersion, drift.NodePoolDrifted)
	check("renewed", "other-1", "v0", "")
	pool.Spec.Template.Labels = map[string]string{"team": "b"}
	if err := api.Update(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	pool = reconcileOnce(t, c, api, "default")
	check("after a change of the pool", "default-1", karpv1.NodePoolHashVersion, drift.NodePoolDrifted)
}

// A NodeClaim that cannot be written keeps the hash of its NodePool from being, and nothing else.
func TestHashThatCannotBeRenewed(t *testing.T) {
	old := map[string]string{karpv1.NodePoolHashAnnotationKey: "1", karpv1.NodePoolHashVersionAnnotationKey: "v0"}
	pool := validPool(t)
	pool.Annotations = maps.Clone(old)
	_, api := newController(t, pool, class(t, "ready"), &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: "default-1", Annotations: maps.Clone(old), Labels: map[string]string{karpv1.NodePoolLabelKey: "default"},
	}})
	c := controllerOf(t, interceptor.NewClient(api.(client.WithWatch), interceptor.Funcs{
		Patch: func(ctx context.Context, to client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if _, claim := o.(*karpv1.NodeClaim); claim {
				return errors.New("a policy refuses it")
			}
			return to.Patch(ctx, o, p, opts...)
		},
	}))
	key := client.ObjectKey{Name: "default"}
	if _, err := c.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err == nil || !strings.Contains(err.Error(), "NodeClaim default-1: a policy refuses it") {
		t.Errorf("error %v", err)
	}
	if err := api.Get(t.Context(), key, pool); err != nil {
		t.Fatal(err)
	}
	if !pool.StatusConditions().IsTrue("Ready") || pool.Annotations[karpv1.NodePoolHashVersionAnnotationKey] != "v0" {
		t.Errorf("hash version %q, conditions:\n%s", pool.Annotations[karpv1.NodePoolHashVersionAnnotationKey], render(pool))
	}
}

// Claims are a cache's: what derives conditions from them only reads them.
func TestClaimsAreOnlyRead(t *testing.T) {
	pool, nodeClass := validPool(t), class(t, "ready")
	young := karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "young", Annotations: map[string]string{karpv1.NodePoolHashAnnotationKey: pool.Hash()}}}
	claims := []*karpv1.NodeClaim{young.DeepCopy()}
	nodepool.SetConditions(t.Context(), pool, nodepool.Facts{Class: nodeClass, Claims: claims})
	if usage := nodepool.Usage(claims, nil); usage.Cpu().Sign() != 0 {
		t.Errorf("a claim without an instance uses %v", usage)
	}
	if diff := cmp.Diff(&young, claims[0]); diff != "" {
		t.Errorf("a claim was written to (-before +after):\n%s", diff)
	}
}

// A NodeClaim with an instance counts its offering, one without it the most that EC2 may choose, and one whose price is not known what it was planned at,
// without what interruptions are expected to cost.
func TestUSD(t *testing.T) {
	prices := catalog.Prices{Declared: catalog.Declared{NodeCost: 0.01}, Types: map[string]catalog.InstanceType{
		"m5.large": {Offerings: []catalog.Offering{
			{Zone: "a", CapacityType: "spot", Price: 0.03}, {Zone: "a", CapacityType: "on-demand", Price: 0.096}, {Zone: "b", CapacityType: "spot", Price: 0.04},
		}},
	}}
	labels := map[string]string{corev1.LabelInstanceTypeStable: "m5.large", corev1.LabelTopologyZone: "b", karpv1.CapacityTypeLabelKey: "spot"}
	running := karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Status: karpv1.NodeClaimStatus{ProviderID: "aws:///b/i-1"}}
	planned := karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{catalog.InstanceTypesAnnotation: "m5.large"}}}
	onSpot := *planned.DeepCopy()
	onSpot.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{{Key: karpv1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{"spot"}}}
	unknown := karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{catalog.CostAnnotation: `{"instance":0.2,"volumes":0.002,"interruptions":0.1}`}},
		Status:     karpv1.NodeClaimStatus{ProviderID: "aws:///b/i-2"},
	}
	usd := nodepool.USD(prices)
	for i, tc := range []struct {
		claim *karpv1.NodeClaim
		want  int64
	}{{&running, 50_000}, {&planned, 106_000}, {&onSpot, 50_000}, {&unknown, 202_000}, {&karpv1.NodeClaim{}, 0}} {
		if got := usd(tc.claim); got != tc.want {
			t.Errorf("claim %d counts %d millionths, want %d", i, got, tc.want)
		}
	}
	usage := nodepool.Usage([]*karpv1.NodeClaim{&running, &planned}, usd)
	if got := catalog.MicroUSDOf(usage[catalog.LimitUSD]); got != 156_000 {
		t.Errorf("together they count %d millionths, want 156000", got)
	}
}
