package launcher

import (
	"fmt"
	"net/http"
	"net/http/pprof"
	"os"
	"path/filepath"

	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// The files of MetricsCertDir: those of a Secret of type kubernetes.io/tls.
const certificateFile, keyFile = "tls.crt", "tls.key"

// MetricsServer returns how /metrics is served: with plain HTTP to every client, or with TLS to clients that the API server knows and lets
// get the URL /metrics. Profiles are served in the same way, under their own URL. A certificate that is named and missing is an error: the server would make one itself, which no client can verify.
func MetricsServer(s Settings) (server.Options, error) {
	out := server.Options{BindAddress: s.MetricsAddress, FilterProvider: inTurns(nil)}
	if s.EnableProfiling {
		out.ExtraHandlers = map[string]http.Handler{
			"/debug/pprof/": http.HandlerFunc(pprof.Index), "/debug/pprof/cmdline": http.HandlerFunc(pprof.Cmdline), "/debug/pprof/profile": http.HandlerFunc(pprof.Profile),
			"/debug/pprof/symbol": http.HandlerFunc(pprof.Symbol), "/debug/pprof/trace": http.HandlerFunc(pprof.Trace),
		}
	}
	if !s.MetricsAuthentication {
		return out, nil
	}
	out.SecureServing, out.FilterProvider = true, inTurns(filters.WithAuthenticationAndAuthorization)
	if s.MetricsCertDir == "" {
		return out, nil
	}
	out.CertDir, out.CertName, out.KeyName = s.MetricsCertDir, certificateFile, keyFile
	for _, name := range []string{certificateFile, keyFile} {
		if _, err := os.Stat(filepath.Join(s.MetricsCertDir, name)); err != nil {
			return out, fmt.Errorf("reading the certificate of metricsCertDir: %w", err)
		}
	}
	return out, nil
}
