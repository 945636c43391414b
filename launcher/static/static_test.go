package static_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/cockroachdb/datadriven"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/budget"
	"github.com/slipway-k8s/slipway/launcher/health"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/leadership/leadershiptest"
	"github.com/slipway-k8s/slipway/launcher/scenariotest"
	"github.com/slipway-k8s/slipway/launcher/static"
	"github.com/slipway-k8s/slipway/launcher/voluntary"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scene is a Keeper over an API server in memory and the real ledger.
type scene struct {
	*scenariotest.Scene

	t       *testing.T
	subject *static.Keeper
	gate    health.Gate
	foreign bool
	// lag is how old NodeClaims are when the cache shows them.
	lag time.Duration
	// reads counts what the Keeper read of each type, and copied what the cache had to copy for it.
	reads, copied map[string]int
	// cut is what becomes of the next creation, which has no answer: stored or lost; empty if it has one.
	cut string
}

// cache shows NodeClaims late.
type cache struct {
	client.Client
	s *scene
}

func (c cache) shows(claim *karpv1.NodeClaim) bool {
	return c.s.lag == 0 || !claim.CreationTimestamp.IsZero() && time.Since(claim.CreationTimestamp.Time) >= c.s.lag
}

func (c cache) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	all := (&client.GetOptions{}).ApplyOptions(opts)
	c.s.count(o, all.UnsafeDisableDeepCopy)
	err := c.Client.Get(ctx, key, o, opts...)
	if claim, ok := o.(*karpv1.NodeClaim); ok && err == nil && !c.shows(claim) {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "nodeclaims"}, key.Name)
	}
	return err
}

func (c cache) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	cut := c.s.cut
	c.s.cut = ""
	if cut != "lost" {
		if err := c.Client.Create(ctx, o, opts...); err != nil || cut == "" {
			return err
		}
	}
	return context.DeadlineExceeded
}

func (c cache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	all := (&client.ListOptions{}).ApplyOptions(opts)
	c.s.count(list, all.UnsafeDisableDeepCopy)
	err := c.Client.List(ctx, list, opts...)
	if claims, ok := list.(*karpv1.NodeClaimList); ok {
		claims.Items = slices.DeleteFunc(claims.Items, func(claim karpv1.NodeClaim) bool { return !c.shows(&claim) })
	}
	return err
}

// TestScenarios runs files of testdata, each in a bubble of its own time. Claims have the names of their order, not random ones.
//
//	pool replicas=N [limit=N] [nodes=BUDGET]    the NodePool, or a change of it; its windows are below
//	join                                        every NodeClaim gets an initialized node
//	fail                                        every NodeClaim without a node is gone, as if EC2 had no capacity
//	drift N                                     the oldest N NodeClaims are drifted
//	ended                                       what was told to terminate is gone
//	elsewhere N DURATION                        another process leads for so long, and creates N NodeClaims
//	held | one-at-a-time                        the NodePool's nodes do not join: it launches nothing, or one node at a time; or so no longer
//	foreign                                     a Karpenter manages the NodePool, or no longer
//	boot N                                      the nodes of the oldest N NodeClaims register, and are not initialized yet
//	cut stored | cut lost                       the next creation is not answered; the API server has done it, or not
//	cache DURATION                              the cache shows NodeClaims at that age, as the API server has them by then
//	run DURATION                                time goes by; prints what happened, with the second
func TestScenarios(t *testing.T) {
	for _, file := range []string{"keeper.txt", "cache.txt", "slow.txt", "lead.txt"} {
		t.Run(file, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t)
				datadriven.RunTest(t, "testdata/"+file, func(t *testing.T, d *datadriven.TestData) string {
					t.Helper()
					return s.command(d)
				})
			})
		})
	}
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{Scene: scenariotest.New(t, &karpv1.NodeClaim{}), t: t, reads: map[string]int{}, copied: map[string]int{}}
	ledger, err := budget.New(voluntary.Observe(s.API, index.ListClaims(s.API), index.ListNodes(s.API)))
	s.Must(err)
	counted, err := voluntary.NewMetrics(prometheus.NewRegistry(), ledger, func() bool { return true })
	s.Must(err)
	s.subject, err = static.New(static.Config{
		Client: cache{s.API, s}, Pods: index.ListPods(cache{s.API, s}), Reader: s.API, Guard: leadershiptest.Always{}, Ender: s, Ledger: ledger, Metrics: counted, Events: s,
		Manages: func(*karpv1.NodePool) (bool, string) { return !s.foreign, "" },
		Own:     func(*karpv1.NodeClaim) {},
		Gate:    func(*karpv1.NodePool) health.Gate { return s.gate },
	})
	s.Must(err)
	s.create(&awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	return s
}

