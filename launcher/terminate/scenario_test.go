package terminate_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/cockroachdb/datadriven"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/terminate"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestScenarios runs the files of testdata, each in a bubble of its own time. They print what the Terminator does, with
// the second in which it does it:
//
//	claim [grace=DURATION] [booting] [unrecorded]   a NodeClaim with its Node and its running instance; unrecorded: no
//	                                                Node yet, and the instance known by its tags alone
//	orphan                                           the NodeClaim vanishes, finalizer and all
//	foreground                                       somebody deletes the NodeClaim in the foreground
//	strip                                            somebody removes our finalizer from the NodeClaim
//	force                                            somebody sets the end of the NodeClaim's termination grace period to a time long past
//	pod NAME [daemonset] [critical] [tolerates] [protected[=VALUE]] [owned] [pending] [exit=DURATION] [refuse=N] [ending] [denied] [unanswered] [undeletable] [ready] [grace=DURATION] [sole] [set] [elsewhere] [foreign]
//	cache hides NAME | cache keeps NAME | cache shows NAME    the cache does not show the pod; it shows it as it is now, until it shows it as it is
//	set ready NAME                                   a pod becomes Ready
//	scheduler silent | full | NODECLAIM...           what it launches when it is asked for room; without this: nothing; full: there is no room
//	scheduler again [silent | full | NODECLAIM...]   the same, of a scheduler that has just started
//	replacement NODECLAIM launching|launched|ready|gone    how far such a NodeClaim is
//	set releases | set ready | set gone              what the ReplicaSet controller does about the pod that is sole
//	set guarded                                      its PodDisruptionBudget has maxUnavailable 0
//	volume NAME pod=POD detach=SECONDS [shared] [inline]    a VolumeAttachment of the pod's volume; shared: many nodes may mount it; inline: it has no
//	                                                PersistentVolume
//	node notready | node delete                      the kubelet dies; somebody deletes the Node
//	node keep | node free                            somebody adds a finalizer to the Node, and removes it
//	instance kill | instance refuse=N                EC2 takes the instance; it refuses to end it N times
//	shift | shift over                               a zonal shift is away from the instance's zone, which EC2 does not show; it is over
//	shift unread | shift seen                        whether there is one is not known yet; there is one, and EC2 shows the instance
//	begin REASON [late=DURATION] | begin-now REASON  Begin or BeginNow is called; late: so long after EC2's notice
//	crash + lines | crash now                        the process dies once per line, instead of doing what begins so; it dies at once
//	away DURATION                                    time goes by, and no process runs
//	run DURATION [writes] [outcomes] [evictions] [ends]    time goes by; writes: how often the status of the NodeClaim was written; outcomes: how
//	                                                many drains began with which state of the room; evictions: how many pods had to go why, and how
//	                                                many evictions had which answer; ends: how long instances took to end
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			ctx, cancel := context.WithCancel(t.Context())
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				t.Helper()
				w.command(ctx, d)
				return w.take()
			})
			cancel()
			synctest.Wait()
		})
	})
}

func (w *world) command(ctx context.Context, d *datadriven.TestData) {
	arg := ""
	if len(d.CmdArgs) > 0 {
		arg = d.CmdArgs[0].Key
	}
	switch d.Cmd {
	case "claim":
		w.addClaim(ctx, d)
	case "pod":
		w.addPod(ctx, d)
	case "set", "cache":
		w.changes(ctx, d)
	case "volume":
		w.addVolume(ctx, d)
	case "node":
		w.changeNode(ctx, arg)
	case "instance", "shift":
		w.atEC2(d, arg)
	case "orphan", "foreground", "strip", "force":
		w.somebody(ctx, d.Cmd)
	case "begin", "begin-now":
		w.begin(ctx, d, arg)
	case "crash":
		w.crashes(d)
	case "scheduler":
		w.scheduler(d)
	case "replacement":
		w.replacement(ctx, arg, d.CmdArgs[1].Key)
	case "away", "run":
		w.goesBy(ctx, d)
	default:
		w.t.Fatalf("unknown command %s", d.Cmd)
	}
}

// goesBy lets time go by, with a process or without.
func (w *world) goesBy(ctx context.Context, d *datadriven.TestData) {
	if d.Cmd == "away" {
		time.Sleep(w.duration(d.CmdArgs[0].Key))
		return
	}
	w.run(ctx, d)
}

// scheduler sets the answers from now on.
func (w *world) scheduler(d *datadriven.TestData) {
	w.silent, w.full, w.planned = d.HasArg("silent"), d.HasArg("full"), nil
	if d.HasArg("again") {
		w.schedulers++
	}
	for _, a := range d.CmdArgs {
		if !w.silent && !w.full && a.Key != "again" {
			w.planned = append(w.planned, a.Key)
		}
	}
}

