package launcher_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/slipway-k8s/slipway/launcher"
)

func TestMain(m *testing.M) {
	flag.Bool("rewrite", false, "write the table of docs/metrics.md anew")
	goleak.VerifyTestMain(m)
}

func load(t *testing.T, text string) (launcher.Settings, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "launcher.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := launcher.Defaults()
	return s, s.Load(path)
}

func TestLoad(t *testing.T) {
	s, err := load(t, "clusterName: prod\njoinDeadline: 7m\nbindAt: never\nkubeClientQPS: 50\n")
	if err != nil {
		t.Fatal(err)
	}
	if s.ClusterName != "prod" || s.JoinDeadline.Duration != 7*time.Minute || s.BindAt != "never" || s.KubeClientQPS != 50 {
		t.Errorf("settings %+v", s)
	}
	if s.Socket != "/run/slipway/launcher.sock" || s.EmptyJoinDeadline.Duration != 15*time.Minute {
		t.Errorf("what the file does not name is changed: %+v", s)
	}
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
	if s, err := load(t, ""); err != nil || s != launcher.Defaults() {
		t.Errorf("an empty file: %v, %+v", err, s)
	}
}

// A field that is misspelled or cannot be read is named, and so is the file.
func TestLoadMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"clusterNam: prod":      `unknown field "clusterNam"`,
		"clusterName: [":        "launcher.yaml: ",
		"joinDeadline: a while": "a while",
		"kubeClientQPS: many":   "kubeClientQPS",
	} {
		if _, err := load(t, text); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "launcher.yaml") {
			t.Errorf("%q: error %v, want %q and the file", text, err, want)
		}
	}
	s := launcher.Defaults()
	if err := s.Load(filepath.Join(t.TempDir(), "missing")); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("error %v", err)
	}
}

