package nodepool_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/leadership/leadershiptest"
	"github.com/slipway-k8s/slipway/launcher/nodepool"
)

// What the manager is given, it takes: watched kinds, names, options. What it makes of them is tested end to end.
func TestSetupWithManager(t *testing.T) {
	mgr, err := manager.New(&rest.Config{Host: "http://127.0.0.1:1"}, manager.Options{
		Scheme: scheme.Scheme, Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
	})
	if err != nil {
		t.Fatal(err)
	}
	subject, err := nodepool.New(nodepool.Config{Client: mgr.GetClient(), Claims: index.ListClaims(mgr.GetClient()), Offers: offers{instanceType("m5.large", "amd64", "us-east-1a", "spot")}, Events: &record.FakeRecorder{}, Guard: leadershiptest.Always{}, Leading: leading, Registerer: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	if err := subject.SetupWithManager(mgr); err != nil {
		t.Fatal(err)
	}
}

func TestNewNeedsItsDependencies(t *testing.T) {
	if _, err := nodepool.New(nodepool.Config{}); err == nil {
		t.Error("no error without any dependency")
	}
}