func (w *world) begin(ctx context.Context, d *datadriven.TestData, reason string) {
	begin := w.subject.Begin
	if d.Cmd == "begin-now" {
		begin = w.subject.BeginNow
	}
	if d.HasArg("late") {
		at := time.Now().Add(-w.duration(d.CmdArgs[1].Vals[0]))
		begin = func(ctx context.Context, claim *karpv1.NodeClaim, reason string) error {
			return w.subject.BeginNoticed(ctx, claim, reason, at)
		}
	}
	if err := begin(ctx, w.claim(ctx), reason); err != nil {
		w.log("begin: %v", err)
	}
}

// somebody deletes the claim, or removes its finalizer, as a user may.
func (w *world) somebody(ctx context.Context, does string) {
	map[string]func(context.Context){"orphan": w.orphan, "foreground": w.foreground, "strip": w.strip, "force": w.force}[does](ctx)
}

// orphan removes the claim, finalizer and all.
func (w *world) orphan(ctx context.Context) {
	claim := w.claim(ctx)
	claim.Finalizers = nil
	if err := errors.Join(w.api.Update(ctx, claim), w.api.Delete(ctx, claim)); err != nil {
		w.t.Fatal(err)
	}
}

// replacement makes a NodeClaim, has EC2 launch it, or ends it.
func (w *world) replacement(ctx context.Context, name, state string) {
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
	err := w.api.Get(ctx, client.ObjectKey{Name: name}, claim)
	if apierrors.IsNotFound(err) {
		w.create(ctx, claim)
		err = nil
	}
	switch state {
	case "launching":
	case "launched":
		claim.Status.ProviderID = "aws:///us-east-1a/i-" + name
		err = errors.Join(err, w.api.Status().Update(ctx, claim))
	case "ready":
		claim.StatusConditions().SetTrue(karpv1.ConditionTypeInitialized)
		err = errors.Join(err, w.api.Status().Update(ctx, claim))
	case "gone":
		err = errors.Join(err, w.api.Delete(ctx, claim))
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) run(ctx context.Context, d *datadriven.TestData) {
	w.writes.Store(0)
	if d.HasArg("writes") {
		defer func() { w.log("status of the claim written %d times", w.writes.Load()) }()
	}
	if d.HasArg("outcomes") {
		defer w.outcomes("slipway_replacements_total")
	}
	if d.HasArg("evictions") {
		defer w.outcomes("karpenter_pods_eviction_requests_total")
		defer w.outcomes("karpenter_pods_drained_total")
	}
	if d.HasArg("ends") {
		defer w.ends()
	}
	duration := w.duration(d.CmdArgs[0].Key)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	run := func(subject *terminate.Terminator) {
		go func() { _ = subject.Run(ctx) }()
		go func() { _ = subject.Forward(ctx, w.ended.claims, w.ended.nodes) }()
	}
	subject := w.subject
	run(subject)
	for end := time.Now().Add(duration); time.Now().Before(end); {
		left := w.tick(ctx)
		if subject != w.subject { // It crashed.
			subject = w.subject
			run(subject)
		}
		if !left {
			w.log("nothing is left; live instances: %d", len(w.ec2.Live()))
			return
		}
	}
}

func (w *world) duration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

func (w *world) claim(ctx context.Context) *karpv1.NodeClaim {
	claim := &karpv1.NodeClaim{}
	if err := w.api.Get(ctx, client.ObjectKey{Name: claimName}, claim); err != nil {
		w.t.Fatal(err)
	}
	return claim
}

func (w *world) create(ctx context.Context, objects ...client.Object) {
	for _, o := range objects {
		o.SetUID(types.UID(o.GetName()))
		o.SetCreationTimestamp(metav1.Now())
		if err := w.api.Create(ctx, o); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) addClaim(ctx context.Context, d *datadriven.TestData) {
	labels := map[string]string{karpv1.NodePoolLabelKey: "default", karpv1.CapacityTypeLabelKey: "spot", corev1.LabelTopologyZone: "us-east-1a", awsv1.LabelTopologyZoneID: zoneID, awsv1.LabelNodeClass: "default"}
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: claimName, Labels: labels, Finalizers: []string{karpv1.TerminationFinalizer}}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName, Labels: labels}}
	claim.Status.NodeName = nodeName
	instance := cloud.Instance{Zone: "us-east-1a", ZoneID: zoneID, Tags: map[string]string{catalog.LaunchAnnotation: "launch-1", "karpenter.sh/nodeclaim": claimName}}
	instance.ID = w.ec2.Put(instance)
	if d.HasArg("unrecorded") {
		w.ec2.Put(cloud.Instance{Tags: map[string]string{catalog.LaunchAnnotation: "launch-1", "karpenter.sh/nodeclaim": "default-2"}})
		claim.Status.NodeName, claim.Annotations = "", map[string]string{catalog.LaunchAnnotation: "launch-1"}
		w.create(ctx, claim)
		return
	}
	claim.Status.ProviderID, node.Spec.ProviderID = instance.ProviderID(), instance.ProviderID()
	if d.HasArg("grace") {
		claim.Spec.TerminationGracePeriod = &metav1.Duration{Duration: w.duration(d.CmdArgs[0].Vals[0])}
	}
	if !d.HasArg("booting") {
		claim.StatusConditions().SetTrue(karpv1.ConditionTypeRegistered)
		node.Finalizers = []string{karpv1.TerminationFinalizer}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	}
	w.create(ctx, claim, node, lease())
	// As long as EC2 may not show a new instance yet, its absence proves nothing.
	time.Sleep(2 * time.Minute)
	w.started = time.Now()
}

