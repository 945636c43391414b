package main

import (
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/component-base/logs"
	"k8s.io/klog/v2"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"slipway-launcher": main})
}

// TestScripts runs the scripts of testdata: what a user sees of flags, file, environment and mistakes.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata", Setup: func(env *testscript.Env) error {
		for _, name := range []string{"CLUSTER_NAME", "CLUSTER_ENDPOINT", "CLUSTER_CA_BUNDLE", "INTERRUPTION_QUEUE", "KUBECONFIG", "KUBERNETES_SERVICE_HOST"} {
			env.Setenv(name, "")
		}
		return nil
	}})
}

// TestPrecedence: defaults, file, environment, flags; the later one wins.
func TestPrecedence(t *testing.T) {
	file := t.TempDir() + "/launcher.yaml"
	text := "clusterName: file\nclusterEndpoint: https://file\ninterruptionQueue: file\nbindAt: ready\nmetricsAddress: ':1'\nkubeClientQPS: 5\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CLUSTER_NAME", "env")
	t.Setenv("CLUSTER_ENDPOINT", "https://env")
	t.Setenv("CLUSTER_CA_BUNDLE", "")
	t.Setenv("INTERRUPTION_QUEUE", "")
	cmd, f := command()
	if err := cmd.ParseFlags([]string{"--config", file, "--cluster-name", "flag", "--bind-at", "never", "--join-deadline", "1m", "--kube-client-burst", "7"}); err != nil {
		t.Fatal(err)
	}
	got, err := f.effective(cmd)
	if err != nil {
		t.Fatal(err)
	}
	for what, pair := range map[string][2]any{
		"flag over all":         {got.ClusterName, "flag"},
		"environment over file": {got.ClusterEndpoint, "https://env"},
		"file over default":     {got.InterruptionQueue, "file"},
		"bindAt":                {string(got.BindAt), "never"},
		"join deadline":         {got.JoinDeadline.Duration.String(), "1m0s"},
		"empty join deadline":   {got.EmptyJoinDeadline.Duration.String(), "15m0s"},
		"metrics address":       {got.MetricsAddress, ":1"},
		"health probe address":  {got.HealthProbeAddress, ":8081"},
		"QPS":                   {got.KubeClientQPS, 5},
		"burst":                 {got.KubeClientBurst, 7},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: %v, want %v", what, pair[0], pair[1])
		}
	}
}

// A line of the log has what its context says of it: the NodeClaim that a controller reconciles, or the nodes of a move. cli.Run initializes logs first.
func TestLogHasTheValuesOfItsContext(t *testing.T) {
	logs.InitLogs()
	file := t.TempDir() + "/log"
	_, f := command()
	if err := f.log(file); err != nil {
		t.Fatal(err)
	}
	ctx := klog.NewContext(t.Context(), klog.Background().WithValues("nodeClaim", "default-a"))
	klog.FromContext(ctx).Info("registered nodeclaim")
	klog.Flush()
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "registered nodeclaim") || !strings.Contains(string(text), "default-a") {
		t.Errorf("the log is %q, %v", text, err)
	}
}
