package schedulerperf_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	perf "k8s.io/kubernetes/test/integration/scheduler_perf"
	"k8s.io/kubernetes/test/utils/ktesting"

	"github.com/slipway-k8s/slipway/e2e/schedulerperf/cases"
	"github.com/slipway-k8s/slipway/internal/announce"
	"github.com/slipway-k8s/slipway/manifests"
	"github.com/slipway-k8s/slipway/plugin"
)

// BenchmarkPerfScheduling runs one workload on one side, in a process of its own. Kubernetes' files of pods and nodes are found from the
// working directory.
func BenchmarkPerfScheduling(b *testing.B) {
	path := argument[string]("config")
	if path == "" {
		b.Skip("make scheduler-perf gives each process a workload")
	}
	s := &side{counted: counted{}}
	var registry frameworkruntime.Registry
	if argument[string]("side") == cases.Slipway {
		s.socket = serve(b)
		s.profile(b, path)
		registry = s.register(b)
	}
	perf.RunBenchmarkPerfScheduling(b, path, "slipway", registry, perf.WithNodeUpdateFn(s.begin))
	s.report(b)
}

// side is what one side needs beside Kubernetes' framework. All but the socket is slipway's alone.
type side struct {
	socket   string
	slipway  *plugin.Plugin
	handle   fwk.Handle
	metrics  *prometheus.Registry
	profiles []config.KubeSchedulerProfile

	began   bool
	counted counted
}

// counted is what a side reports beside Kubernetes' figures.
type counted struct {
	// Batched, Repeated, Hinted and Seconds are those of cases.Figures.
	Batched, Repeated, Hinted int64
	Seconds                   float64
}

// profile writes the profile that slipway ships beside the workload's configuration, which names its path.
func (s *side) profile(b *testing.B, path string) {
	b.Helper()
	text, err := manifests.SchedulerConfig("scheduler/replace.yaml", "", map[string]any{"socket": s.socket})
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(path+".profile", text, 0o600); err != nil {
		b.Fatal(err)
	}
	obj, _, err := scheme.Codecs.UniversalDecoder().Decode(text, nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	s.profiles = obj.(*config.KubeSchedulerConfiguration).Profiles
}

// register returns slipway's plugins.
func (s *side) register(b *testing.B) frameworkruntime.Registry {
	b.Helper()
	s.metrics = prometheus.NewRegistry()
	var err error
	if s.slipway, err = plugin.New(plugin.Options{Registerer: s.metrics}); err != nil {
		b.Fatal(err)
	}
	registry := s.slipway.Registry()
	registry[plugin.NodeLaunchName] = func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		s.handle = h
		return s.slipway.NodeLaunch(ctx, args, h)
	}
	return registry
}

// begin is called when the first nodes exist and no pod does. Kubernetes' framework builds and starts the scheduler in one function, so this
// is where slipway is installed: the scheduler waits for its first pod.
func (s *side) begin(tCtx ktesting.TContext, sched *scheduler.Scheduler, _ *perf.Workload, _ *corev1.NodeList) error {
	if s.began {
		return nil
	}
	s.began = true
	stop := func() {}
	if s.slipway != nil {
		var err error
		if stop, err = s.install(tCtx, sched); err != nil {
			return err
		}
	}
	batches := utilfeature.DefaultFeatureGate.Enabled(features.OpportunisticBatching)
	tCtx.TB().Cleanup(func() {
		defer stop()
		if !batches {
			return
		}
		for _, of := range sched.Profiles {
			if counts, ok := of.(interface{ TotalBatchedPods() int64 }); ok {
				s.counted.Batched += counts.TotalBatchedPods()
			}
		}
	})
	return nil
}

// install connects slipway with the scheduler and waits until it knows what can be launched, as a scheduler that has been running does.
func (s *side) install(tCtx ktesting.TContext, sched *scheduler.Scheduler) (stop func(), err error) {
	ctx, cancel := context.WithCancel(tCtx)
	announcer, err := announce.New(announce.Config{
		Sink: tCtx.Client().CoreV1().Events(""), Scheme: clientscheme.Scheme, Registerer: s.metrics,
	})
	if err != nil {
		cancel()
		return nil, err
	}
	informers := s.handle.SharedInformerFactory()
	if err := s.slipway.Install(ctx, plugin.Scheduler{
		Scheduler: sched, Profiles: s.profiles, Informers: informers, Client: tCtx.Client(), Recorder: announcer.Recorder("slipway"),
		Identity: "scheduler-perf", LeaseNamespace: "kube-system", LeaseName: "slipway-scheduler",
	}); err != nil {
		cancel()
		// The framework waits ten minutes for what may be left of it before it reports the error.
		fmt.Fprintln(os.Stderr, "installing slipway:", err)
		return nil, err
	}
	informers.Start(tCtx.Done())
	informers.WaitForCacheSync(tCtx.Done())
	var running sync.WaitGroup
	running.Go(func() { s.slipway.Run(ctx) })
	running.Go(func() { _ = announcer.Run(ctx) }) // It has no error to return.
	stop = func() {
		cancel()
		running.Wait()
	}
	for deadline := time.Now().Add(time.Minute); s.metric("slipway_launcher_connected") != 1; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			stop()
			return nil, errors.New("waiting for the launcher's catalog: a minute is over")
		}
	}
	return stop, nil
}

// metric returns the value of one of slipway's metrics that has no label.
func (s *side) metric(name string) float64 {
	families, err := s.metrics.Gather()
	if err != nil {
		return 0
	}
	for _, f := range families {
		if f.GetName() == name && len(f.GetMetric()) == 1 {
			return f.GetMetric()[0].GetGauge().GetValue() + f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	return 0
}

// report writes what was counted.
func (s *side) report(b *testing.B) {
	b.Helper()
	if s.metrics != nil {
		s.counted.Repeated, s.counted.Hinted = int64(s.metric("slipway_class_answers_total")), int64(s.metric("slipway_hinted_pods_total"))
	}
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	s.counted.Seconds = float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9
	text, err := json.Marshal(s.counted)
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(argument[string]("report"), text, 0o600); err != nil {
		b.Fatal(err)
	}
}
