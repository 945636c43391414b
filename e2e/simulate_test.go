package e2e_test

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/testbed"
)

// TestSimulateFromClusterAlone asks what would be launched for a pod that no scheduler looks at: the objects come from the
// cluster, the EC2NodeClass with the zones of its subnets.
func TestSimulateFromClusterAlone(t *testing.T) {
	w := newWorld(t, "simulate")
	w.pool("simulate", nil)
	spec := w.podSpec("1", "1Gi", func(s *corev1.PodSpec) { s.SchedulerName = "nobody" })
	w.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "waits"}, Spec: spec})

	w.await(t, "the NodePool to be ready", func() bool {
		pool := &karpv1.NodePool{}
		return w.client.Get(t.Context(), keyOf(w.name), pool) == nil && pool.StatusConditions().Root().IsTrue()
	})
	if text := w.slipway("simulate", "--from-cluster", "-o", "json"); !planned(t, text, w.name+"/waits", w.AWSRegion()) {
		t.Fatalf("no node of NodePool simulate for the pod in:\n%s", text)
	}
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": shared.AWSEndpoint(), "AWS_REGION": w.AWSRegion(), "AWS_ACCESS_KEY_ID": "somebody", "AWS_SECRET_ACCESS_KEY": "secret",
	} {
		t.Setenv(name, value)
	}
	if text := w.slipway("simulate", "--from-cluster", "--aws", "-o", "json"); !planned(t, text, w.name+"/waits", w.AWSRegion()) || !strings.Contains(text, `"spot"`) {
		t.Errorf("with EC2's prices, want a spot node for the pod in:\n%s", text)
	}
	told := w.slipway("explain", "pod", w.name+"/waits")
	for _, want := range []string{"Pod simulate/waits: pending", "If it were planned now", "on a new node, simulate-1", "NodePool simulate"} {
		if !strings.Contains(told, want) {
			t.Errorf("explain: %q is missing in:\n%s", want, told)
		}
	}
}

// planned says whether the answer has a node of the test's NodePool with the pod on it. Pools and pods of other tests may
// come and go meanwhile.
func planned(t *testing.T, text, pod, region string) bool {
	t.Helper()
	var answer struct {
		Nodes []struct {
			NodePool, Zone string
			Price          float64
			Pods           []string
		}
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	for _, n := range answer.Nodes {
		if slices.Contains(n.Pods, pod) {
			return n.NodePool == "simulate" && n.Price > 0 && strings.HasPrefix(n.Zone, region)
		}
	}
	return false
}

// slipway runs the user's command line against the cluster.
func (w *world) slipway(args ...string) string {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), filepath.Join(testbed.BinDir(".."), "slipway"), append([]string{"--kubeconfig", w.KubeconfigPath()}, args...)...)
	out, err := cmd.Output()
	if err != nil {
		w.t.Fatalf("slipway %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}
