package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/e2e/sandbox"
	"github.com/slipway-k8s/slipway/plugin/explain"
)

// sized returns the size of an attack, and a small one in the short form.
func sized(full, short int) int {
	if *allHostile {
		return full
	}
	return short
}

// pod returns a pod of the attacker.
func (s *siege) pod(name, cpu string, change func(*corev1.PodSpec)) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: name, Labels: map[string]string{"app": "x"}}, Spec: s.podSpec(cpu, "64Mi", change)}
}

// constraints returns soft topology spread constraints over keys that no node has.
func constraints(n int) []corev1.TopologySpreadConstraint {
	out := make([]corev1.TopologySpreadConstraint, n)
	for k := range out {
		out[k] = corev1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: fmt.Sprintf("k%d", k), WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}},
		}
	}
	return out
}

// quantities asks for amounts that no 64 bits hold: no node is launched for such a pod, none runs, and nothing panics.
func (s *siege) quantities(t *testing.T) {
	t.Helper()
	asks := map[string]corev1.ResourceList{
		"nines":    {corev1.ResourceCPU: resource.MustParse(strings.Repeat("9", 46))},
		"both":     {corev1.ResourceCPU: resource.MustParse(strings.Repeat("9", 46)), corev1.ResourceMemory: resource.MustParse("90Gi")},
		"exa":      {corev1.ResourceCPU: resource.MustParse("1E")},
		"exbi":     {corev1.ResourceCPU: resource.MustParse("8Ei")},
		"memory":   {corev1.ResourceMemory: resource.MustParse("1e30")},
		"half":     {corev1.ResourceMemory: resource.MustParse("4611686018427387904")},
		"extended": {"x.io/device": resource.MustParse("9223372036854775807")},
	}
	accepted := 0
	for name, ask := range asks {
		pod := s.pod(name, "1", func(spec *corev1.PodSpec) {
			spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: ask, Limits: ask}
			if name == "half" {
				spec.Containers = append(spec.Containers, *spec.Containers[0].DeepCopy())
				spec.Containers[1].Name = "other"
			}
		})
		err := persist(t.Context(), func() error { return s.editor.Create(t.Context(), pod) })
		if err != nil && !apierrors.IsInvalid(err) {
			t.Fatal(err)
		}
		if err == nil {
			accepted++
		}
	}
	s.attack(t, s.pod("plus", "+1", nil))
	s.unhindered(t, fmt.Sprintf("%d of %d amounts accepted by the API server", accepted, len(asks)))
	s.plusAlone(t)
}

// plusAlone holds that the pod plus is the only one of the attacker's that got a node, and that nothing panicked.
func (s *siege) plusAlone(t *testing.T) {
	t.Helper()
	for _, p := range s.pods() {
		if p.Object.Name != "plus" && p.Object.Spec.NodeName != "" {
			t.Errorf("pod %s, which asks for %v, was bound to node %s", p.Object.Name, p.Object.Spec.Containers[0].Resources.Requests, p.Object.Spec.NodeName)
		}
	}
	for _, c := range s.everClaimed("siege") {
		for name, q := range c.Object.Spec.Resources.Requests {
			if q.Sign() < 0 {
				t.Errorf("NodeClaim %s asks for %s of %s", c.Object.Name, q.String(), name)
			}
		}
		for _, uid := range observe.PromisedTo(c) {
			if p := s.history(types.UID(uid)).Object; p.Name != "" && p.Name != "plus" {
				t.Errorf("NodeClaim %s, a %s, was launched for pod %s", c.Object.Name, c.Expected.InstanceType, p.Name)
			}
		}
	}
	for _, line := range s.failures() {
		t.Errorf("a part of scheduler or launcher failed: %s", line)
	}
}

// constrained keeps a pod with many soft constraints running on a node that could be consolidated: what the scheduler spends on decisions
// about it is bounded.
func (s *siege) constrained(t *testing.T) {
	t.Helper()
	w := newWorld(t, "siege-shrinks")
	w.shrinking(nil)
	n := sized(softSpreads, softSpreads/4)
	w.deployment("x", 1, w.podSpec("50m", "64Mi", func(spec *corev1.PodSpec) { spec.TopologySpreadConstraints = constraints(n) }))
	w.halfEmpty(2)
	w.await(t, "the filler to be gone", func() bool { return w.running() == 3 })
	span := time.Duration(sized(40, 10)) * time.Second
	begin, before := time.Now(), s.schedulerCPU(t)
	time.Sleep(span)
	cores := (s.schedulerCPU(t) - before) / time.Since(begin).Seconds()
	// Tests that run beside this one in the short form use the scheduler as well.
	if *allHostile && cores > 0.5 {
		t.Errorf("the scheduler took %.2f cores, at most half a core is allowed", cores)
	}
	w.await(t, "consolidation to remove a node", func() bool { return len(w.claimsOf(w.name)) < len(w.everClaimed(w.name)) })
	s.unhindered(t, fmt.Sprintf("%.2f cores over %.0f s, and a node was consolidated", cores, span.Seconds()))
}

