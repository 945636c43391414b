package join_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/join"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// Bindings are reported before the claim's status is written, which may fail with a conflict: an initialized claim is not reconciled again.
func TestBindingsAreReportedBeforeTheStatus(t *testing.T) {
	w := newWorld(t)
	w.claim(0, "web")
	config := w.config()
	config.Client = interceptor.NewClient(w.api, interceptor.Funcs{
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			return errBusy
		},
	})
	c, err := join.New(config)
	if err != nil {
		t.Fatal(err)
	}
	w.looks(c, 1)
	if _, err := w.look(c); !errors.Is(err, errBusy) {
		t.Fatalf("error %v, want that of the status", err)
	}
	if _, told, err := record.BindingOf(w.current(), "uid-web"); err != nil || !told {
		t.Errorf("told: %t, error %v", told, err)
	}
}

// The node of a claim whose annotations the API server refuses joins without the record of its bindings. An API server that is busy delays
// the condition Initialized until it takes the record, and no other condition.
func TestBindingsThatCannotBeWritten(t *testing.T) {
	failure := error(apierrors.NewInvalid(schema.GroupKind{Kind: "NodeClaim"}, "default-1", field.ErrorList{field.TooLong(field.NewPath("metadata.annotations"), "", 262144)}))
	boot := func() (*world, *join.Controller) {
		w := newWorld(t)
		w.claim(0, "web")
		config := w.config()
		config.Client = interceptor.NewClient(w.api, interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
				if _, ok := o.(*karpv1.NodeClaim); ok && failure != nil {
					return failure
				}
				return c.Patch(ctx, o, patch, opts...)
			},
		})
		c, err := join.New(config)
		if err != nil {
			t.Fatal(err)
		}
		w.looks(c, 1)
		w.kubelet("node-1", corev1.ConditionTrue)
		for range 5 {
			if _, err := w.look(c); err != nil && !errors.Is(err, errBusy) {
				t.Fatal(err)
			}
		}
		return w, c
	}
	w, _ := boot()
	if !w.current().StatusConditions().Get(karpv1.ConditionTypeInitialized).IsTrue() || !strings.Contains(strings.Join(w.trace, "\n"), "BindingsNotRecorded") {
		t.Errorf("conditions %v, trace %q", w.current().Status.Conditions, w.trace)
	}
	failure = errBusy
	w, c := boot()
	status := w.current().StatusConditions()
	if !status.Get(karpv1.ConditionTypeRegistered).IsTrue() || status.Get(karpv1.ConditionTypeInitialized).IsTrue() {
		t.Errorf("while the API server is busy: %v", w.current().Status.Conditions)
	}
	failure = nil
	w.looks(c, 2)
	if _, told, err := record.BindingOf(w.current(), "uid-web"); err != nil || !told || !w.current().StatusConditions().Get(karpv1.ConditionTypeInitialized).IsTrue() {
		t.Errorf("told: %t, error %v, conditions %v", told, err, w.current().Status.Conditions)
	}
}

// A NodeReadinessRule may wait for a DaemonSet that tolerates the rule's taint alone: the startup taint does not keep that off a Ready node.
func TestReadinessRuleGetsItsAgent(t *testing.T) {
	rule := corev1.Taint{Key: "readiness.k8s.io/cni", Effect: corev1.TaintEffectNoSchedule}
	for _, tolerates := range []string{rule.Key, "another"} {
		w := newWorld(t)
		w.claim(time.Minute, "web-1")
		agent := daemonSet("cni", nil)
		agent.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: tolerates, Operator: corev1.TolerationOpExists}}
		w.create(agent)
		c := w.controller()
		w.looks(c, 1)
		n := w.node("node-1")
		n.Spec.Taints = append(n.Spec.Taints, rule)
		if err := w.api.Update(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		w.kubelet("node-1", corev1.ConditionTrue)
		w.looks(c, 3)
		if gone := !slices.Contains(w.taints(w.node("node-1")), catalog.StartingTaintKey); gone != (tolerates == rule.Key) {
			t.Errorf("a DaemonSet tolerates %s: the startup taint is gone: %t", tolerates, gone)
		}
		w.wantTrace()
		if w.current().StatusConditions().Get(karpv1.ConditionTypeInitialized).IsTrue() {
			t.Error("initialized before the condition of the rule holds")
		}
	}
}
