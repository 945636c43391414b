package app

import (
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	schedulerconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
)

// The election is under the inherited identity, and waits for the launcher before it takes a Lease that is another's, where there is another replica.
// Without leader election there is nothing to take.
func TestPreferLaunchers(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for want, names := range [][]string{{host}, {host, "other"}} {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "l"}}
		lock := &resourcelock.LeaseLock{
			LeaseMeta: lease.ObjectMeta, Client: fake.NewClientset(lease).CoordinationV1(), LockConfig: resourcelock.ResourceLockConfig{Identity: "me"},
		}
		cfg := schedulerconfig.Config{
			LeaderElection: &leaderelection.LeaderElectionConfig{Lock: lock}, InformerFactory: informers.NewSharedInformerFactory(fake.NewClientset(), 0),
		}
		cfg.ComponentConfig.LeaderElection.ResourceNamespace = "n"
		for _, name := range names {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, Labels: map[string]string{"app.kubernetes.io/name": "slipway"}}}
			if err := cfg.InformerFactory.Core().V1().Pods().Informer().GetIndexer().Add(pod); err != nil {
				t.Fatal(err)
			}
		}
		cc := cfg.Complete()
		waited := 0
		ours, err := preferLaunchers(&cc, func(context.Context) bool { waited++; return true })
		if err != nil {
			t.Fatal(err)
		}
		around := cc.LeaderElection.Lock
		_, _, err = around.Get(t.Context())
		for range 2 {
			err = errors.Join(err, around.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: around.Identity()}))
		}
		if err != nil || waited != want || around.Identity() != "me" {
			t.Errorf("Pods %v: %s waited %d times, want me %d times; error %v", names, around.Identity(), waited, want, err)
		}
		if err := around.Update(t.Context(), resourcelock.LeaderElectionRecord{}); err == nil {
			t.Error("the Lease was released while the launcher may act")
		}
		ours.resigned()
		if err := around.Update(t.Context(), resourcelock.LeaderElectionRecord{}); err != nil {
			t.Error("the launcher has resigned:", err)
		}
	}
	none := (&schedulerconfig.Config{}).Complete()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	without, err := preferLaunchers(&none, nil)
	without.resigned()
	if err != nil || none.LeaderElection != nil || without.awaitOther(ended) {
		t.Errorf("without leader election: %v, error %v", none.LeaderElection, err)
	}
}

// The Lease is released once the launcher has stopped or is found not to run, and not where it does not answer.
func TestResign(t *testing.T) {
	for name, tc := range map[string]struct {
		ask  func(context.Context) error
		want bool
	}{
		"it stops":           {func(context.Context) error { return nil }, true},
		"it does not run":    {func(context.Context) error { return errors.New("connection refused") }, true},
		"it does not answer": {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			renounced := false
			if got := resign(tc.ask, func() { renounced = true }); got != tc.want || !renounced {
				t.Errorf("%s: stopped %t, want %t; the identity is renounced: %t", name, got, tc.want, renounced)
			}
		})
	}
}
