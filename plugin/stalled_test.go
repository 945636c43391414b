package plugin_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/slipway-k8s/slipway/launcher/api"
)

// stalled is a node that was launched for pod a of node going, which has not gone, and that is Ready and not initialized.
func stalled(t *testing.T, phase api.Phase, drifted bool) *harness {
	t.Helper()
	agent := corev1.Taint{Key: "example.com/agent", Effect: corev1.TaintEffectNoSchedule}
	h := start(t, harnessOptions{
		objects: []runtime.Object{newNode("going", "4", nil), ownedNode("stalled", "1930m", "default-old", agent), replicaSet("web", 1)},
		prepare: func(l *testLauncher) {
			l.inFlight["default-old"] = &api.InFlightNode{
				NodeClaim: "default-old", NodeName: "stalled", NodePool: "default", Phase: phase, Outdated: drifted, Replaces: []string{"going"},
				Labels: map[string]string{"karpenter.sh/nodepool": "default"}, Allocatable: map[string]string{"cpu": "1930m", "memory": "7Gi", "pods": "58"},
				Pods: []*api.PodRef{{Namespace: "default", Name: "a", Uid: "uid-a"}},
			}
		},
	})
	h.on("going", "a")
	h.known("going", 1)
	return h
}

// A node that was launched for a move, and is never initialized, is no room for the next move once it has drifted: that would wait for it, and be called
// off as the one before.
func TestMovesDoNotWaitForAStalledNode(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		phase   api.Phase
		drifted bool
		again   bool
	}{
		"its template is the present one": {api.Phase_PHASE_READY, false, true},
		"it boots":                        {api.Phase_PHASE_REGISTERED, true, true},
		"it has drifted":                  {api.Phase_PHASE_READY, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := stalled(t, c.phase, c.drifted)
			for i, answer := range []*api.MakeRoomAnswer{
				h.move("1", &api.MakeRoom{NodeNames: []string{"going"}, Pods: []string{"uid-a"}}),
				h.move("2", &api.MakeRoom{NodeNames: []string{"going"}, Pods: []string{"uid-a"}}),
			} {
				names := answer.GetNodeClaims()
				if len(names) != 1 || answer.GetNoRoom() != "" || (names[0] == "default-old") != c.again {
					t.Errorf("answer %d: %v", i+1, answer)
				}
			}
			if n := len(h.launcher.claims()); n != map[bool]int{true: 0, false: 1}[c.again] {
				t.Errorf("%d nodes were launched", n)
			}
		})
	}
}