func TestFromEnvironment(t *testing.T) {
	s := launcher.Defaults()
	s.ClusterName, s.ClusterEndpoint, s.BindAt = "file", "https://file", "never"
	err := s.FromEnvironment(func(name string) string {
		return map[string]string{
			"CLUSTER_NAME": "env", "CLUSTER_ENDPOINT": "https://env", "INTERRUPTION_QUEUE": "queue", "CLUSTER_CA_BUNDLE": "ca", "ISOLATED_VPC": "true", "RESERVED_ENIS": "1", "ENABLE_ZONAL_SHIFT": "true",
			"IGNORE_DRA_REQUESTS": "false", "LOG_OUTPUT_PATHS": "stdout,/tmp/log", "ENABLE_PROFILING": "true", "MEMORY_LIMIT": "1073741824",
			"FEATURE_GATES": "NodeRepair=true", "VM_MEMORY_OVERHEAD_PERCENT": "0.05", "AMI_REFRESH_INTERVAL": "5m", "SUBNET_REFRESH_INTERVAL": "2m",
		}[name]
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(s.IsolatedVPC, s.EnableZonalShift, s.ReservedENIs, s.VMMemoryOverheadPercent, s.AMIRefreshInterval.Duration, s.SubnetRefreshInterval.Duration, s.IgnoreDRARequests,
		s.EnableProfiling, s.MemoryLimit, " ", s.LogOutputPaths),
		"true true 1 0.05 5m0s 2m0s false true 1073741824 stdout,/tmp/log"; got != want {
		t.Errorf("settings %s, want %s", got, want)
	}
	if gates, err := launcher.ParseGates(s.FeatureGates); err != nil || !gates.NodeRepair || gates.SpotToSpotConsolidation {
		t.Errorf("gates %+v of %q, %v", gates, s.FeatureGates, err)
	}
	if got, want := strings.Join([]string{s.ClusterName, s.ClusterEndpoint, string(s.BindAt), s.InterruptionQueue, s.ClusterCABundle}, " "), "env https://env never queue ca"; got != want {
		t.Errorf("settings %s, want %s", got, want)
	}
}

// Every field that is wrong is named, all at once.
func TestValidate(t *testing.T) {
	s := launcher.Defaults()
	s.Socket, s.BindAt, s.JoinDeadline.Duration, s.EmptyJoinDeadline.Duration, s.KubeClientQPS, s.HandoverSelector = "", "soon", 0, -1, 0, "a in"
	s.MemoryLimit, s.LogOutputPaths = -1, "stdout,"
	err := s.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	for _, field := range []string{"socket:", "clusterName:", `bindAt: "soon"`, "joinDeadline: 0s", "emptyJoinDeadline: -1ns", "kubeClientQPS: 0", "handoverSelector:", "memoryLimit: -1", `logOutputPaths: "stdout,"`} {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("%q is not in %q", field, err)
		}
	}
	for _, share := range []float64{-1, 0, 1.01} {
		s = launcher.Defaults()
		s.ClusterName, s.CommitmentShare, s.BillNamespace = "prod", share, "Not a name"
		err := s.Validate()
		if err == nil || !strings.Contains(err.Error(), "commitmentShare: a share above 0, at most 1, is expected, got ") || !strings.Contains(err.Error(), `billNamespace: "Not a name"`) {
			t.Errorf("share %v: error %v", share, err)
		}
	}
	s = launcher.Defaults()
	s.ClusterName, s.KubeClientBurst = "prod", 10
	if err := s.Validate(); err == nil || !strings.Contains(err.Error(), "kubeClientBurst: 10 is below kubeClientQPS 1000") {
		t.Errorf("error %v", err)
	}
}

// Karpenter's gates are accepted, with or without an effect here; others, and invalid values, are named.
func TestParseGates(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "NodeRepair=true, SpotToSpotConsolidation=false,": "", "ReservedCapacity=true,nodeClassCEL=false": "",
		"NodeRepair": `"NodeRepair" is not of the form`, "NodeRepair=maybe": `"NodeRepair=maybe" is not`, "NodeRepairs=true": `"NodeRepairs" is not one of`,
	} {
		_, err := launcher.ParseGates(text)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
	gates, err := launcher.ParseGates("StaticCapacity=true,NodeRepair=false,NodeOverlay=true")
	if want := (launcher.Gates{StaticCapacity: true, NodeOverlay: true}); err != nil || gates != want {
		t.Errorf("gates %+v and error %v, want %+v", gates, err, want)
	}
	gates, err = launcher.ParseGates("CapacityBuffer=true")
	if want := (launcher.Gates{CapacityBuffer: true}); err != nil || gates != want {
		t.Errorf("gates %+v and error %v, want %+v", gates, err, want)
	}
	gates, err = launcher.ParseGates("ReservedCapacity=false")
	if want := (launcher.Gates{OpenReservations: true}); err != nil || gates != want {
		t.Errorf("gates %+v and error %v, want %+v", gates, err, want)
	}
	s := launcher.Defaults()
	s.ClusterName, s.FeatureGates, s.ExpiryWindow.Duration = "prod", "Nodes=true", -time.Hour
	if err := s.Validate(); err == nil || !strings.Contains(err.Error(), "featureGates:") || !strings.Contains(err.Error(), "expiryWindow:") {
		t.Errorf("error %v", err)
	}
}

// A value that cannot be read is named with its variable.
func TestFromEnvironmentMistakes(t *testing.T) {
	for _, name := range []string{"ISOLATED_VPC", "RESERVED_ENIS", "IGNORE_DRA_REQUESTS", "ENABLE_PROFILING", "MEMORY_LIMIT", "VM_MEMORY_OVERHEAD_PERCENT", "AMI_REFRESH_INTERVAL", "SUBNET_REFRESH_INTERVAL"} {
		s := launcher.Defaults()
		err := s.FromEnvironment(func(of string) string { return map[string]string{name: "much"}[of] })
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
