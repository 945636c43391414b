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

// preferLaunchers has a replica whose launcher is not connected leave a free Lease to another one for a while, if there is one. The returned function waits until
// this replica is to give its Lease up to one that is ready, and returns false if the context ends before.
func preferLaunchers(cc *schedulerconfig.CompletedConfig, connected func(context.Context) bool) (awaitOther func(context.Context) bool, err error) {
	if cc.LeaderElection == nil {
		return func(ctx context.Context) bool {
			<-ctx.Done()
			return false
		}, nil
	}
	name, err := os.Hostname() // That of a container is its Pod's name.
	if err != nil {
		return nil, err
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
		return nil, err
	}
	cc.LeaderElection.Lock = lock
	return func(ctx context.Context) bool {
		return lock.AwaitOther(ctx, func(since time.Time) bool { return election.Ready(others(), since) })
	}, nil
}
