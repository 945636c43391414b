package terminate_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/slipway-k8s/slipway/launcher/cloud/memory"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/leadership/leadershiptest"
	"github.com/slipway-k8s/slipway/launcher/terminate"
)

// What the manager is given, it takes: watched kinds, names, options. What it makes of them is tested end to end.
func TestSetupWithManager(t *testing.T) {
	mgr, err := manager.New(&rest.Config{Host: "http://127.0.0.1:1"}, manager.Options{
		Scheme: scheme.Scheme, Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		// Names are the process's: -count runs this more than once.
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	subject, err := terminate.New(terminate.Config{
		Client: mgr.GetClient(), Pods: index.SharedPods(mgr.GetCache()), Reader: mgr.GetAPIReader(), Cloud: memory.New(memory.Config{}), Asker: &world{}, Guard: leadershiptest.Always{}, Events: record.NewFakeRecorder(1), Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := subject.SetupWithManager(mgr); err != nil {
		t.Fatal(err)
	}
}

func TestNewNeedsItsDependencies(t *testing.T) {
	if _, err := terminate.New(terminate.Config{}); err == nil {
		t.Error("no error without any dependency")
	}
}

// outcomes prints how many drains began with which state of the room.
func (w *world) outcomes(metric string) {
	for _, m := range w.measured(metric) {
		if m.GetCounter().GetValue() > 0 {
			w.log("%s %g", m.GetLabel()[0].GetValue(), m.GetCounter().GetValue())
		}
	}
}

// ends prints how many instances have ended, and how long they took.
func (w *world) ends() {
	for _, m := range w.measured("karpenter_nodeclaims_instance_termination_duration_seconds") {
		w.log("ends %d, %.0fs", m.GetHistogram().GetSampleCount(), m.GetHistogram().GetSampleSum())
	}
}

// measured returns the Terminator's metrics of a name.
func (w *world) measured(name string) []*dto.Metric {
	families, err := w.metrics.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()
		}
	}
	return nil
}
