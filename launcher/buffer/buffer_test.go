package buffer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	autoscalingv1beta1 "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/buffer"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/leadership/leadershiptest"
	"github.com/slipway-k8s/slipway/launcher/record"
	"github.com/slipway-k8s/slipway/launcher/scenariotest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scene is a Controller over an API server in memory, and a scheduler that has room for a number of pods.
type scene struct {
	*scenariotest.Scene

	t       *testing.T
	subject *buffer.Controller
	room    int
	refused string
	silent  bool
	stream  uint64
	cache   index.Cache
	// pods read pods in place of the API server; nil for none.
	pods index.Pods
	// follows means that another process leads.
	follows bool
	// registry has the metrics of the subject.
	registry *prometheus.Registry
}

// TestScenarios runs the files of testdata, each in a bubble of its own time:
//
//	template NAME [cpu=N] [pad=BYTES] [app=NAME] a PodTemplate, or a change of it
//	deployment NAME replicas=N                  a Deployment of namespace a, or a change of it
//	buffer NAMESPACE/NAME [replicas=N] [percentage=N] [template=NAME] [kind=KIND name=NAME] [group=GROUP] [strategy=NAME] [unreadable]
//	       [for=SELECTOR] [priority=N] [booked=DURATION] [prepare=DURATION]
//	                                            its annotations; its windows are below
//	delete NAMESPACE/NAME                       the buffer is deleted
//	gone NAME                                   the PodTemplate is deleted
//	pod NAME [app=NAME]                         a pod is bound to a node
//	refuse REASON                               the scheduler has no room for a buffer that is whole; - for none
//	room N | silent | heard                     what the scheduler answers: room for N pods on node n-0, others on NodeClaim c-0; nothing
//	restart                                     another scheduler is connected
//	pass [DURATION]                             time goes by, one second without a duration; a pass
//	status                                      the buffers' status
//	claim STATE [refused] [name=NAME] [of=UID] [kept]
//	                                            NodeClaim c-0, whose instance is in that state of a standby buffer; EC2 does not stop it, or a pod was on its node
//	drifted BUFFER                              why NodeClaim old is needed, which has drifted, or expires soon, and sleeps for the buffer of that UID
//	disk UID                                    what instances of a standby buffer have on their disk
//	off                                         the feature gate is off from now on
//	needed                                      why node n-0, NodeClaim c-0 and another are needed
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t)
			datadriven.RunTest(t, path, func(_ *testing.T, d *datadriven.TestData) string { return s.command(d) })
		})
	})
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{Scene: scenariotest.New(t, &autoscalingv1beta1.CapacityBuffer{}), t: t}
	s.start(false)
	return s
}

func (s *scene) start(off bool) {
	s.registry = prometheus.NewRegistry()
	if s.cache = index.List(s.API); s.pods != nil {
		s.cache.Pods = s.pods
	}
	var err error
	s.subject, err = buffer.New(buffer.Config{
		Client: s.API, Cache: s.cache, Guard: leadershiptest.Always{}, Leading: func() bool { return !s.follows }, Asker: s, Events: s, Registerer: s.registry, Off: off,
	})
	s.Must(err)
}

// Eventf implements announce.EventRecorder.
func (s *scene) Eventf(o runtime.Object, _, reason, format string, args ...any) {
	s.Log("event %s %s: %s", o.(client.Object).GetName(), reason, fmt.Sprintf(format, args...))
}

// PlaceBuffers implements buffer.Asker.
func (s *scene) PlaceBuffers(_ context.Context, q *api.PlaceBuffers) (*api.PlaceBuffersAnswer, error) {
	var asked []string
	answer, left := &api.PlaceBuffersAnswer{}, int32(s.room)
	for _, b := range q.GetBuffers() {
		template := corev1.PodTemplateSpec{}
		s.Must(template.Unmarshal(b.GetTemplate()))
		about := fmt.Sprintf("%d of %s (cpu %s)", b.GetPods(), b.GetName(), template.Spec.Containers[0].Resources.Requests.Cpu())
		if b.GetStandby() {
			about += fmt.Sprintf(" asleep on %v", template.Spec.NodeSelector)
		}
		if t := b.GetTakers(); t != nil {
			about += fmt.Sprintf(" for %q or priority %d", t.GetSelector(), t.GetPriority())
		}
		if b.GetWhole() {
			about += ", whole"
		}
		if b.GetNoLaunch() {
			about += ", nothing launched"
		}
		asked = append(asked, about)
		p := &api.BufferPlaces{Uid: b.GetUid(), Existing: min(left, b.GetPods())}
		if b.GetWhole() && s.refused != "" {
			p.Existing, p.NoRoom, p.NoRoomReason = 0, "NodePool default: limit cpu of 1 reached", s.refused
			answer.Buffers = append(answer.Buffers, p)
			continue
		}
		if left -= p.GetExisting(); p.GetExisting() > 0 {
			p.NodeNames = []string{"n-0"}
		}
		if b.GetNoLaunch() {
			if p.GetExisting() < b.GetPods() {
				p.NoRoom, p.NoRoomReason = "the room that it had is lost", "NoRoomLeft"
			}
		} else if p.InFlight = b.GetPods() - p.GetExisting(); p.GetInFlight() > 0 {
			p.NodeClaims, p.Launched = []string{"c-0"}, []string{"c-0"}
		}
		answer.Buffers = append(answer.Buffers, p)
	}
	s.Log("asked for %s of %s: %s", q.GetNamespace(), q.GetNamespaces(), strings.Join(asked, ", "))
	if s.silent {
		return nil, errors.New("the scheduler did not answer")
	}
	return answer, nil
}

