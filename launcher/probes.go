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

// probes adds the checks of /healthz and /readyz. /healthz reports whether the essential loops make progress, each by its name; /readyz
// whether the caches are filled and the socket is served. /healthz does not check the API server or AWS: a restart fixes neither.
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