// schedulerCPU returns the CPU seconds that the scheduler has used.
func (s *siege) schedulerCPU(t *testing.T) float64 {
	t.Helper()
	transport, err := rest.TransportFor(selfSigned(s.RESTConfig()))
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.SchedulerMetricsURL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil || len(families["process_cpu_seconds_total"].GetMetric()) == 0 {
		t.Fatalf("the scheduler's metrics: %s, error %v", response.Status, err)
	}
	return families["process_cpu_seconds_total"].GetMetric()[0].GetCounter().GetValue()
}

// selfSigned returns the configuration for a server whose certificate is its own.
func selfSigned(c *rest.Config) *rest.Config {
	out := rest.CopyConfig(c)
	out.Insecure, out.CAData, out.CAFile = true, nil, ""
	return out
}

// orphans names owners of a kind that does not exist, whose pods are never complete, without end.
func (s *siege) orphans(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	made := 0
	group.Go(func() {
		for ctx.Err() == nil {
			pod := s.pod(fmt.Sprintf("orphan-%d", made), "1m", nil)
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Foo", Name: "foo", UID: uuid.NewUUID(), Controller: new(true)}}
			err := persist(ctx, func() error { return client.IgnoreAlreadyExists(s.editor.Create(ctx, pod)) })
			if err != nil && ctx.Err() == nil {
				t.Errorf("creating pod %s: %v", pod.Name, err)
				return
			}
			made++
			select {
			case <-ctx.Done():
			case <-time.After(400 * time.Millisecond):
			}
		}
	})
	time.Sleep(2 * time.Second)
	took := s.launch()
	stop()
	group.Wait()
	s.judge(t, fmt.Sprintf("%d pods, one every 0.4 s", made), took)
}

// flood makes pods that fit nowhere. A pod of another namespace that fits nowhere says so as soon as without them.
func (s *siege) flood(t *testing.T) {
	t.Helper()
	nowhere := func(spec *corev1.PodSpec) { spec.NodeSelector["nowhere"] = "x" }
	told := func(name string) time.Duration {
		begin := time.Now()
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.other.name, Name: name}, Spec: s.podSpec("1", "64Mi", nowhere)}
		s.create(pod)
		s.await(t, "a pod to say why it has no node", func() bool {
			for _, c := range s.other.history(pod.UID).Object.Status.Conditions {
				if c.Type == explain.NodeLaunchable {
					return true
				}
			}
			return false
		})
		took := time.Since(begin)
		err := persist(t.Context(), func() error { return s.client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)) })
		if err != nil {
			t.Fatal(err)
		}
		return took
	}
	alone := told("alone")
	n := sized(3000, 300)
	var group sync.WaitGroup
	for lane := range 8 {
		group.Go(func() {
			for i := lane; i < n; i += 8 {
				pod := s.pod(fmt.Sprintf("nowhere-%d", i), "1", nowhere)
				if err := persist(t.Context(), func() error { return s.editor.Create(t.Context(), pod) }); err != nil {
					t.Errorf("creating pod %s: %v", pod.Name, err)
					return
				}
			}
		})
	}
	group.Wait()
	beside := told("beside")
	shared.measured(t, "%d pods; another one was told after %.1f s, alone %.1f s", n, beside.Seconds(), alone.Seconds())
	if most := 2*alone + 10*time.Second; beside > most {
		t.Errorf("a pod of another namespace was told after %v why it has no node, at most %v is allowed", beside, most)
	}
}

// daemons has a DaemonSet whose pods ask for more than any node has, and tolerate everything: it takes no room on nodes where they never run.
func (s *siege) daemons(t *testing.T) {
	t.Helper()
	labels := map[string]string{"app": "huge"}
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: "huge"}}
	ds.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	ds.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: s.podSpec("10000", "64Mi", func(spec *corev1.PodSpec) {
		spec.NodeSelector, spec.Affinity = nil, nil
		spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	})}
	s.attack(t, ds)
	s.unhindered(t, "10,000 CPUs on each node")
	if err := persist(t.Context(), func() error { return client.IgnoreNotFound(s.editor.Delete(t.Context(), ds)) }); err != nil {
		t.Fatal(err)
	}
}

// karpenter renews a Lease of Karpenter's name in the attacker's namespace, as a Karpenter does: slipway goes on to manage every NodePool.
func (s *siege) karpenter(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: "karpenter-leader-election"}}
	renew := func() { lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()} }
	lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: new("karpenter-1"), LeaseDurationSeconds: new(int32(15))}
	renew()
	s.attack(t, lease)
	renewals := 0
	var group sync.WaitGroup
	group.Go(func() {
		for ctx.Err() == nil {
			renew()
			if err := s.editor.Update(ctx, lease); err == nil {
				renewals++
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	})
	// The launcher reads the Leases every ten seconds.
	s.await(t, "slipway to read the Lease", func() bool {
		log, err := os.ReadFile(s.LogFile(sandbox.Launcher))
		return err == nil && (bytes.Contains(log, []byte(`is ignored: no service account of its namespace may create NodeClaims" lease="`+s.name+`/`)) ||
			bytes.Contains(log, []byte(`"A Karpenter started or stopped`)))
	})
	took := s.launch()
	stop()
	group.Wait()
	s.judge(t, fmt.Sprintf("%d renewals", renewals), took)
	if err := persist(t.Context(), func() error { return client.IgnoreNotFound(s.editor.Delete(t.Context(), lease)) }); err != nil {
		t.Fatal(err)
	}
}
