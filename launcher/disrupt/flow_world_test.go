package disrupt_test

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/datadriven"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/disrupt"
	"github.com/slipway-k8s/slipway/launcher/terminate"
)

// addNode creates a node and its claim, initialized.
func (f *flow) addNode(ctx context.Context, name string) {
	f.t.Helper()
	labels := map[string]string{karpv1.NodePoolLabelKey: "default"}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	f.create(ctx, node)
	f.create(ctx, &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: "claim-" + name, Labels: labels, Finalizers: []string{karpv1.TerminationFinalizer},
	}})
	f.initialize(ctx, "claim-"+name, name)
}

// joins initializes a launched claim, with its node.
func (f *flow) joins(ctx context.Context, name string) {
	f.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-" + name, Labels: map[string]string{karpv1.NodePoolLabelKey: "default"}}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	f.create(ctx, node)
	f.initialize(ctx, name, node.Name)
}

func (f *flow) initialize(ctx context.Context, name, node string) {
	f.t.Helper()
	claim := &karpv1.NodeClaim{}
	if err := f.api.Get(ctx, client.ObjectKey{Name: name}, claim); err != nil {
		f.t.Fatal(err)
	}
	for _, c := range []string{karpv1.ConditionTypeLaunched, karpv1.ConditionTypeRegistered, karpv1.ConditionTypeInitialized} {
		claim.StatusConditions().SetTrue(c)
	}
	claim.Status.NodeName = node
	if err := f.api.Status().Update(ctx, claim); err != nil {
		f.t.Fatal(err)
	}
}

func (f *flow) claim(ctx context.Context, node string) *karpv1.NodeClaim {
	f.t.Helper()
	claim := &karpv1.NodeClaim{}
	if err := f.api.Get(ctx, client.ObjectKey{Name: "claim-" + node}, claim); err != nil {
		f.t.Fatal(err)
	}
	return claim
}

// interrupted records that EC2 takes the instance of a node, whose claim is deleted next.
func (f *flow) interrupted(ctx context.Context, node string) {
	f.t.Helper()
	claim := f.claim(ctx, node)
	set, reason := claim.StatusConditions(), string(cloud.SpotInterrupted)
	set.SetTrueWithReason(karpv1.ConditionTypeDisruptionReason, reason, reason)
	if err := f.api.Status().Update(ctx, claim); err != nil {
		f.t.Fatal(err)
	}
}

func (f *flow) move(ctx context.Context, d *datadriven.TestData) string {
	m := disrupt.Move{Reason: karpv1.DisruptionReasonUnderutilized, Type: "single", Message: "saves 0.1 USD/h", Eventual: d.HasArg("eventual")}
	for _, arg := range d.CmdArgs {
		switch arg.Key {
		case "eventual":
		case "counted":
			m.OnDelete = func() { f.log("counted") }
		case "most":
			most, err := strconv.ParseFloat(arg.Vals[0], 64)
			if err != nil {
				f.t.Fatal(err)
			}
			m.MostPerHour = &most
		case "quiet":
			quiet, err := time.ParseDuration(arg.Vals[0])
			if err != nil {
				f.t.Fatal(err)
			}
			m.Quiet = append(m.Quiet, quiet)
		case "avoid":
			m.Avoid = arg.Vals
		default:
			m.Claims = append(m.Claims, f.claim(ctx, arg.Key))
		}
	}
	if err := f.subject.Start(ctx, m); err != nil {
		return err.Error() + "\n"
	}
	return ""
}

// report prints what happened, and the state of the nodes.
func (f *flow) report(ctx context.Context) string {
	f.t.Helper()
	f.mu.Lock()
	out := f.trace.String()
	f.trace.Reset()
	f.mu.Unlock()
	claims := &karpv1.NodeClaimList{}
	if err := f.api.List(ctx, claims); err != nil {
		f.t.Fatal(err)
	}
	for i := range claims.Items {
		c := &claims.Items[i]
		if c.Status.NodeName == "" {
			continue
		}
		node := &corev1.Node{}
		if err := f.api.Get(ctx, client.ObjectKey{Name: c.Status.NodeName}, node); err != nil {
			f.t.Fatal(err)
		}
		var is []string
		for what, so := range map[string]bool{
			"1cordoned": terminate.Cordoned(node), "2leaving": c.DeletionTimestamp != nil, "3held": f.ledger.Held(c.UID), "4moving": f.subject.Moving(c.UID),
		} {
			if so {
				is = append(is, what)
			}
		}
		if r := c.StatusConditions().Get(karpv1.ConditionTypeDisruptionReason); r.IsTrue() {
			is = append(is, "5because:"+r.Reason)
		}
		out += node.Name + ":" + ordered(is) + "\n"
	}
	return out
}

// ordered sorts words by the digit before each, which it drops.
func ordered(words []string) string {
	out := ""
	for digit := range 10 {
		for _, w := range words {
			if rest, ok := strings.CutPrefix(w, strconv.Itoa(digit)); ok {
				out += " " + rest
			}
		}
	}
	if out == "" {
		return " serves"
	}
	return out
}

func (f *flow) addPod(ctx context.Context, d *datadriven.TestData) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: d.CmdArgs[0].Key, Labels: map[string]string{"pod": d.CmdArgs[0].Key}}}
	d.ScanArgs(f.t, "node", &pod.Spec.NodeName)
	pod.Status.Phase = corev1.PodRunning
	if !d.HasArg("bare") {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "web", Controller: new(true)}}
	}
	if d.HasArg("tolerates") {
		pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
	f.create(ctx, pod)
}

func (f *flow) addBudget(ctx context.Context, pod, allowed string) {
	n, err := strconv.Atoi(allowed)
	if err != nil {
		f.t.Fatal(err)
	}
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "for-" + pod}}
	b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"pod": pod}}
	b.Status.DisruptionsAllowed, b.Status.ObservedGeneration = int32(n), 1
	if err := client.IgnoreNotFound(f.api.Delete(ctx, b.DeepCopy())); err != nil {
		f.t.Fatal(err)
	}
	f.create(ctx, b)
}

// list counts the lists of PodDisruptionBudgets.
func (f *flow) list(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
	err := c.List(ctx, list, opts...)
	if of, ok := list.(*policyv1.PodDisruptionBudgetList); ok {
		f.guards.lists.Add(1)
		f.guards.items.Add(int64(len(of.Items)))
	}
	return err
}

// bindPod creates a pod of a ReplicaSet on a node.
func (f *flow) bindPod(ctx context.Context, name, node string) {
	f.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: name}}
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "web", Controller: new(true)}}
	pod.Spec.NodeName, pod.Status.Phase = node, corev1.PodRunning
	f.create(ctx, pod)
}

// countedReader counts the requests of a reader.
type countedReader struct {
	client.Reader
	reads *atomic.Int64
}

// Get implements client.Reader.
func (r countedReader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	r.reads.Add(1)
	return r.Reader.Get(ctx, key, obj, opts...)
}

// List implements client.Reader.
func (r countedReader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	r.reads.Add(1)
	return r.Reader.List(ctx, list, opts...)
}
