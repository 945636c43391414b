package launcher

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/slipway-k8s/slipway/internal/described"
	"github.com/slipway-k8s/slipway/launcher/aws"
	"github.com/slipway-k8s/slipway/launcher/cloud/memory"
	"github.com/slipway-k8s/slipway/launcher/leadership"
)

// All connections to the API server have the limits of the settings, the API's too: client-go's own limit is 5 requests a second.
func TestRequestLimits(t *testing.T) {
	settings := Defaults()
	settings.ClusterName, settings.MetricsAddress, settings.HealthProbeAddress = "cluster", "0", "0"
	given := &rest.Config{Host: "http://127.0.0.1:1"}
	l, err := assemble(Config{Settings: settings, Kubernetes: given, Cloud: memory.New(memory.Config{}), Gate: &leadership.Gate{}}, &described.Registerer{})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]*rest.Config{"the manager": l.manager.GetConfig(), "others": l.config.Kubernetes} {
		if c.QPS != float32(settings.KubeClientQPS) || c.Burst != settings.KubeClientBurst {
			t.Errorf("%s: %v requests a second, %d at once", name, c.QPS, c.Burst)
		}
	}
	if given.QPS != 0 {
		t.Error("the caller's settings were changed")
	}
}

const metricsPage = "../docs/metrics.md"

// docs/metrics.md lists what the launcher registers, whole and by its right name, with its labels.
func TestMetricsAreDocumented(t *testing.T) {
	registered := &described.Registerer{}
	settings := Defaults()
	settings.ClusterName, settings.MetricsAddress, settings.HealthProbeAddress = "cluster", "0", "0"
	l, err := assemble(Config{
		Settings: settings, Kubernetes: &rest.Config{Host: "http://127.0.0.1:1"}, Cloud: memory.New(memory.Config{}), Gate: &leadership.Gate{},
	}, registered)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.wire(); err != nil {
		t.Fatal(err)
	}
	_, err = aws.New(aws.Config{AWS: awssdk.Config{Region: "us-east-1"}, ClusterName: "cluster", Metrics: registered})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := aws.WithMetrics(awssdk.Config{}, registered); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(metricsPage)
	if err != nil {
		t.Fatal(err)
	}
	want, got := registered.Rows(), described.Section(string(page), "## The launcher")
	if flag.Lookup("rewrite").Value.String() == "true" {
		text := string(page)
		for _, row := range got[1:] {
			text = strings.Replace(text, row+"\n", "", 1)
		}
		text = strings.Replace(text, got[0]+"\n", strings.Join(want, "\n")+"\n", 1)
		if err := os.WriteFile(metricsPage, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !slices.Equal(want, got) {
		t.Errorf("docs/metrics.md, which `go test ./launcher -run Documented -args -rewrite` writes anew (-want +got):\n%s", cmp.Diff(want, got))
	}
}
