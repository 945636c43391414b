package launcher

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/slipway-k8s/slipway/launcher/launch"
	"github.com/slipway-k8s/slipway/launcher/leadership"
	"github.com/slipway-k8s/slipway/launcher/server"
)

// probeTimeout bounds the answer to one probe. The manifests allow 15 seconds.
const probeTimeout = 2 * time.Second

// probes adds the checks of /healthz and /readyz, each with its name.
func (l *Launcher) probes(p parts) error {
	var errs []error
	for name, check := range readiness(l.manager.GetCache(), l.config.Settings.Socket, p.peer) {
		errs = append(errs, l.manager.AddReadyzCheck(name, check))
	}
	for name, check := range liveness(p.leader, p.launcher) {
		errs = append(errs, l.manager.AddHealthzCheck(name, check))
	}
	return errors.Join(errs...)
}

// readiness returns the checks of /readyz: whether the caches are filled, the socket is served, and the scheduler in the same Pod is of a
// release that goes together with this one.
func readiness(c cache.Informers, socket string, peer *server.Peer) map[string]healthz.Checker {
	return map[string]healthz.Checker{"caches": filled(c), "socket": accepts(socket), "scheduler": peer.Ready}
}

// liveness returns the checks of /healthz: whether the essential loops make progress. None checks the API server or AWS: a restart fixes neither.
func liveness(leader *leadership.Leadership, launcher *launch.Launcher) map[string]healthz.Checker {
	return map[string]healthz.Checker{"leadership": leader.Alive, "launch": launcher.Alive}
}

// filled returns a checker that fails while the caches are not filled.
func filled(c cache.Informers) healthz.Checker {
	return func(r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), probeTimeout)
		defer cancel()
		if !c.WaitForCacheSync(ctx) {
			return errors.New("the caches are not filled yet")
		}
		return nil
	}
}

// accepts returns a checker that fails while the scheduler's socket is not served.
func accepts(socket string) healthz.Checker {
	return func(r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), probeTimeout)
		defer cancel()
		connection, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
		if err != nil {
			return fmt.Errorf("connecting to the socket: %w", err)
		}
		return connection.Close()
	}
}
