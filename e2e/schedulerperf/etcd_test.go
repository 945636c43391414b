package schedulerperf_test

import (
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"go.etcd.io/etcd/server/v3/embed"
)

// etcd is the command of that name, with the flags that Kubernetes' tests give it: they look it up in the path.
func etcd(args []string) error {
	cfg := embed.NewConfig()
	var clients, advertised, peers string
	flags := flag.NewFlagSet("etcd", flag.ContinueOnError)
	flags.StringVar(&cfg.Dir, "data-dir", "", "folder of the data")
	flags.StringVar(&clients, "listen-client-urls", "", "where clients connect")
	flags.StringVar(&advertised, "advertise-client-urls", "", "where clients are said to connect")
	flags.StringVar(&peers, "listen-peer-urls", "", "where peers connect")
	flags.StringVar(&cfg.LogLevel, "log-level", "warn", "level of the log")
	flags.Int64Var(&cfg.QuotaBackendBytes, "quota-backend-bytes", 0, "largest size of the data")
	if err := flags.Parse(args); err != nil {
		return err
	}
	for from, to := range map[string]*[]url.URL{clients: &cfg.ListenClientUrls, advertised: &cfg.AdvertiseClientUrls, peers: &cfg.ListenPeerUrls} {
		u, err := url.Parse(from)
		if err != nil {
			return fmt.Errorf("etcd: parsing %q: %w", from, err)
		}
		*to = []url.URL{*u}
	}
	running, err := embed.StartEtcd(cfg)
	if err != nil {
		return fmt.Errorf("starting etcd: %w", err)
	}
	defer running.Close()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
	select {
	case <-stop:
		return nil
	case err := <-running.Err():
		return fmt.Errorf("running etcd: %w", err)
	}
}
