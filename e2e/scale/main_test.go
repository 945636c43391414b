package scale_test

import (
	"flag"
	"os"
	"runtime/debug"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

func TestMain(m *testing.M) {
	flag.Int("scale.nodes", 50, "nodes to launch")
	flag.Int("scale.pods", 500, "pods that run on them")
	flag.Int("scale.wave", 5000, "scale out by so many pods at once, and by the next when these run")
	flag.Int("scale.drift", 2, "how many tenths of the nodes drift: a tenth of these at once")
	flag.Float64("scale.speed", 1, "divide the delays of AWS and of machines by this")
	flag.Duration("scale.rest", time.Minute, "how long to measure with nothing to do")
	flag.Duration("scale.settle", 5*time.Minute, "consolidation has ended when the nodes have been the same for so long")
	flag.Duration("scale.patience", 2*time.Hour, "how long one stage may take")
	flag.String("scale.until", "", "the last stage to run: scale-out, rest, drift, consolidation or scale-in; empty for all")
	flag.String("scale.log", "", "the path of a new file for kube-apiserver's audit log; empty for one that is removed")
	flag.String("scale.profiles", "", "the folder for profiles of both processes; empty for none")
	flag.Parse()
	// This process has the control plane, AWS and the machines, which share the CPUs with slipway: they collect garbage less often as long as there is memory.
	debug.SetGCPercent(300)
	debug.SetMemoryLimit(14 << 30)
	// What the recorder's informers have to say would be between the figures.
	log.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// argument reads a flag.
func argument[T any](name string) T {
	value := flag.Lookup("scale." + name).Value
	return value.(flag.Getter).Get().(T)
}
