package intern_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/slipway-k8s/slipway/internal/intern"
)

// podOf returns pod n of a Deployment as the API server answers: each has memory of its own.
func podOf(tb testing.TB, n int) *corev1.Pod {
	tb.Helper()
	token := fmt.Sprintf("kube-api-access-%05d", n)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("web-5d9c-%05d", n), GenerateName: "web-5d9c-", Namespace: "shop", UID: types.UID(fmt.Sprint("uid-", n)),
			Labels:          map[string]string{"app": "web", "pod-template-hash": "5d9c"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-5d9c", UID: "owner", Controller: new(true)}},
			ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "kube-controller-manager"}},
		},
		Spec: corev1.PodSpec{
			NodeName: fmt.Sprint("node-", n%7), ServiceAccountName: "web",
			Volumes: []corev1.Volume{{Name: token, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: new(int64(3607)), Path: "token"}},
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}}},
			}}}}},
			Containers: []corev1.Container{{
				Name: "web", Image: "registry.example.com/web:1", Env: []corev1.EnvVar{{Name: "A", Value: strings.Repeat("a", 200)}},
				Resources:    corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}},
				VolumeMounts: []corev1.VolumeMount{{Name: token, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}},
			}},
			Tolerations: []corev1.Toleration{{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists, TolerationSeconds: new(int64(300))}},
		},
		Status: runningStatus(n),
	}
	return decoded(tb, pod)
}

// runningStatus is the status of pod n as a kubelet writes it.
func runningStatus(n int) corev1.PodStatus {
	since := metav1.Unix(1_800_000_000+int64(n), 0)
	s := corev1.PodStatus{
		Phase: corev1.PodRunning, QOSClass: corev1.PodQOSBurstable, StartTime: &since, HostIP: fmt.Sprint("10.1.0.", n%7),
		PodIP: fmt.Sprintf("10.2.%d.%d", n/256, n%256),
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "web", Image: "registry.example.com/web:1", ImageID: "registry.example.com/web@sha256:" + strings.Repeat("0", 64), Ready: true, Started: new(true),
			ContainerID: fmt.Sprintf("containerd://%064d", n), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: since}},
		}},
	}
	for _, kind := range []corev1.PodConditionType{
		corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled,
	} {
		s.Conditions = append(s.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: since})
	}
	return s
}

// message is the protobuf of an object.
type message[T any] interface {
	*T
	Marshal() ([]byte, error)
	Unmarshal(data []byte) error
}

func decoded[T any, M message[T]](tb testing.TB, obj M) M {
	tb.Helper()
	data, err := obj.Marshal()
	if err != nil {
		tb.Fatal(err)
	}
	out := M(new(T))
	if err := out.Unmarshal(data); err != nil {
		tb.Fatal(err)
	}
	return out
}

func transformed[T any](tb testing.TB, p *intern.Objects, obj T) T {
	tb.Helper()
	out, err := p.Transform(obj)
	if err != nil {
		tb.Fatal(err)
	}
	return out.(T)
}

// The pods of a workload share what they have in common, and keep what they have not.
func TestPodsOfAWorkloadShare(t *testing.T) {
	p := intern.New()
	a, b := transformed(t, p, podOf(t, 1)), transformed(t, p, podOf(t, 2))
	if &a.Spec.Containers[0] != &b.Spec.Containers[0] || &a.Spec.Tolerations[0] != &b.Spec.Tolerations[0] || &a.Spec.Volumes[0] != &b.Spec.Volumes[0] {
		t.Error("the specs of two pods of one Deployment have memory of their own")
	}
	if &a.OwnerReferences[0] != &b.OwnerReferences[0] {
		t.Error("the owner references of two pods of one Deployment have memory of their own")
	}
	if a.Name == b.Name || a.UID == b.UID || a.Spec.NodeName != "node-1" || b.Spec.NodeName != "node-2" {
		t.Errorf("two pods became %s on %s and %s on %s", a.Name, a.Spec.NodeName, b.Name, b.Spec.NodeName)
	}
	if a.ManagedFields != nil {
		t.Error("managedFields are kept")
	}
}

// A StatefulSet's pods have volumes of their own, and a DaemonSet's a node: they share the rest.
func TestPodsWithPartsOfTheirOwn(t *testing.T) {
	p := intern.New()
	a, other := transformed(t, p, podOf(t, 1)), podOf(t, 3)
	other.Spec.Hostname = "web-3"
	other.Spec.Volumes = append(other.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-web-3"},
	}})
	other.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: "In", Values: []string{"node-3"}}}}},
	}}}
	c := transformed(t, p, other)
	if &a.Spec.Containers[0] != &c.Spec.Containers[0] {
		t.Error("a pod with a volume and a node of its own shares no containers")
	}
	if c.Spec.Hostname != "web-3" || len(c.Spec.Volumes) != 2 || c.Spec.Affinity == nil || a.Spec.Affinity != nil || len(a.Spec.Volumes) != 1 {
		t.Errorf("what is a pod's own was mixed up: %+v and %+v", a.Spec, c.Spec)
	}
}

