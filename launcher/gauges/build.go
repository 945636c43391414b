package gauges

import (
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
)

// Build returns karpenter_build_info: 1, with the build as labels. Each replica reports its own.
func Build(version string) prometheus.Collector {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "karpenter_build_info", Help: "1, labelled with what was built: slipway's version and commit, by which Go, for what.",
	}, []string{"version", "goversion", "goarch", "commit"})
	g.WithLabelValues(version, runtime.Version(), runtime.GOARCH, commit()).Set(1)
	return g
}

// commit returns the commit that the go command recorded in the binary.
func commit() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return ""
}
