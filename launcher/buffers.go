package launcher

import (
	"context"
	"fmt"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/buffer"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/expire"
	"github.com/slipway-k8s/slipway/launcher/server"
	"github.com/slipway-k8s/slipway/launcher/standby"
)

// buffers adds what keeps room for CapacityBuffers. Where its gate is off it only says so, and has its metrics.
func (l *Launcher) buffers(p parts) (*buffer.Controller, Gates, error) {
	gates, err := ParseGates(l.config.Settings.FeatureGates)
	if err != nil {
		return nil, gates, err
	}
	controller, err := buffer.New(buffer.Config{
		Client: l.manager.GetClient(), Cache: l.cache, Guard: p.leader, Leading: l.config.Gate.Open, Asker: server.NewBufferAsker(p.server),
		Events: l.recorders.slipway, Registerer: l.registerer, Off: !gates.CapacityBuffer,
	})
	if err != nil {
		return controller, gates, err
	}
	return controller, gates, add(l.manager, controller.Run)
}

// standby adds what stops and starts the instances of standby buffers. It runs where the gate is off as well: there it ends what was launched
// while the gate was on.
func (l *Launcher) standby(p parts) error {
	needed := func(*karpv1.NodeClaim) string { return "" }
	if p.gates.CapacityBuffer {
		needed = p.buffers.Needed
	}
	sleepers, err := standby.New(standby.Config{
		Client: l.manager.GetClient(), Pods: l.cache.Pods, Cloud: l.config.Cloud, Ender: p.terminator, Guard: p.leader, Events: l.recorders.slipway, Ours: p.beside.ours,
		Needed: needed, Disk: p.buffers.Disk, Hibernation: l.hibernation, ExpiresSoon: l.expiresSoon, Failed: p.late.failed, Registerer: l.registerer,
	})
	if err != nil {
		return err
	}
	return sleepers.SetupWithManager(l.manager)
}

// hibernation reports whether the class of a claim's node has its instances hibernated, and why EC2 cannot. A class that is gone wants nothing.
func (l *Launcher) hibernation(ctx context.Context, claim *karpv1.NodeClaim) (wanted bool, cannot string, err error) {
	if claim.Spec.NodeClassRef == nil {
		return false, "", nil
	}
	class := &awsv1.EC2NodeClass{}
	if err := l.manager.GetClient().Get(ctx, client.ObjectKey{Name: claim.Spec.NodeClassRef.Name}, class); err != nil {
		return false, "", client.IgnoreNotFound(err)
	}
	if class.Annotations[catalog.HibernateAnnotation] != "true" {
		return false, "", nil
	}
	return true, l.config.Cloud.NoHibernation(class, claim.Labels[corev1.LabelInstanceTypeStable]), nil
}

// expiresSoon reports whether a claim is in the soft window before its expiry.
func (l *Launcher) expiresSoon(ctx context.Context, claim *karpv1.NodeClaim) (bool, error) {
	pool := &karpv1.NodePool{}
	err := l.manager.GetClient().Get(ctx, client.ObjectKey{Name: claim.Labels[karpv1.NodePoolLabelKey]}, pool, client.UnsafeDisableDeepCopy)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("getting the NodePool of NodeClaim %s: %w", claim.Name, err)
	}
	soft := expire.Soft(claim, expire.Window(claim, pool, l.config.Settings.ExpiryWindow.Duration))
	return !soft.IsZero() && !time.Now().Before(soft), nil
}
