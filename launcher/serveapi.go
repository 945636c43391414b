package launcher

import (
	"path/filepath"

	"github.com/slipway-k8s/slipway/launcher/consolidate"
	"github.com/slipway-k8s/slipway/launcher/webapi"
)

// api serves what nodes and pods do, where the settings say so. It asks the API server with a connection of its own: a standby serves too, and
// what only the leader may write goes through a gate.
func (l *Launcher) api(p parts, decider *consolidate.Consolidator) error {
	s := l.config.Settings
	if !s.serves(s.APIAddress) {
		return nil
	}
	config := webapi.Config{
		Address: s.APIAddress, Kubernetes: l.config.Kubernetes, Indexers: webapi.FromCache(l.manager.GetCache()),
		Decisions: p.decisions.List, Consolidation: decider.Outlook, Types: typesByClass(l.manager.GetClient(), l.config.Cloud), Rates: l.config.Cloud.Rates,
		Leading: l.config.Gate.Open,
	}
	if s.APICertDir != "" {
		config.CertFile, config.KeyFile = filepath.Join(s.APICertDir, certificateFile), filepath.Join(s.APICertDir, keyFile)
	}
	server, err := webapi.New(config)
	if err != nil {
		return err
	}
	return add(l.manager, server.Run)
}
