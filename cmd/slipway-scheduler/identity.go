package main

import (
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	schedulerconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"

	"github.com/slipway-k8s/slipway/plugin/heir"
)

// inherit has leader election go on under the identity of the process that was killed here before, if one was: its Lease is
// ours then. It returns what to call before the Lease is given back. Without it, the Lease has to expire first.
func inherit(cc *schedulerconfig.CompletedConfig, path string) (renounce func()) {
	logger := klog.Background()
	nothing := func() {}
	if cc.LeaderElection == nil {
		return nothing
	}
	lock, ok := cc.LeaderElection.Lock.(*resourcelock.LeaseLock)
	if !ok {
		return nothing
	}
	identity, err := heir.Take(path, lock.LockConfig.Identity)
	if err != nil {
		logger.Error(err, "Leader election starts under a new identity")
		return nothing
	}
	if identity.Name() != lock.LockConfig.Identity {
		logger.Info("Leader election goes on under the identity of the process before", "identity", identity.Name())
		lock.LockConfig.Identity = identity.Name()
	}
	return func() {
		if err := identity.Renounce(); err != nil {
			logger.Error(err, "The next process here goes on under this identity, under which the launcher no longer acts")
		}
	}
}
