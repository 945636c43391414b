package nodeclass_test

import (
	"testing"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/slipway-k8s/slipway/launcher/cloud/memory"
	"github.com/slipway-k8s/slipway/launcher/leadership/leadershiptest"
	"github.com/slipway-k8s/slipway/launcher/nodeclass"
)

// What the manager is given, it takes: watched kinds, names, options. What it makes of them is tested end to end.
func TestSetupWithManager(t *testing.T) {
	mgr, err := manager.New(&rest.Config{Host: "http://127.0.0.1:1"}, manager.Options{
		Scheme: scheme.Scheme, Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
	})
	if err != nil {
		t.Fatal(err)
	}
	subject, err := nodeclass.New(nodeclass.Config{Client: mgr.GetClient(), Cloud: memory.New(memory.Config{}), Guard: leadershiptest.Always{}, Events: record.NewFakeRecorder(1)})
	if err != nil {
		t.Fatal(err)
	}
	if err := subject.SetupWithManager(mgr); err != nil {
		t.Fatal(err)
	}
}

func TestNewNeedsItsDependencies(t *testing.T) {
	if _, err := nodeclass.New(nodeclass.Config{}); err == nil {
		t.Error("no error without any dependency")
	}
}
