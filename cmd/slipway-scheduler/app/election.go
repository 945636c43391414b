package app

import (
	"context"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	schedulerconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"

	"github.com/slipway-k8s/slipway/plugin/election"
)

// lease is the Lease of leader election, which a scheduler without leader election has not.
type lease struct {
	// lock is nil without leader election.
	lock   *election.Lock
	others func() []*corev1.Pod
}

// preferLaunchers has a replica whose launcher is not connected leave a free Lease to another one for a while, if there is one.
func preferLaunchers(cc *schedulerconfig.CompletedConfig, connected func(context.Context) bool) (lease, error) {
	if cc.LeaderElection == nil {
		return lease{}, nil
	}
	name, err := os.Hostname() // That of a container is its Pod's name.
	if err != nil {
		return lease{}, err
	}
	own := types.NamespacedName{Namespace: cc.ComponentConfig.LeaderElection.ResourceNamespace, Name: name}
	pods := cc.InformerFactory.Core().V1().Pods().Lister() // kube-scheduler's informer has no index of namespaces.
	others := func() []*corev1.Pod {
		list, err := pods.List(labels.Everything())
		if err != nil {
			return nil
		}
		return election.Others(list, own)
	}
	lock, err := election.New(cc.LeaderElection.Lock, connected, func() bool { return len(others()) == 0 })
	if err != nil {
		return lease{}, err
	}
	cc.LeaderElection.Lock = lock
	return lease{lock: lock, others: others}, nil
}

// awaitOther waits until this replica is to give its Lease up to one that is ready, and returns false if the context ends before.
func (l lease) awaitOther(ctx context.Context) bool {
	if l.lock == nil {
		<-ctx.Done()
		return false
	}
	return l.lock.AwaitOther(ctx, func(since time.Time) bool { return election.Ready(l.others(), since) })
}

// resigned lets the Lease be released: the launcher does not act any more.
func (l lease) resigned() {
	if l.lock != nil {
		l.lock.Resigned()
	}
}
