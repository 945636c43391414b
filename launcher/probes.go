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
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// probeTimeout bounds the answer to one probe. The manifests allow 15 seconds.
const probeTimeout = 2 * time.Second

// probes has /healthz say whether the loops that everything waits for come round, each by its name, and /readyz whether there is
// something to serve and it is served. /healthz says nothing of the API server or of AWS: a restart mends neither.
func probes(mgr manager.Manager, socket string, loops map[string]healthz.Checker) error {
	errs := []error{
		mgr.AddReadyzCheck("caches", filled(mgr.GetCache())),
		mgr.AddReadyzCheck("socket", accepts(socket)),
	}
	for name, alive := range loops {
		errs = append(errs, mgr.AddHealthzCheck(name, alive))
	}
	return errors.Join(errs...)
}

// filled fails while the caches do not have all that was listed.
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

// accepts fails while nothing listens on the socket that the scheduler connects to.
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
