package e2e_test

import "testing"

// A cluster without any node calls no PostFilter plugin; its pods are served all the same. It is the first test of the
// binary, by its file's name, since the sandbox starts without a node; the others get the small managed node that EKS has.
func TestZeroNodesAlone(t *testing.T) {
	if n := len(shared.recorder.Nodes()); n != 0 {
		t.Fatalf("the cluster has %d nodes already: this test must be the first", n)
	}
	w := newWorld(t, "zero-nodes")
	w.pool("zero-nodes", nil)
	w.deployment("web", 3, w.podSpec("500m", "512Mi", nil))
	w.awaitRunning(3)
	if err := shared.AddManagedNode(t.Context()); err != nil {
		t.Fatal(err)
	}
}
