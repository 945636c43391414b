package controlplane

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/embed"
)

// store is an etcd of one member.
type store struct {
	etcd *embed.Etcd
	// endpoint for clients: a unix socket.
	endpoint string
}

// startStore starts an etcd that never syncs to disk: its data is gone with its folder anyway.
func startStore(ctx context.Context, folder, logFile string) (*store, error) {
	client := url.URL{Scheme: "unix", Path: filepath.Join(folder, "etcd.sock")}
	peer := url.URL{Scheme: "unix", Path: filepath.Join(folder, "peer.sock")}
	cfg := embed.NewConfig()
	cfg.Name = "slipway"
	cfg.Dir = filepath.Join(folder, "etcd")
	cfg.ListenClientUrls = []url.URL{client}
	cfg.ListenPeerUrls = []url.URL{peer}
	// What members and clients would be told to dial: nobody asks, and etcd insists on a host and a port.
	cfg.AdvertisePeerUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:2380"}}
	cfg.AdvertiseClientUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:2379"}}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.UnsafeNoFsync = true
	cfg.QuotaBackendBytes = 4 << 30
	// One member elects itself: there is nobody to wait for.
	cfg.TickMs, cfg.ElectionMs = 20, 200
	cfg.LogLevel = "error"
	cfg.LogOutputs = []string{logFile}

	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, err
	}
	s := &store{etcd: etcd, endpoint: client.String()}
	select {
	case <-etcd.Server.ReadyNotify():
		return s, nil
	case err := <-etcd.Err():
		s.stop()
		return nil, fmt.Errorf("not ready: %w", err)
	case <-ctx.Done():
		s.stop()
		return nil, fmt.Errorf("not ready: %w", ctx.Err())
	}
}

func (s *store) stop() {
	s.etcd.Server.HardStop()
	s.etcd.Close()
}
