package consistency_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/consistency"
	"github.com/slipway-k8s/slipway/launcher/leadership/leadershiptest"
)

func list(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

// pair is an initialized claim and its node.
func pair(requests, expected, have corev1.ResourceList) (*karpv1.NodeClaim, *corev1.Node) {
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "default-1", UID: "1"}}
	claim.Spec.Resources.Requests = requests
	claim.Status.ProviderID, claim.Status.NodeName, claim.Status.Capacity = "aws:///us-east-1a/i-1", "node-1", expected
	claim.StatusConditions().SetTrue(karpv1.ConditionTypeInitialized)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	node.Status.Capacity = have
	return claim, node
}

// What pods requested counts, to nine tenths of what was expected.
func TestIssues(t *testing.T) {
	for name, c := range map[string]struct {
		requests, expected, have corev1.ResourceList
		change                   func(*karpv1.NodeClaim)
		want                     []string
	}{
		"as expected":        {list("cpu", "1", "memory", "1Gi"), list("cpu", "2", "memory", "8Gi"), list("cpu", "2", "memory", "7373Mi"), nil, nil},
		"less than requests": {list("cpu", "1", "memory", "1Gi"), list("cpu", "2", "memory", "10Gi"), list("cpu", "1", "memory", "8Gi"), nil, []string{"expected 10Gi of resource memory, but found 8Gi (80.0% of expected)", "expected 2 of resource cpu, but found 1 (50.0% of expected)"}},
		"not requested":      {list("cpu", "1"), list("cpu", "2", "memory", "8Gi"), list("cpu", "2"), nil, nil},
		"missing":            {list("nvidia.com/gpu", "1"), list("nvidia.com/gpu", "4"), list("cpu", "2"), nil, []string{"expected 4 of resource nvidia.com/gpu, but found 0 (0.0% of expected)"}},
		"nothing expected":   {list("nvidia.com/gpu", "1"), list("nvidia.com/gpu", "0"), list(), nil, nil},
		"not initialized": {list("cpu", "1"), list("cpu", "2"), list("cpu", "1"), func(c *karpv1.NodeClaim) {
			c.StatusConditions().SetUnknown(karpv1.ConditionTypeInitialized)
		}, nil},
		"ending": {list("cpu", "1"), list("cpu", "2"), list("cpu", "1"), func(c *karpv1.NodeClaim) { c.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			claim, node := pair(c.requests, c.expected, c.have)
			if c.change != nil {
				c.change(claim)
			}
			if diff := cmp.Diff(c.want, consistency.Issues(claim, node)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// A node that is too small is reported in condition and Event, once in ten minutes, and no longer once it is as expected.
func TestConsistentStateFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		claim, node := pair(list("cpu", "1"), list("cpu", "2"), list("cpu", "1"))
		api := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithStatusSubresource(claim, node).WithObjects(claim, node).Build()
		events := record.NewFakeRecorder(10)
		subject, err := consistency.New(consistency.Config{Client: api, Guard: leadershiptest.Always{}, Events: events})
		if err != nil {
			t.Fatal(err)
		}
		look := func() string {
			if _, err := subject.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(claim)}); err != nil {
				t.Fatal(err)
			}
			if err := api.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
				t.Fatal(err)
			}
			c := claim.StatusConditions().Get(karpv1.ConditionTypeConsistentStateFound)
			return string(c.GetStatus()) + " " + c.Reason
		}
		for range 2 {
			if got := look(); got != "False ConsistencyCheckFailed" {
				t.Errorf("the condition is %s", got)
			}
		}
		if n := len(events.Events); n != 1 {
			t.Fatalf("%d Events, want 1", n)
		}
		if e := <-events.Events; !strings.Contains(e, "FailedConsistencyCheck expected 2 of resource cpu, but found 1") {
			t.Errorf("the Event is %q", e)
		}
		node.Status.Capacity = list("cpu", "2")
		if err := api.Status().Update(t.Context(), node); err != nil {
			t.Fatal(err)
		}
		if got := look(); got != "False ConsistencyCheckFailed" {
			t.Errorf("within ten minutes the condition is %s", got)
		}
		time.Sleep(10 * time.Minute)
		if got := look(); got != "True ConsistentStateFound" {
			t.Errorf("after ten minutes the condition is %s", got)
		}
	})
}

func TestSetupWithManager(t *testing.T) {
	mgr, err := manager.New(&rest.Config{Host: "http://127.0.0.1:1"}, manager.Options{
		Scheme: scheme.Scheme, Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
	})
	if err != nil {
		t.Fatal(err)
	}
	subject, err := consistency.New(consistency.Config{Client: mgr.GetClient(), Guard: leadershiptest.Always{}, Events: record.NewFakeRecorder(1)})
	if err != nil {
		t.Fatal(err)
	}
	if err := subject.SetupWithManager(mgr); err != nil {
		t.Fatal(err)
	}
	if _, err := consistency.New(consistency.Config{}); err == nil {
		t.Error("no error without any dependency")
	}
}
