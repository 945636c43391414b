package join_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/join"
	"github.com/slipway-k8s/slipway/launcher/leadership"
)

func TestNodeThatDoesNotJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.claim(5*time.Minute, "web-1")
		c := w.controller()
		if after := w.looks(c, 2); after <= 0 || after > time.Minute {
			t.Errorf("the launcher has just begun to lead, again after %s", after)
		}
		w.wantTrace()
		time.Sleep(time.Minute)
		w.looks(c, 1)
		w.wantTrace("failed default-1 registration_timeout",
			"event default-1 NodeDidNotJoin: node did not register within 5m0s of the launch of instance i-00000000000000001; is its role mapped "+
				"in the cluster (an EKS access entry of type EC2_LINUX, or aws-auth)? Else look at its user data, and whether it reaches the API "+
				"server: aws ec2 get-console-output --latest --instance-id i-00000000000000001",
			"end default-1 registration_timeout", "did not join default-1 registration_timeout")
		w.looks(c, 1)
		w.wantTrace("forget claim")
	})
}

// lead renews the Lease of the process.
func (w *world) lead(of *leadership.Leadership) {
	w.t.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "slipway"}}
	if w.api.Get(w.t.Context(), client.ObjectKeyFromObject(lease), lease) != nil {
		w.create(lease)
	}
	now := metav1.NowMicro()
	lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: new("me"), LeaseDurationSeconds: new(int32(15)), RenewTime: &now}
	err := w.api.Update(w.t.Context(), lease)
	if err = errors.Join(err, of.Lead("me", lease.Namespace, lease.Name), of.Refresh(w.t.Context())); err != nil {
		w.t.Fatal(err)
	}
	if !of.Leading() {
		w.t.Fatal("it does not lead")
	}
}

// The API server is away while a node boots, so that the node's deadline passes while no replica leads. Once that is over the kubelet has a minute, once
// for each time that the launcher leads, and however often the claim is looked at.
func TestDeadlineWhileTheAPIServerIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.claim(0, "web-1")
		leader, err := leadership.New(leadership.Config{Reader: w.api})
		if err != nil {
			t.Fatal(err)
		}
		config := w.config()
		config.Guard = leader
		c, err := join.New(config)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			w.lead(leader)
			w.looks(c, 2)
			time.Sleep(5 * time.Minute)
		}
		w.lead(leader)
		for range 6 {
			w.looks(c, 1)
			w.wantTrace()
			time.Sleep(9 * time.Second)
			w.lead(leader)
		}
		time.Sleep(6 * time.Second)
		w.looks(c, 1)
		if len(w.trace) != 4 || w.trace[2] != "end default-1 registration_timeout" {
			t.Errorf("trace %q a minute later", w.trace)
		}
		if err := leader.Resign(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A claim that is overdue by the cache is ended only if it is so by the API server too.
func TestOverdueByTheCacheAlone(t *testing.T) {
	for name, c := range map[string]struct {
		ready corev1.ConditionStatus // At the API server; none if the kubelet has posted none.
		fails error                  // What reading it there returns.
		end   string
	}{
		"ready":                  {corev1.ConditionTrue, nil, ""},
		"joined and not ready":   {corev1.ConditionFalse, nil, "end default-1 readiness_timeout"},
		"not joined":             {"", nil, "end default-1 registration_timeout"},
		"the API server is away": {corev1.ConditionTrue, errBusy, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.claim(4*time.Minute, "web-1")
				config, lags := w.lagging()
				controller, err := join.New(config)
				if err != nil {
					t.Fatal(err)
				}
				w.looks(controller, 2)
				time.Sleep(time.Minute)
				if c.ready != "" {
					w.kubelet("node-1", c.ready)
				}
				w.trace, lags.cache, lags.reader = nil, true, c.fails
				after, err := w.look(controller)
				if !errors.Is(err, c.fails) || c.end == "" && err == nil && after != time.Second {
					t.Errorf("again after %s, error %v", after, err)
				}
				if c.end != "" {
					if len(w.trace) != 4 || w.trace[2] != c.end {
						t.Errorf("trace %q", w.trace)
					}
					return
				}
				w.wantTrace()
				lags.cache, lags.reader = false, nil
				w.looks(controller, 4)
				if !w.current().StatusConditions().Get(karpv1.ConditionTypeInitialized).IsTrue() {
					t.Errorf("not initialized: %v", w.current().Status.Conditions)
				}
			})
		})
	}
}

// lag is what keeps the Controller from seeing the Nodes as they are.
type lag struct {
	// cache means that it shows Nodes without a status.
	cache bool
	// reader is the error of reading a Node past it.
	reader error
}

// lagging returns the Config of a Controller that sees Nodes with a lag.
func (w *world) lagging() (join.Config, *lag) {
	config, lags := w.config(), &lag{}
	config.Client = interceptor.NewClient(w.api, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, list, opts...)
			if nodes, ok := list.(*corev1.NodeList); ok && lags.cache {
				for i := range nodes.Items {
					nodes.Items[i].Status.Conditions = nil
				}
			}
			return err
		},
	})
	config.Reader = interceptor.NewClient(w.api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, ok := o.(*corev1.Node); ok && lags.reader != nil {
				return lags.reader
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
	return config, lags
}