// Stream implements buffer.Asker.
func (s *scene) Stream() uint64 { return s.stream }

func (s *scene) command(d *datadriven.TestData) string {
	switch d.Cmd {
	case "template":
		s.template(d)
	case "deployment":
		s.deployment(d)
	case "buffer":
		s.buffer(d)
	case "delete", "gone":
		s.remove(d)
	case "pod":
		s.pod(d.CmdArgs[0].Key, text(d, "app", "none"))
	case "room":
		_, err := fmt.Sscan(d.CmdArgs[0].Key, &s.room)
		s.Must(err)
	case "refuse":
		s.refused = strings.TrimPrefix(d.CmdArgs[0].Key, "-")
	case "restart", "silent", "heard", "off":
		s.connection(d.Cmd)
	case "pass":
		s.pass(d)
	case "status":
		s.status()
	case "claim", "disk", "drifted":
		s.sleeper(d)
	case "needed":
		for _, claim := range []*karpv1.NodeClaim{named("c-1", "n-0"), named("c-0", ""), named("c-2", "n-2")} {
			s.Log("%s on %q: %s", claim.Name, claim.Status.NodeName, s.subject.Needed(claim))
		}
	default:
		s.t.Fatalf("unknown command %s", d.Cmd)
	}
	return s.TakeTrace()
}

// pod is bound to node n-0, which comes with its first pod.
func (s *scene) pod(name, app string) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n-0"}}
	s.Must(client.IgnoreAlreadyExists(s.API.Create(s.t.Context(), node)))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID(name), Labels: map[string]string{"app": app}}}
	pod.Spec.NodeName = "n-0"
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	s.Must(s.API.Create(s.t.Context(), pod))
}

func named(claim, node string) *karpv1.NodeClaim {
	out := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: claim}}
	out.Status.NodeName = node
	return out
}

// connection is another scheduler's, or one that answers, or does not, or none is asked.
func (s *scene) connection(is string) {
	switch is {
	case "restart":
		s.stream++
	case "off":
		s.start(true)
	default:
		s.silent = is == "silent"
	}
}

// sleeper brings NodeClaim c-0 of a standby buffer into a state, or shows what instances of a buffer have on their disk.
func (s *scene) sleeper(d *datadriven.TestData) {
	arg := d.CmdArgs[0].Key
	sleeper := func(name, buffer string, state record.StandbyState) *karpv1.NodeClaim {
		claim := named(name, "")
		claim.Annotations = map[string]string{catalog.StandbyAnnotation: buffer}
		if state != record.StandbyPreparing {
			claim.Annotations[catalog.StandbyStateAnnotation] = record.FormatStandby(state, time.Now())
		}
		return claim
	}
	switch d.Cmd {
	case "disk":
		pod, within := s.subject.Disk(arg)
		s.Log("pod known %t, within %s", pod != nil, within)
	case "drifted":
		claim := sleeper("old", arg, record.StandbyAsleep)
		s.Log("as it is: %s", s.subject.Needed(claim))
		claim.StatusConditions().SetTrue(karpv1.ConditionTypeDrifted)
		s.Log("drifted: %s", s.subject.Needed(claim))
		claim = sleeper("old", arg, record.StandbyAsleep)
		claim.Annotations[catalog.StandbyExpiresAnnotation] = "true"
		s.Log("expires soon: %s", s.subject.Needed(claim))
	default:
		claim := sleeper(text(d, "name", "c-0"), text(d, "of", "u"), record.StandbyState(strings.TrimPrefix(arg, "preparing")))
		if d.HasArg("kept") {
			claim.Annotations[catalog.StandbyKeptAnnotation] = "pod x/y is on its node"
		}
		if d.HasArg("refused") {
			claim.StatusConditions().SetFalse(record.ConditionStandby, "UnauthorizedOperation", "may not be stopped")
		}
		s.put(claim)
	}
}

func (s *scene) pass(d *datadriven.TestData) {
	wait := time.Second
	if len(d.CmdArgs) > 0 {
		wait = s.Duration(d.CmdArgs[0].Key)
	}
	time.Sleep(wait)
	if err := s.subject.Pass(s.t.Context()); err != nil {
		s.Log("error: %v", err)
	}
}

func podSpec(cpu string) corev1.PodSpec {
	requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	return corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: requests}}}}
}

