package kubelets_test

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"
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

	"github.com/slipway-k8s/slipway/e2e/machines/kubelet"
	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/e2e/sandbox"
)

const (
	worldKey = "kubelets.slipway.dev/world"
	// lateKey is on nodes whose network is late, by so many seconds.
	lateKey = "kubelets.slipway.dev/late-by"
	// wayKey is on the nodes of a benchmark's way.
	wayKey = "kubelets.slipway.dev/way"
)

// world is what one test has for itself: a namespace, and nodes with a label and a taint of its name.
type world struct {
	*cluster
	t    testing.TB
	name string
	// pools that were created for it.
	pools []*karpv1.NodePool
	// starts counts the rounds of a benchmark.
	starts int
}

func newWorld(tb testing.TB, name string) *world {
	tb.Helper()
	w := &world{t: tb, cluster: shared, name: name}
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	return w
}

func (w *world) create(objects ...client.Object) {
	w.t.Helper()
	for _, obj := range objects {
		if err := w.client.Create(w.t.Context(), obj); err != nil {
			w.t.Fatalf("creating %T %s: %v", obj, obj.GetName(), err)
		}
	}
}

// nodeClass has the given user data.
func nodeClass(name, userData string) *awsv1.EC2NodeClass {
	c := sandbox.NodeClass(name)
	if userData != "" {
		c.Spec.UserData = &userData
	}
	return c
}

// pool creates a NodePool of the test's, of nodes with 4 CPUs, and waits until it is ready; change adapts it. Its nodes go with the
// test.
func (w *world) pool(name string, change func(*karpv1.NodePool)) {
	w.t.Helper()
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	template := &pool.Spec.Template
	template.Labels = map[string]string{worldKey: w.name}
	template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}
	template.Spec.Taints = []corev1.Taint{{Key: worldKey, Value: w.name, Effect: corev1.TaintEffectNoSchedule}}
	template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
		{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{runtime.GOARCH}},
		{Key: awsv1.LabelInstanceCategory, Operator: corev1.NodeSelectorOpIn, Values: []string{"c", "m", "r"}},
		{Key: awsv1.LabelInstanceCPU, Operator: corev1.NodeSelectorOpIn, Values: []string{"4"}},
	}
	pool.Spec.Disruption.ConsolidationPolicy = karpv1.ConsolidationPolicyWhenEmpty
	pool.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("Never")
	if change != nil {
		change(pool)
	}
	w.create(pool)
	w.pools = append(w.pools, pool)
	w.t.Cleanup(func() { w.remove(pool) })
	// The planner takes what is ready: a test that means two NodePools would else get the one that was sooner.
	err := wait.PollUntilContextTimeout(w.t.Context(), 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		err := w.client.Get(ctx, client.ObjectKeyFromObject(pool), pool)
		return err == nil && pool.StatusConditions().Root().IsTrue(), err
	})
	if err != nil {
		w.t.Fatalf("NodePool %s does not become ready: %v: %+v", name, err, pool.Status.Conditions)
	}
}

// remove waits until the pool's nodes are gone: what cannot be drained is a failure too.
func (w *world) remove(pool *karpv1.NodePool) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name}}
	for _, obj := range []client.Object{namespace, pool} {
		if err := client.IgnoreNotFound(w.client.Delete(ctx, obj)); err != nil {
			w.t.Error(err)
		}
	}
	err := w.recorder.Await(ctx, "the nodes of NodePool "+pool.Name+" to be gone", func() bool { return len(w.claims(pool.Name)) == 0 })
	if err != nil {
		w.t.Error(err)
	}
}

// require replaces a requirement of a pool.
func require(pool *karpv1.NodePool, key string, values ...string) {
	list := &pool.Spec.Template.Spec.Requirements
	for i := range *list {
		if (*list)[i].Key == key {
			(*list)[i].Values = values
			return
		}
	}
	*list = append(*list, karpv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values})
}

func late(pool *karpv1.NodePool) { pool.Spec.Template.Labels[lateKey] = seconds(lateBy) }

func seconds(d time.Duration) string { return strconv.Itoa(int(d.Seconds())) }

// claims are the NodeClaims of a pool that exist.
func (w *world) claims(pool string) []observe.Claim {
	var out []observe.Claim
	for _, c := range w.recorder.Claims() {
		if !c.Deleted.Seen() && c.Object.Labels[karpv1.NodePoolLabelKey] == pool {
			out = append(out, c)
		}
	}
	return out
}

// gone says whether a NodeClaim is gone.
func (w *world) gone(claim observe.Claim) bool {
	for _, c := range w.recorder.Claims() {
		if c.Object.UID == claim.Object.UID {
			return c.Deleted.Seen()
		}
	}
	return false
}

// pods are the histories of the test's pods whose names begin so.
func (w *world) pods(prefix string) []observe.Pod {
	var out []observe.Pod
	for _, p := range w.recorder.Pods() {
		if p.Object.Namespace == w.name && strings.HasPrefix(p.Object.Name, prefix) {
			out = append(out, p)
		}
	}
	return out
}

// running counts the pods with this prefix that have a container and an address, and stay.
func (w *world) running(prefix string) int {
	n := 0
	for _, p := range w.pods(prefix) {
		if !p.Deleted.Seen() && !p.Terminating.Seen() && p.Object.Status.Phase == corev1.PodRunning && p.Object.Status.PodIP != "" {
			n++
		}
	}
	return n
}