func (s *scene) log(format string, args ...any) {
	s.Log("%3.0fs %s", time.Since(s.Start).Seconds(), fmt.Sprintf(format, args...))
}

// Begin implements static.Ender.
func (s *scene) Begin(_ context.Context, claim *karpv1.NodeClaim, reason string) error {
	s.log("end a node: %s", reason)
	current := s.get(claim.Name)
	current.Annotations = map[string]string{"ending": reason}
	s.Must(s.API.Update(s.t.Context(), current))
	return nil
}

// Eventf implements announce.EventRecorder.
func (s *scene) Eventf(o runtime.Object, _, reason, format string, args ...any) {
	s.log("event %s %s: %s", o.(client.Object).GetName(), reason, fmt.Sprintf(format, args...))
}

func (s *scene) create(objects ...client.Object) {
	s.t.Helper()
	for _, o := range objects {
		o.SetUID(types.UID(o.GetName()))
		s.Must(s.API.Create(s.t.Context(), o))
	}
}

func (s *scene) get(name string) *karpv1.NodeClaim {
	claim := &karpv1.NodeClaim{}
	s.Must(s.API.Get(s.t.Context(), client.ObjectKey{Name: name}, claim))
	return claim
}

// claims lists the NodeClaims, oldest first.
func (s *scene) claims() []karpv1.NodeClaim {
	list := &karpv1.NodeClaimList{}
	s.Must(s.API.List(s.t.Context(), list))
	slices.SortStableFunc(list.Items, func(a, b karpv1.NodeClaim) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return list.Items
}

func (s *scene) command(d *datadriven.TestData) string {
	switch d.Cmd {
	case "pool":
		s.pool(d)
	case "join":
		s.join()
	case "drift":
		s.mark(d.CmdArgs[0].Key, karpv1.ConditionTypeDrifted)
	case "fail":
		s.remove(func(c karpv1.NodeClaim) bool { return c.Status.NodeName == "" })
	case "ended":
		s.remove(func(c karpv1.NodeClaim) bool { return c.Annotations["ending"] != "" })
	case "elsewhere":
		s.elsewhere(d.CmdArgs[0].Key, s.Duration(d.CmdArgs[1].Key))
	case "held":
		s.gate.Held = !s.gate.Held
	case "one-at-a-time":
		s.gate.OneAtATime = !s.gate.OneAtATime
	case "boot":
		s.mark(d.CmdArgs[0].Key, karpv1.ConditionTypeRegistered)
	case "cut":
		s.cut = d.CmdArgs[0].Key
	case "cache":
		s.lag = s.Duration(d.CmdArgs[0].Key)
	case "foreign":
		s.foreign = !s.foreign
	case "run":
		s.run(s.Duration(d.CmdArgs[0].Key))
	default:
		s.t.Fatalf("unknown command %s", d.Cmd)
	}
	return s.TakeTrace()
}

// elsewhere has another process lead, which creates n NodeClaims like the oldest one.
func (s *scene) elsewhere(n string, duration time.Duration) {
	first := s.claims()[0]
	for i := 1; fmt.Sprint(i) <= n; i++ {
		s.create(&karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("elsewhere-%d", i), Labels: first.Labels, OwnerReferences: first.OwnerReferences, CreationTimestamp: metav1.Now(),
		}, Spec: first.Spec})
	}
	time.Sleep(duration)
}

// mark sets a condition of the oldest n NodeClaims.
func (s *scene) mark(n, condition string) {
	for i, c := range s.claims() {
		if fmt.Sprint(i) < n {
			c.StatusConditions().SetTrue(condition)
			s.Must(s.API.Status().Update(s.t.Context(), &c))
		}
	}
}

// remove removes NodeClaims.
func (s *scene) remove(which func(karpv1.NodeClaim) bool) {
	for _, c := range s.claims() {
		if which(c) {
			c.Finalizers = nil
			s.Must(s.API.Update(s.t.Context(), &c))
			s.Must(client.IgnoreNotFound(s.API.Delete(s.t.Context(), &c)))
		}
	}
}

