package reclaim_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/slipway-k8s/slipway/launcher/budget"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/leadership/leadershiptest"
	"github.com/slipway-k8s/slipway/launcher/reclaim"
	"github.com/slipway-k8s/slipway/launcher/terminate"
	"github.com/slipway-k8s/slipway/launcher/voluntary"
)

// shared is what all deciders share.
func shared(t *testing.T, cache client.Reader) (*budget.Ledger, *voluntary.Metrics) {
	t.Helper()
	ledger, err := budget.New(voluntary.Observe(cache, index.ListClaims(cache), index.ListNodes(cache)))
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := voluntary.NewMetrics(prometheus.NewRegistry(), ledger, func() bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	return ledger, metrics
}

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
	ledger, counted := shared(t, mgr.GetClient())
	subject, err := reclaim.New(reclaim.Config{
		Client: mgr.GetClient(), Pods: index.ListPods(mgr.GetClient()), Reader: mgr.GetAPIReader(), Guard: leadershiptest.Always{}, Asker: &flow{}, Ender: &terminate.Terminator{}, Events: record.NewFakeRecorder(1), Ledger: ledger, Metrics: counted,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := subject.SetupWithManager(mgr); err != nil {
		t.Fatal(err)
	}
}

func TestNewNeedsItsDependencies(t *testing.T) {
	if _, err := reclaim.New(reclaim.Config{}); err == nil {
		t.Error("no error without any dependency")
	}
}
