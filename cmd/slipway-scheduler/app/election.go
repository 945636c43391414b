package app

import (
	"context"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	schedulerconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"

	"github.com/slipway-k8s/slipway/plugin/election"
)

// preferLaunchers has a replica whose launcher is not connected leave a free Lease to another one for a while. The returned function waits until
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
	lock, err := election.New(cc.LeaderElection.Lock, connected)
	if err != nil {
		return nil, err
	}
	cc.LeaderElection.Lock = lock
	own := types.NamespacedName{Namespace: cc.ComponentConfig.LeaderElection.ResourceNamespace, Name: name}
	pods := cc.InformerFactory.Core().V1().Pods().Lister() // kube-scheduler's informer has no index of namespaces.
	return func(ctx context.Context) bool {
		return lock.AwaitOther(ctx, func(since time.Time) bool {
			list, err := pods.List(labels.Everything())
			return err == nil && election.OtherReady(list, own, since)
		})
	}, nil
}