// put creates an object, or changes it.
func (s *scene) put(o client.Object) {
	o.SetUID(types.UID(o.GetNamespace() + "/" + o.GetName()))
	existing := o.DeepCopyObject().(client.Object)
	if s.API.Get(s.t.Context(), client.ObjectKeyFromObject(o), existing) == nil {
		o.SetResourceVersion(existing.GetResourceVersion())
		o.SetCreationTimestamp(existing.GetCreationTimestamp())
		s.Must(s.API.Update(s.t.Context(), o))
		return
	}
	o.SetCreationTimestamp(metav1.Now())
	s.Must(s.API.Create(s.t.Context(), o))
}

func text(d *datadriven.TestData, key, otherwise string) string {
	for _, arg := range d.CmdArgs {
		if arg.Key == key && len(arg.Vals) > 0 {
			return arg.Vals[0]
		}
	}
	return otherwise
}

// remove deletes a buffer or a PodTemplate.
func (s *scene) remove(d *datadriven.TestData) {
	if d.Cmd == "gone" {
		s.Must(s.API.Delete(s.t.Context(), &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: d.CmdArgs[0].Key}}))
		return
	}
	namespace, name, _ := strings.Cut(d.CmdArgs[0].Key, "/")
	s.Must(s.API.Delete(s.t.Context(), &autoscalingv1beta1.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}))
}

func (s *scene) number(d *datadriven.TestData, key string) *int32 {
	if !d.HasArg(key) {
		return nil
	}
	n := new(int32)
	_, err := fmt.Sscan(text(d, key, ""), n)
	s.Must(err)
	return n
}

func (s *scene) template(d *datadriven.TestData) {
	o := &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: d.CmdArgs[0].Key}}
	o.Template.Spec = podSpec(text(d, "cpu", "1"))
	if pad := s.number(d, "pad"); pad != nil {
		o.Template.Labels = map[string]string{"pad": strings.Repeat("x", int(*pad))}
	}
	if app := text(d, "app", ""); app != "" {
		o.Template.Labels = map[string]string{"app": app}
	}
	s.put(o)
}

func (s *scene) deployment(d *datadriven.TestData) {
	o := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: d.CmdArgs[0].Key}}
	o.Spec.Replicas, o.Spec.Template.Spec = s.number(d, "replicas"), podSpec("500m")
	o.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": o.Name}}
	s.put(o)
}

func (s *scene) buffer(d *datadriven.TestData) {
	namespace, name, _ := strings.Cut(d.CmdArgs[0].Key, "/")
	cb := &autoscalingv1beta1.CapacityBuffer{}
	key := client.ObjectKey{Namespace: namespace, Name: name}
	_ = s.API.Get(s.t.Context(), key, cb) // A new one is empty.
	cb.Namespace, cb.Name = namespace, name
	before := cb.Spec
	cb.Spec = autoscalingv1beta1.CapacityBufferSpec{Replicas: s.number(d, "replicas"), Percentage: s.number(d, "percentage")}
	if of := text(d, "template", ""); of != "" {
		cb.Spec.PodTemplateRef = &autoscalingv1beta1.LocalObjectRef{Name: of}
	}
	if kind := text(d, "kind", ""); kind != "" {
		cb.Spec.ScalableRef = &autoscalingv1beta1.ScalableRef{APIGroup: text(d, "group", ""), Kind: kind, Name: text(d, "name", "")}
	}
	if d.HasArg("strategy") {
		cb.Spec.ProvisioningStrategy = new(text(d, "strategy", ""))
	}
	if !equality.Semantic.DeepEqual(before, cb.Spec) {
		cb.Generation++ // As the API server counts it.
	}
	if d.HasArg("unreadable") {
		cb.Annotations = map[string]string{"slipway.dev/unreadable": "spec.limits.cpu: 1e99 cannot be read"}
	}
	if d.Input != "" {
		cb.Annotations = map[string]string{"slipway.dev/windows": d.Input}
	}
	if d.HasArg("booked") {
		cb.Annotations = map[string]string{"slipway.dev/booked-for": text(d, "booked", "")}
	}
	if d.HasArg("for") || d.HasArg("priority") || d.HasArg("prepare") {
		cb.Annotations = map[string]string{}
	}
	if d.HasArg("prepare") {
		cb.Annotations["slipway.dev/standby-prepare"] = text(d, "prepare", "")
	}
	if d.HasArg("for") {
		cb.Annotations["slipway.dev/reserved-for"] = text(d, "for", "")
	}
	if d.HasArg("priority") {
		cb.Annotations["slipway.dev/reserved-for-priority"] = text(d, "priority", "")
	}
	s.put(cb)
}

func (s *scene) status() {
	list := &autoscalingv1beta1.CapacityBufferList{}
	s.Must(s.API.List(s.t.Context(), list))
	slices.SortFunc(list.Items, func(a, b autoscalingv1beta1.CapacityBuffer) int {
		return strings.Compare(a.Namespace+a.Name, b.Namespace+b.Name)
	})
	for _, cb := range list.Items {
		replicas := "none"
		if cb.Status.Replicas != nil {
			replicas = fmt.Sprint(*cb.Status.Replicas)
		}
		s.Log("%s/%s: replicas %s", cb.Namespace, cb.Name, replicas)
		for _, c := range cb.Status.Conditions {
			s.Log("  %s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message)
		}
	}
}
