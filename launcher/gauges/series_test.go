package gauges_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/gauges"
)

// gathering is a registry with a Collector of so many nodes of one kind, with ten pods each.
func gathering(tb testing.TB, nodes int) *prometheus.Registry {
	tb.Helper()
	c := contents{}
	owner := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web"}
	for i := range nodes {
		node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", i), Labels: map[string]string{
			karpv1.NodePoolLabelKey: "default", corev1.LabelInstanceTypeStable: "m6i.large", corev1.LabelTopologyZone: "us-east-1a",
		}}}
		node.Status.Capacity, node.Status.Allocatable = list("4"), list("3")
		for _, kind := range []corev1.NodeConditionType{corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
			node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: kind, Status: corev1.ConditionTrue, Reason: "KubeletReady"})
		}
		c.nodes = append(c.nodes, node)
		for j := range 10 {
			c.pods = append(c.pods, *pod(fmt.Sprint("web-", i, "-", j), node.Name, "100m", owner))
		}
	}
	collector, err := gauges.New(cluster(c))
	if err != nil {
		tb.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	if err := registry.Register(collector); err != nil {
		tb.Fatal(err)
	}
	return registry
}

// Series with the same value of a label share the pair: those of one scrape are in memory together.
func TestSeriesShareLabelPairs(t *testing.T) {
	families, err := gathering(t, 3).Gather()
	if err != nil {
		t.Fatal(err)
	}
	type pair struct{ name, value string }
	of := map[pair]*dto.LabelPair{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				key := pair{l.GetName(), l.GetValue()}
				if of[key] == nil {
					of[key] = l
				}
				if of[key] != l {
					t.Fatalf("%s has a pair %v of its own", f.GetName(), key)
				}
			}
		}
	}
	if len(of) == 0 {
		t.Error("no labels")
	}
}

// BenchmarkScrape is one answer to Prometheus about 1,000 nodes and 10,000 pods.
func BenchmarkScrape(b *testing.B) {
	handler := promhttp.HandlerFor(gathering(b, 1000), promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError})
	b.ReportAllocs()
	for b.Loop() {
		handler.ServeHTTP(discard{httptest.NewRecorder()}, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	}
}

// discard is a client that keeps nothing.
type discard struct{ http.ResponseWriter }

// Write implements io.Writer.
func (discard) Write(p []byte) (int, error) { return io.Discard.Write(p) }
