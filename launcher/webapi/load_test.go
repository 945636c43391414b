package webapi

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// podsPerNode and tenants are those of a large cluster: each NodeClaim keeps the promises of its pods, and every hundredth pod is pending.
const podsPerNode, tenants = 20, 200

// large fills a world with nodes and their pods, of which some are pending. Pods of a namespace have its number: ns-0 and so on.
func large(tb testing.TB, nodes int) *world {
	tb.Helper()
	w := newWorld(tb)
	created := metav1.NewTime(w.now().Add(-time.Hour))
	for i := range nodes {
		name := fmt.Sprintf("default-%05d", i)
		c := claim(name, "node-"+name)
		c.Labels = map[string]string{
			karpv1.NodePoolLabelKey: "default", corev1.LabelInstanceTypeStable: "m7g.4xlarge", corev1.LabelTopologyZone: "us-east-1a", karpv1.CapacityTypeLabelKey: "spot",
		}
		c.Annotations[catalog.CostAnnotation] = catalog.FormatCost(catalog.Cost{Instance: 0.25, Volumes: 0.002})
		c.CreationTimestamp = created
		var uids []string
		for j := range podsPerNode {
			n := i*podsPerNode + j
			pod := pendingPod(fmt.Sprintf("ns-%d", n%tenants), fmt.Sprintf("web-%d", n), "")
			pod.UID = types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", n))
			uids = append(uids, `"`+string(pod.UID)+`"`)
			pod.CreationTimestamp = created
			pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: fmt.Sprintf("web-%d", n%(5*tenants)), Controller: new(true)}}
			pod.Spec.Containers = []corev1.Container{{Name: "web", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: apiresource.MustParse("500m"), corev1.ResourceMemory: apiresource.MustParse("1Gi"),
			}}}}
			if n%101 == 0 {
				pod.UID += "-pending"
				pod.Status.Conditions[0].Message = "0/5000 nodes are available: 5000 Insufficient cpu. No node can be launched: NodePool default: limit cpu of 80000 reached: 80000 in use"
			} else {
				pod.Spec.NodeName, pod.Status.Phase, pod.Status.Conditions[0].Status = c.Status.NodeName, corev1.PodRunning, corev1.ConditionTrue
			}
			w.put(tb, pod)
		}
		c.Annotations[catalog.PodsAnnotation] = `[{"uids":[` + strings.Join(uids, ",") + `]}]`
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: c.Status.NodeName, CreationTimestamp: created}}
		node.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: apiresource.MustParse("15890m"), corev1.ResourceMemory: apiresource.MustParse("60Gi")}
		w.put(tb, c)
		w.put(tb, node)
	}
	return w
}

// later moves the clock of the world beyond the time for which every answer is used again.
func (w *world) later() {
	at := w.now().Add(time.Hour)
	w.now = func() time.Time { return at }
}

// slow makes the answers that are kept ones that took long, as they do by a clock that runs.
func (w *world) slow() {
	for _, a := range w.nodes.answers {
		have := *a.kept.Load()
		have.took = 2 * quick
		a.kept.Store(&have)
	}
	for _, a := range w.pods.answers {
		have := *a.kept.Load()
		have.took = 2 * quick
		a.kept.Store(&have)
	}
}

