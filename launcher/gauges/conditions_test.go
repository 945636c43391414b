package gauges_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/awslabs/operatorpkg/status"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/gauges"
)

// told returns the series whose name has this prefix, with the values of their labels.
func told(t *testing.T, registry *prometheus.Registry, prefix string) []string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if strings.HasPrefix(f.GetName(), prefix) {
				out = append(out, line(f.GetName(), m))
			}
		}
	}
	slices.Sort(out)
	return out
}

func line(name string, m *dto.Metric) string {
	var labels []string
	for _, l := range m.GetLabel() {
		if l.GetValue() != "" {
			labels = append(labels, l.GetName()+"="+l.GetValue())
		}
	}
	value := fmt.Sprint(m.GetGauge().GetValue() + m.GetCounter().GetValue())
	if h := m.GetHistogram(); h != nil {
		value = fmt.Sprintf("%d in %v s", h.GetSampleCount(), h.GetSampleSum())
	}
	return fmt.Sprintf("%s{%s} %s", name, strings.Join(labels, ","), value)
}

func claimAt(now time.Time, ready metav1.ConditionStatus, since time.Duration) *karpv1.NodeClaim {
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "default-1", Labels: map[string]string{
		karpv1.NodePoolLabelKey: "default", "karpenter.k8s.aws/ec2nodeclass": "al2023",
	}}}
	claim.Status.Conditions = []status.Condition{{
		Type: "Ready", Status: ready, Reason: "Why", LastTransitionTime: metav1.NewTime(now.Add(-since)),
	}}
	return claim
}

// The conditions of objects are reported with Karpenter's names and labels.
func TestConditions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		claim := claimAt(now, metav1.ConditionFalse, 7*time.Second)
		claim.Finalizers, claim.DeletionTimestamp = []string{karpv1.TerminationFinalizer}, &metav1.Time{Time: now.Add(-5 * time.Second)}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{karpv1.NodeInitializedLabelKey: "true"}}}
		node.Status.Conditions = []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastTransitionTime: metav1.NewTime(now.Add(-time.Minute)),
		}}
		waits := pod("waits", "", "1")
		waits.Status.Phase, waits.CreationTimestamp = corev1.PodPending, metav1.NewTime(now.Add(-3*time.Second))
		starts := waits.DeepCopy()
		starts.Name = "starts"
		starts.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
		collector, err := gauges.New(cluster(fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(claim, node, waits, starts).Build()))
		if err != nil {
			t.Fatal(err)
		}
		registry := prometheus.NewPedanticRegistry()
		if err := registry.Register(collector); err != nil {
			t.Fatal(err)
		}
		const of = "{karpenter_k8s_aws_ec2nodeclass=al2023,karpenter_sh_nodepool=default,name=default-1"
		want := []string{
			"operator_node_status_condition_count{karpenter_sh_initialized=true,name=n,reason=KubeletReady,status=True,type=Ready} 1",
			"operator_node_status_condition_current_status_seconds{karpenter_sh_initialized=true,name=n,reason=KubeletReady,status=True,type=Ready} 60",
			"operator_nodeclaim_status_condition_count" + of + ",reason=Why,status=False,type=Ready} 1",
			"operator_nodeclaim_status_condition_current_status_seconds" + of + ",reason=Why,status=False,type=Ready} 7",
			"operator_nodeclaim_termination_current_time_seconds" + of + "} 5",
		}
		if diff := cmp.Diff(want, told(t, registry, "operator_")); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		waiting := slices.Concat(told(t, registry, "karpenter_pods_unbound"), told(t, registry, "karpenter_pods_unstarted"))
		want = []string{
			"karpenter_pods_unbound_time_seconds{name=waits,namespace=ns} 3",
			"karpenter_pods_unstarted_time_seconds{name=starts,namespace=ns} 3",
			"karpenter_pods_unstarted_time_seconds{name=waits,namespace=ns} 3",
		}
		if diff := cmp.Diff(want, waiting); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

// A condition's change is counted once, with how long it was what it was, and an object's end is timed.
func TestTransitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		informers, registry := &informertest.FakeInformers{Scheme: scheme.Scheme}, prometheus.NewPedanticRegistry()
		times, err := gauges.NewTimes(informers, func() bool { return true }, registry)
		if err != nil {
			t.Fatal(err)
		}
		if err := times.Watch(t.Context()); err != nil {
			t.Fatal(err)
		}
		informer, err := informers.GetInformer(t.Context(), &karpv1.NodeClaim{})
		if err != nil {
			t.Fatal(err)
		}
		claims, ok := informer.(*controllertest.FakeInformer)
		if !ok {
			t.Fatalf("%T", informer)
		}
		now := time.Now()
		first := claimAt(now, metav1.ConditionUnknown, 10*time.Second)
		ready := claimAt(now, metav1.ConditionTrue, 4*time.Second)
		leaves := ready.DeepCopy()
		leaves.DeletionTimestamp = &metav1.Time{Time: now}
		claims.Add(first)
		claims.Update(first, ready)
		claims.Update(ready, leaves)
		time.Sleep(9 * time.Second)
		claims.Delete(leaves)
		const of = "{karpenter_k8s_aws_ec2nodeclass=al2023,karpenter_sh_nodepool=default"
		want := []string{
			"operator_nodeclaim_status_condition_transition_seconds" + of + ",status=Unknown,type=Ready} 1 in 6 s",
			"operator_nodeclaim_status_condition_transitions_total" + of + ",reason=Why,status=True,type=Ready} 1",
			"operator_nodeclaim_status_condition_transitions_total" + of + ",reason=Why,status=Unknown,type=Ready} 1",
			"operator_nodeclaim_termination_duration_seconds" + of + "} 1 in 9 s",
		}
		if diff := cmp.Diff(want, told(t, registry, "operator_")); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}
