package app

import (
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	schedulerconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"

	"github.com/slipway-k8s/slipway/plugin/identity"
)

// inherit takes the identity of leader election that a killed process of this container left, if there is one: this process
// then holds its Lease. Without it, the Lease has to expire first. The returned function is called before the Lease is released.
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
	taken, err := identity.Take(path, lock.LockConfig.Identity)
	if err != nil {
		logger.Error(err, "Leader election starts under a new identity")
		return nothing
	}
	if taken.Name() != lock.LockConfig.Identity {
		logger.Info("Leader election goes on under the identity of the process before", "identity", taken.Name())
		lock.LockConfig.Identity = taken.Name()
	}
	return func() {
		if err := taken.Renounce(); err != nil {
			logger.Error(err, "The next process here goes on under this identity, under which the launcher no longer acts")
		}
	}
}