func (s *scene) pool(d *datadriven.TestData) {
	pool := &karpv1.NodePool{}
	found := s.API.Get(s.t.Context(), client.ObjectKey{Name: "fixed"}, pool) == nil
	pool.Name, pool.Spec.Replicas, pool.Spec.Limits = "fixed", new(int64), nil
	d.ScanArgs(s.t, "replicas", pool.Spec.Replicas)
	if d.HasArg("limit") {
		var limit string
		d.ScanArgs(s.t, "limit", &limit)
		pool.Spec.Limits = karpv1.Limits{"nodes": resource.MustParse(limit)}
	}
	if d.HasArg("nodes") {
		pool.Spec.Disruption.Budgets = []karpv1.Budget{{}}
		d.ScanArgs(s.t, "nodes", &pool.Spec.Disruption.Budgets[0].Nodes)
	}
	pool.Annotations = map[string]string{"slipway.dev/windows": d.Input}
	pool.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}
	for _, c := range []string{karpv1.ConditionTypeValidationSucceeded, karpv1.ConditionTypeNodeClassReady} {
		pool.StatusConditions().SetTrue(c)
	}
	if found {
		s.Must(s.API.Update(s.t.Context(), pool))
	} else {
		s.create(pool)
	}
}

// join gives every NodeClaim an initialized node.
func (s *scene) join() {
	for _, c := range s.claims() {
		if c.Status.NodeName != "" {
			continue
		}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-of-" + c.Name}}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		s.create(node)
		c.Status.NodeName, c.Status.ProviderID = node.Name, "aws:///us-east-1a/i-"+c.Name
		c.StatusConditions().SetTrue(karpv1.ConditionTypeRegistered)
		c.StatusConditions().SetTrue(karpv1.ConditionTypeInitialized)
		s.Must(s.API.Status().Update(s.t.Context(), &c))
	}
}

// run lets the Keeper work, and logs every change of the number of NodeClaims.
func (s *scene) run(duration time.Duration) {
	// It looks, and ends, between the Keeper's passes.
	const offset = 100 * time.Millisecond
	ctx, cancel := context.WithTimeout(s.t.Context(), duration+offset)
	defer cancel()
	before := len(s.claims())
	done := make(chan error, 1)
	go func() { done <- s.subject.Run(ctx) }()
	for time.Sleep(offset / 2); ctx.Err() == nil; time.Sleep(5 * offset) {
		s.identify()
		if now := len(s.claims()); now != before {
			s.log("%d NodeClaims", now)
			before = now
		}
	}
	s.Must(<-done)
}

// identify gives new NodeClaims a UID and their age, as the API server does.
func (s *scene) identify() {
	for _, c := range s.claims() {
		if c.UID == "" {
			c.UID, c.CreationTimestamp = types.UID(c.Name), metav1.Now()
			s.Must(s.API.Update(s.t.Context(), &c))
		}
	}
}

// A NodeClaim of a fixed number is the NodePool's template, and belongs to the NodePool.
func TestNodeClaimIsTheTemplate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.command(&datadriven.TestData{Cmd: "pool", CmdArgs: []datadriven.CmdArg{{Key: "replicas", Vals: []string{"1"}}}})
		pool := &karpv1.NodePool{}
		s.Must(s.API.Get(t.Context(), client.ObjectKey{Name: "fixed"}, pool))
		pool.Spec.Template.Labels, pool.Spec.Template.Annotations = map[string]string{"team": "a"}, map[string]string{"note": "b"}
		pool.Spec.Template.Spec.Taints = []corev1.Taint{{Key: "own", Effect: corev1.TaintEffectNoSchedule}}
		pool.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
			{Key: "tier", Operator: corev1.NodeSelectorOpIn, Values: []string{"gold", "silver"}},
			{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"us-east-1a", "us-east-1b"}},
		}
		s.Must(s.API.Update(t.Context(), pool))
		s.run(2 * time.Second)
		claims := s.claims()
		if len(claims) != 1 {
			t.Fatalf("%d NodeClaims, want 1", len(claims))
		}
		c := claims[0]
		for key, want := range map[string]string{"team": "a", "tier": "gold", karpv1.NodePoolLabelKey: "fixed", corev1.LabelTopologyZone: ""} {
			if c.Labels[key] != want {
				t.Errorf("label %s is %q, want %q", key, c.Labels[key], want)
			}
		}
		if c.Annotations["note"] != "b" || c.Annotations[karpv1.NodePoolHashAnnotationKey] != pool.Hash() {
			t.Errorf("annotations %v", c.Annotations)
		}
		if !slices.Contains(c.Finalizers, karpv1.TerminationFinalizer) || len(c.OwnerReferences) != 1 || c.OwnerReferences[0].UID != pool.UID {
			t.Errorf("finalizers %v, owners %v", c.Finalizers, c.OwnerReferences)
		}
		if len(c.Spec.Requirements) != 2 || len(c.Spec.Taints) != 1 || !strings.HasPrefix(c.Name, "fixed-") {
			t.Errorf("NodeClaim %s with spec %+v", c.Name, c.Spec)
		}
	})
}