// noneFailed holds that no kubelet and no controller gave a pod up.
func (w *world) noneFailed(prefix string) {
	w.t.Helper()
	for _, p := range w.pods(prefix) {
		if p.Failed.Seen() {
			w.t.Errorf("pod %s failed: %s %s", p.Object.Name, p.Object.Status.Reason, p.Object.Status.Message)
		}
	}
}

// spec is a pod of one container that asks for cpu and takes a while to stop; change adapts it.
func (w *world) spec(cpu string, stops time.Duration, change func(*corev1.PodSpec)) corev1.PodSpec {
	command := fmt.Sprintf("trap 'sleep %d; exit 0' TERM; while :; do sleep 1 & wait $!; done", int(stops.Seconds()))
	out := corev1.PodSpec{
		TerminationGracePeriodSeconds: new(int64(stops.Seconds()) + 10),
		NodeSelector:                  map[string]string{worldKey: w.name},
		Tolerations:                   []corev1.Toleration{{Key: worldKey, Operator: corev1.TolerationOpExists}},
		Containers: []corev1.Container{{
			Name: "main", Image: "example.com/" + w.name + "/main:1", Command: []string{"sh", "-c", command},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("64Mi"),
			}},
		}},
	}
	if change != nil {
		change(&out)
	}
	return out
}

func (w *world) template(name string, spec corev1.PodSpec) (*metav1.LabelSelector, corev1.PodTemplateSpec) {
	labels := map[string]string{"app": name}
	return &metav1.LabelSelector{MatchLabels: labels}, corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec}
}

func (w *world) deployment(name string, n int32, spec corev1.PodSpec) {
	w.t.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name}}
	d.Spec.Replicas = &n
	d.Spec.Selector, d.Spec.Template = w.template(name, spec)
	w.create(d)
}

func (w *world) daemonSet(name string, spec corev1.PodSpec) {
	w.t.Helper()
	d := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name}}
	d.Spec.Selector, d.Spec.Template = w.template(name, spec)
	w.create(d)
}

// events are the Events with this reason about an object of the test's namespace.
func (w *world) events(object, reason string) []corev1.Event {
	w.t.Helper()
	var list corev1.EventList
	if err := w.client.List(w.t.Context(), &list, client.InNamespace(w.name)); err != nil {
		w.t.Fatal(err)
	}
	var out []corev1.Event
	for _, e := range list.Items {
		if e.InvolvedObject.Name == object && e.Reason == reason {
			out = append(out, e)
		}
	}
	return out
}

// careless creates a pod that no scheduler sees, and binds it as soon as a pool's Node exists: before that boots. It is what
// binding early once was.
func (w *world) careless(name, pool string, spec corev1.PodSpec) {
	w.t.Helper()
	spec.SchedulerName = "nobody"
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name}, Spec: spec}
	w.create(pod)
	w.await(w.t, "a Node of NodePool "+pool, func() bool { return w.firstNode(pool) != nil })
	node := w.firstNode(pool)
	if node.Joined.Seen() {
		w.t.Fatalf("node %s has booted already", node.Object.Name)
	}
	binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: node.Object.Name}}
	if err := w.client.SubResource("binding").Create(w.t.Context(), pod, binding); err != nil {
		w.t.Fatal(err)
	}
}

// firstNode is the first Node that a pool had.
func (w *world) firstNode(pool string) *observe.Node {
	for _, n := range w.recorder.Nodes() {
		if n.Object.Labels[karpv1.NodePoolLabelKey] == pool {
			return &n
		}
	}
	return nil
}

func keyOf(namespace, name string) client.ObjectKey {
	return client.ObjectKey{Namespace: namespace, Name: name}
}

// agent is a DaemonSet that gives its nodes their network some time after its start.
func agent(name string, after time.Duration) *appsv1.DaemonSet {
	nodes := corev1.NodeSelectorRequirement{Key: lateKey, Operator: corev1.NodeSelectorOpDoesNotExist}
	if after > 0 {
		nodes = corev1.NodeSelectorRequirement{Key: lateKey, Operator: corev1.NodeSelectorOpIn, Values: []string{seconds(after)}}
	}
	command := fmt.Sprintf(`sleep %d; cd /cni
for f in %[2]s/*; do busybox cp "$f" %[3]s/.new && busybox mv %[3]s/.new "%[3]s/${f##*/}"; done
trap 'exit 0' TERM; while :; do sleep 1 & wait $!; done`, int(after.Seconds()), filepath.Base(kubelet.AgentFolder), filepath.Base(kubelet.NetworkFolder))
	d := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}}
	labels := map[string]string{"app": name}
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
		HostNetwork: true, AutomountServiceAccountToken: new(false), TerminationGracePeriodSeconds: new(int64(1)),
		Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{nodes}}},
		}}},
		Containers: []corev1.Container{{
			Name: "agent", Image: "example.com/agent:1", Command: []string{"sh", "-c", command},
			Resources:    corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")}},
			VolumeMounts: []corev1.VolumeMount{{Name: "cni", MountPath: "/cni"}},
		}},
		Volumes: []corev1.Volume{{Name: "cni", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: filepath.Dir(kubelet.NetworkFolder)}}}},
	}}
	return d
}