func (w *world) addPod(ctx context.Context, d *datadriven.TestData) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Annotations: map[string]string{}, Finalizers: []string{kubelet}}}
	pod.Spec.NodeName = nodeName
	pod.Status.Phase = corev1.PodRunning
	for i, arg := range d.CmdArgs {
		switch {
		case i == 0:
			pod.Name = arg.Key
		case arg.Key == "daemonset":
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", UID: "d"}}
		case arg.Key == "critical":
			pod.Spec.PriorityClassName = "system-cluster-critical"
		case arg.Key == "tolerates":
			pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		case arg.Key == "protected":
			pod.Annotations[karpv1.DoNotDisruptAnnotationKey] = "true"
			if len(arg.Vals) > 0 {
				pod.Annotations[karpv1.DoNotDisruptAnnotationKey] = arg.Vals[0]
			}
		case arg.Key == "owned":
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "r", UID: "r", Controller: new(true)}}
		case arg.Key == "pending":
			pod.Status.Phase = corev1.PodPending
		case arg.Key == "exit":
			w.exit[pod.Name] = w.duration(arg.Vals[0])
		case slices.Contains([]string{"ready", "grace", "sole", "set", "elsewhere", "foreign"}, arg.Key):
			w.serving(ctx, pod, arg)
		case arg.Key == "ending", arg.Key == "denied", arg.Key == "unanswered", arg.Key == "undeletable":
			// The namespace is terminating, or a webhook refuses evictions: the reason of the refusal; or one refuses deletions.
			pod.Labels = map[string]string{arg.Key: ""}
		case arg.Key == "refuse":
			w.refuse[pod.Name] = w.number(arg.Vals[0])
		default:
			w.t.Fatalf("unknown property %s", arg.Key)
		}
	}
	w.create(ctx, pod)
}

// serving has the pod be Ready, of a set, alone in it, on another node, in another namespace, or need so long for its end.
func (w *world) serving(ctx context.Context, pod *corev1.Pod, arg datadriven.CmdArg) {
	switch arg.Key {
	case "sole":
		w.addSet(ctx, pod)
		return
	case "set":
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", UID: "db", Controller: new(true)}}
		return
	case "elsewhere":
		pod.Spec.NodeName = "node-2"
		return
	case "foreign":
		pod.Namespace = "other"
		return
	case "ready":
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		return
	}
	pod.Spec.TerminationGracePeriodSeconds = new(int64(w.duration(arg.Vals[0]).Seconds()))
}

// ready makes a pod Ready.
func (w *world) ready(ctx context.Context, name string) {
	pod := &corev1.Pod{}
	err := w.api.Get(ctx, client.ObjectKey{Namespace: "default", Name: name}, pod)
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if err := errors.Join(err, w.api.Status().Update(ctx, pod)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

// theirFinalizer is one that others put on a Node.
const theirFinalizer = "example.com/keep"

func (w *world) changeNode(ctx context.Context, what string) {
	node := &corev1.Node{}
	if err := w.api.Get(ctx, client.ObjectKey{Name: nodeName}, node); err != nil {
		w.t.Fatal(err)
	}
	var err error
	switch what {
	case "notready":
		node.Status.Conditions[0].Status = corev1.ConditionUnknown
		err = w.api.Status().Update(ctx, node)
	case "delete":
		err = w.api.Delete(ctx, node)
	case "keep":
		node.Finalizers = append(node.Finalizers, theirFinalizer)
		err = w.api.Update(ctx, node)
	case "free":
		node.Finalizers = slices.DeleteFunc(node.Finalizers, func(f string) bool { return f == theirFinalizer })
		err = w.api.Update(ctx, node)
	default:
		err = fmt.Errorf("unknown change %s", what)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}
