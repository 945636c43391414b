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
	// endpoint is the clients' address, a unix socket.
	endpoint string
}

// startStore starts an etcd that never syncs to disk, since its data is removed with the folder.
func startStore(ctx context.Context, folder, logFile string) (*store, error) {
	client := url.URL{Scheme: "unix", Path: filepath.Join(folder, "etcd.sock")}
	peer := url.URL{Scheme: "unix", Path: filepath.Join(folder, "peer.sock")}
	cfg := embed.NewConfig()
	cfg.Name = "slipway"
	cfg.Dir = filepath.Join(folder, "etcd")
	cfg.ListenClientUrls = []url.URL{client}
	cfg.ListenPeerUrls = []url.URL{peer}
	// etcd requires a host and a port to advertise. Nothing connects to them.
	cfg.AdvertisePeerUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:2380"}}
	cfg.AdvertiseClientUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:2379"}}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.UnsafeNoFsync = true
	cfg.QuotaBackendBytes = 4 << 30
	// A single member elects itself, without waiting for others.
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
		return nil, fmt.Errorf("starting etcd: %w", err)
	case <-ctx.Done():
		s.stop()
		return nil, fmt.Errorf("waiting until etcd is ready: %w", ctx.Err())
	}
}

func (s *store) stop() {
	s.etcd.Server.HardStop()
	s.etcd.Close()
}