// heap returns the bytes in use after a collection of garbage.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// allocated returns the bytes that run allocates.
func allocated(run func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	run()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// cpu returns the CPU time that this process has used.
func cpu() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// percentile returns one of times in milliseconds.
func percentile(times []time.Duration, of int) float64 {
	slices.Sort(times)
	return float64(times[len(times)*of/100]) / float64(time.Millisecond)
}

// discard is a client that reads an answer and keeps its headers alone.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(status int)      { d.status = status }
func (d *discard) Write(b []byte) (int, error) { return io.Discard.Write(b) }

// asks returns a function that sends a request to the handler, with no network between them, and returns the answer's ETag.
func (w *world) asks(tb testing.TB) func(viewer, path, tag string) string {
	tb.Helper()
	handler := w.Handler(Access{Authenticator: authenticator.RequestFunc(viewer), Authorizer: authorizer.AuthorizerFunc(rights)})
	return func(viewer, path, tag string) string {
		tb.Helper()
		r := httptest.NewRequestWithContext(tb.Context(), http.MethodGet, path, nil)
		r.Header.Set("Authorization", "Bearer "+viewer)
		want := http.StatusOK
		if tag != "" {
			r.Header.Set("If-None-Match", tag)
			want = http.StatusNotModified
		}
		answer := &discard{header: http.Header{}, status: http.StatusOK}
		handler.ServeHTTP(answer, r)
		if answer.status != want {
			tb.Fatalf("%s: %d, want %d", path, answer.status, want)
		}
		return answer.header.Get("ETag")
	}
}

// BenchmarkLarge asks at 5,000 nodes and 100,000 pods: computed is an answer that is not kept, polled one that is asked for every five seconds, kept one that is, and held one that the client has
// already. p95-ms is of one request, p95-cpu-ms the CPU of the process meanwhile, collection of garbage included, peak-MB what a request allocates, all of it counted as if nothing was collected meanwhile, and kept-MB what
// stays in memory afterwards.
func BenchmarkLarge(b *testing.B) {
	w := large(b, 5000)
	ask := w.asks(b)
	for _, c := range []struct{ name, viewer, path string }{
		{"nodes", "admin", "/api/v1/nodes"},
		{"node", "admin", "/api/v1/nodes/default-04321"},
		{"pods", "admin", "/api/v1/pods"},
		{"pods of a namespace", "ns-7", "/api/v1/pods?namespace=ns-7"},
		{"pod", "ns-7", "/api/v1/namespaces/ns-7/pods/web-207"},
	} {
		for _, mode := range []string{"computed", "polled", "kept", "held"} {
			b.Run(c.name+"/"+mode, func(b *testing.B) {
				tag := ""
				if t := ask(c.viewer, c.path, ""); mode == "held" {
					tag = t
				}
				var took, worked []time.Duration
				var peak uint64
				for b.Loop() {
					switch mode {
					case "computed":
						w.later()
					case "polled":
						at := w.now().Add(5 * time.Second)
						w.now = func() time.Time { return at }
						w.slow()
					}
					begin, used, waited := time.Now(), cpu(), time.Duration(0)
					peak = max(peak, allocated(func() {
						ask(c.viewer, c.path, tag)
						waited = time.Since(begin)
						w.nodes.beside.Wait()
						w.pods.beside.Wait()
					}))
					took, worked = append(took, waited), append(worked, cpu()-used)
				}
				b.ReportMetric(percentile(took, 50), "p50-ms")
				b.ReportMetric(percentile(took, 95), "p95-ms")
				b.ReportMetric(percentile(worked, 50), "p50-cpu-ms")
				b.ReportMetric(percentile(worked, 95), "p95-cpu-ms")
				b.ReportMetric(float64(peak)/1e6, "peak-MB")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
	b.Run("kept by all", func(b *testing.B) {
		for b.Loop() {
			w.nodes.answers, w.pods.answers = nil, nil
			before := heap()
			w.askForAll(func(path string) { ask("admin", path, "") })
			b.ReportMetric(float64(heap()-before)/1e6, "kept-MB")
		}
		b.ReportMetric(0, "ns/op")
		runtime.KeepAlive(w)
	})
}

// askForAll asks for every list.
func (w *world) askForAll(ask func(path string)) {
	ask("/api/v1/nodes")
	ask("/api/v1/pods")
	for i := range tenants {
		ask(fmt.Sprintf("/api/v1/pods?namespace=ns-%d", i))
	}
}

// What an answer takes of memory is bounded by the nodes and pods, as is what is kept; an answer that is kept takes next to nothing. The bounds make
// less than 30 MB at 5,000 nodes and 100,000 pods.
func TestMemoryOfAnswers(t *testing.T) {
	const nodes = 250
	w := large(t, nodes)
	ask := w.asks(t)
	for path, most := range map[string]uint64{ // Bytes for each node.
		"/api/v1/nodes": 5500, "/api/v1/nodes/default-00042": 5600, "/api/v1/pods": 2000, "/api/v1/pods?namespace=ns-7": 600, "/api/v1/namespaces/ns-7/pods/web-207": 300,
	} {
		ask("admin", path, "")
		w.later()
		var tag string
		if got := allocated(func() { tag = ask("admin", path, "") }) / nodes; got > most {
			t.Errorf("%s allocates %d bytes for each node, want at most %d", path, got, most)
		}
		if strings.Count(path, "/") > 3 {
			continue // What is about one object is not kept.
		}
		if got := allocated(func() { ask("admin", path, tag) }); got > 20_000 {
			t.Errorf("%s allocates %d bytes where the client has the answer", path, got)
		}
	}
	w.nodes.answers, w.pods.answers = nil, nil
	before := heap()
	w.askForAll(func(path string) { ask("admin", path, "") })
	if got, most := int64(heap())-int64(before), int64(nodes*1000+tenants*3000); got > most {
		t.Errorf("%d bytes are kept, want at most %d", got, most)
	}
	runtime.KeepAlive(w)
}
