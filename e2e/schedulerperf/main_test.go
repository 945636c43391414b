package schedulerperf_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	_ "k8s.io/component-base/logs/json/register" // JSON log format
	perf "k8s.io/kubernetes/test/integration/scheduler_perf"
)

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "etcd" {
		if err := etcd(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	flag.String("schedulerperf.cases", "", "regular expression of the names of cases")
	flag.String("schedulerperf.workloads", "", "regular expression of the names of workloads")
	flag.Int("schedulerperf.rounds", 1, "how often both sides run each workload")
	flag.Bool("schedulerperf.batching", false, "switch the gate OpportunisticBatching on, on both sides")
	flag.String("schedulerperf.out", "", "the folder for logs, figures and profiles; empty for a temporary one")
	flag.Bool("schedulerperf.profile", false, "write a CPU profile of each run into the folder")
	// What the comparison gives the process of one run.
	flag.String("schedulerperf.config", "", "the configuration of one workload")
	flag.String("schedulerperf.side", "", "the side that runs it")
	flag.String("schedulerperf.report", "", "the file for what the side counted")
	if err := perf.InitTests(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// argument reads a flag.
func argument[T any](name string) T {
	value := flag.Lookup("schedulerperf." + name).Value
	return value.(flag.Getter).Get().(T)
}
