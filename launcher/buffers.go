package launcher

import (
	"errors"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/buffer"
	"github.com/slipway-k8s/slipway/launcher/prefetch"
	"github.com/slipway-k8s/slipway/launcher/server"
	"github.com/slipway-k8s/slipway/launcher/standby"
)

// buffers returns what keeps room for CapacityBuffers, and runs it where its gate is on. It has its metrics in any case.
func (l *Launcher) buffers(p parts) (*buffer.Controller, Gates, error) {
	gates, err := ParseGates(l.config.Settings.FeatureGates)
	if err != nil {
		return nil, gates, err
	}
	controller, err := buffer.New(buffer.Config{
		Client: l.manager.GetClient(), Guard: p.leader, Asker: server.NewBufferAsker(p.server), Events: l.recorders.slipway, Registerer: l.registerer,
	})
	if err != nil || !gates.CapacityBuffer {
		return controller, gates, err
	}
	return controller, gates, add(l.manager, controller.Run)
}

// disks adds what brings images on nodes before pods run there, and what stops and starts the instances of standby buffers. The second runs where the
// gate is off as well: there it ends what was launched while the gate was on.
func (l *Launcher) disks(p parts) error {
	needed := func(*karpv1.NodeClaim) string { return "" }
	if p.gates.CapacityBuffer {
		needed = p.buffers.Needed
	}
	images, err := prefetch.New(prefetch.Config{
		Client: l.manager.GetClient(), Guard: p.leader, Ours: p.beside.ours, Disk: p.buffers.Disk, Registerer: l.registerer,
	})
	if err != nil {
		return err
	}
	sleepers, err := standby.New(standby.Config{
		Client: l.manager.GetClient(), Cloud: l.config.Cloud, Ender: p.terminator, Guard: p.leader, Events: l.recorders.slipway, Ours: p.beside.ours,
		Needed: needed, Disk: p.buffers.Disk, Failed: (&lateServer{server: p.server, decisions: p.decisions}).failed, Registerer: l.registerer,
	})
	if err != nil {
		return err
	}
	return errors.Join(images.SetupWithManager(l.manager), sleepers.SetupWithManager(l.manager))
}
