package join_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/join"
)

// The answer to the write that a node is registered is lost: the next round reports to Health that it joined, once. A launcher that did not write it reports
// nothing, nor does one that finds its Node gone.
func TestRegistrationWithoutAnAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		restarted, gone bool
		joined          int
	}{
		"the same launcher":    {joined: 1},
		"another launcher":     {restarted: true},
		"the Node was deleted": {gone: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.claim(time.Minute)
			config, lost := w.config(), true
			config.Client = interceptor.NewClient(w.api, interceptor.Funcs{
				SubResourcePatch: func(ctx context.Context, c client.Client, _ string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
					err := c.Status().Patch(ctx, o, patch, opts...)
					if claim, ok := o.(*karpv1.NodeClaim); ok && lost && claim.StatusConditions().IsTrue(karpv1.ConditionTypeRegistered) {
						err, lost = errors.Join(err, errBusy), false
					}
					return err
				},
			})
			controller, err := join.New(config)
			if err != nil {
				t.Fatal(err)
			}
			w.looks(controller, 1)
			w.kubelet("node-1", corev1.ConditionFalse)
			if _, err := w.look(controller); !errors.Is(err, errBusy) || !w.current().StatusConditions().IsTrue(karpv1.ConditionTypeRegistered) {
				t.Fatalf("error %v, conditions %v", err, w.current().Status.Conditions)
			}
			if c.restarted {
				controller = w.controller()
			}
			if n := w.node("node-1"); c.gone {
				n.Finalizers = nil
				if err := errors.Join(w.api.Update(t.Context(), n), w.api.Delete(t.Context(), n)); err != nil {
					t.Fatal(err)
				}
			}
			w.looks(controller, 3)
			if w.joined != c.joined {
				t.Errorf("joined %d times, want %d", w.joined, c.joined)
			}
		})
	}
}

// Health could not write that the node has joined: it is asked again until it could, though the node is initialized meanwhile.
func TestHealthThatCannotWriteIsAskedAgain(t *testing.T) {
	for _, ready := range []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionTrue} {
		w := newWorld(t)
		w.claim(time.Minute)
		controller := w.controller()
		w.looks(controller, 1)
		w.kubelet("node-1", ready)
		w.unwell = []error{apierrors.NewTimeoutError("slow", 1), errBusy, errBusy, errBusy}
		failed := 0
		for range 8 {
			if _, err := w.look(controller); err != nil {
				failed++
			}
		}
		initialized := w.current().StatusConditions().IsTrue(karpv1.ConditionTypeInitialized)
		if w.joined != 1 || failed != 4 || initialized != (ready == corev1.ConditionTrue) {
			t.Errorf("Ready %s: joined %d times after %d errors, initialized %t", ready, w.joined, failed, initialized)
		}
	}
}

// The end of a claim whose node did not join is counted where the answer is lost: the claim is not looked at again. An end that was refused is begun again,
// and counted then.
func TestEndWithoutAnAnswer(t *testing.T) {
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "nodeclaims"}, "default-1", errBusy)
	for _, err := range []error{nil, errBusy, apierrors.NewTimeoutError("slow", 1), refused} {
		w := newWorld(t)
		w.claim(time.Minute)
		w.ec2.Put(cloud.Instance{ID: w.instance.ID, State: cloud.StateTerminated, StateReason: cloud.StateReason{Code: "Client.InternalError"}})
		w.begun = err
		if _, got := w.look(w.controller()); !errors.Is(got, err) {
			t.Errorf("error %v, want %v", got, err)
		}
		counted := strings.Contains(strings.Join(w.trace, "\n"), "did not join default-1 instance_failed")
		if want := !errors.Is(err, refused); counted != want {
			t.Errorf("%v: counted %t, want %t", err, counted, want)
		}
	}
}
