package launcher

import (
	"github.com/slipway-k8s/slipway/launcher/buffer"
	"github.com/slipway-k8s/slipway/launcher/server"
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