// Whatever pods contain, they are the same pods afterwards, but for the name of the token's volume.
func TestTransformChangesNothingElse(t *testing.T) {
	p := intern.New()
	random := rand.New(rand.NewPCG(1, 2))
	few := func(prefix string) string { return fmt.Sprint(prefix, random.IntN(3)) }
	for n := range 2000 {
		pod := podOf(t, n)
		pod.Namespace, pod.Labels["app"], pod.Spec.SchedulerName = few("ns-"), few("app-"), few("scheduler-")
		pod.Annotations = map[string]string{few("key-"): few("value-")}
		pod.Spec.Containers[0].Image = few("image-")
		pod.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = resource.MustParse(few("10"))
		pod.Status.Conditions[0].Message = few("message-")
		if random.IntN(2) == 0 {
			pod.Spec.NodeSelector = map[string]string{few("label-"): few("value-")}
		}
		if random.IntN(4) == 0 {
			pod.Spec.Containers[0].Args = []string{strings.Repeat("x", 10_000)}
			pod.Annotations["large"] = strings.Repeat("y", 10_000)
		}
		want := decoded(t, pod)
		got := transformed(t, p, pod)
		want.ManagedFields = nil
		want.Spec.Volumes[0].Name = got.Spec.Volumes[0].Name
		want.Spec.Containers[0].VolumeMounts[0].Name = got.Spec.Volumes[0].Name
		if !apiequality.Semantic.DeepEqual(got, want) {
			t.Fatalf("pod %d became\n%+v\nit was\n%+v", n, got, want)
		}
	}
}

// Other objects lose their managedFields alone, and what has none is left as it is.
func TestOtherObjects(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", ManagedFields: []metav1.ManagedFieldsEntry{{}}}}
	gone := cache.DeletedFinalStateUnknown{Key: "a", Obj: podOf(t, 1)}
	for _, obj := range []any{node, gone} {
		if got, err := intern.New().Transform(obj); got != obj || err != nil {
			t.Errorf("%+v became %+v, %v", obj, got, err)
		}
	}
	if node.ManagedFields != nil || node.Name != "a" {
		t.Errorf("a node became %+v", node)
	}
}

// weight returns the bytes of memory of each of so many objects that are kept.
func weight(count int, keep func(n int) any) float64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	list := make([]any, 0, count)
	for n := range count {
		list = append(list, keep(n))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(list)
	return float64(after.HeapAlloc-before.HeapAlloc) / float64(count)
}

// A cache of many objects takes half the memory at most.
func TestMemory(t *testing.T) {
	for kind, of := range map[string]func(n int) any{
		"pod":       func(n int) any { return podOf(t, n) },
		"Node":      func(n int) any { return nodeOf(t, n) },
		"NodeClaim": func(n int) any { return claimOf(t, n) },
	} {
		const count = 3000
		o := intern.New()
		whole := weight(count, of)
		shared := weight(count, func(n int) any { return transformed(t, o, of(n)) })
		t.Logf("a %s takes %.0f bytes, and %.0f where parts are shared", kind, whole, shared)
		if shared > whole/2 {
			t.Errorf("a %s takes %.0f bytes where parts are shared, of %.0f", kind, shared, whole)
		}
	}
}

// Parts too large to be kept, and more of them than are kept, leave no trace.
func TestBounded(t *testing.T) {
	p := intern.New()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for n := range 20_000 {
		pod := podOf(t, n)
		pod.Spec.ServiceAccountName = fmt.Sprint("account-", n)
		pod.Annotations = map[string]string{"size": strings.Repeat("x", 3000+n%2000)}
		transformed(t, p, pod)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(p)
	if grown := (float64(after.HeapAlloc) - float64(before.HeapAlloc)) / (1 << 20); grown > 30 {
		t.Errorf("pods that are gone left %.0f MiB", grown)
	}
}

func BenchmarkTransform(b *testing.B) {
	p := intern.New()
	pods := make([]*corev1.Pod, 1000)
	for i := range pods {
		pods[i] = podOf(b, i)
	}
	n := 0
	for b.Loop() {
		pod := *pods[n%len(pods)]
		transformed(b, p, &pod)
		n++
	}
}
