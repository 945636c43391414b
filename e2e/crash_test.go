package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/observe"
)

func keyOf(name string) client.ObjectKey { return client.ObjectKey{Name: name} }

// The launcher dies between CreateFleet and the Node object: the instance it launched is found again and used, and no second
// one is bought. On a busy machine the Node may be there first: then another launch is awaited.
func TestKillLauncherAlone(t *testing.T) {
	const pool, most = "kill-launcher", 3
	w := newWorld(t, pool)
	w.pool(pool, func(p *karpv1.NodePool) { onlyTypes(p, "m6i.2xlarge") })
	for try := 1; ; try++ {
		before := w.nodesNow(pool)
		w.killAtLaunch(func() { w.deployment(fmt.Sprintf("web-%d", try), 4, w.podSpec("1500m", "1Gi", nil)) })
		late := w.nodesNow(pool) > before
		w.awaitRunning(4 * try)
		checkOneInstanceEach(t, w, pool)
		if !late {
			return
		}
		if try == most {
			t.Fatalf("the Node was there already in all of %d launches at which the launcher was killed", most)
		}
	}
}

// killAtLaunch kills the launcher when the CreateFleet call of what cause creates arrives.
func (w *world) killAtLaunch(cause func()) {
	w.t.Helper()
	killed := make(chan error, 1)
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	before := len(shared.FleetCalls())
	go func() {
		for len(shared.FleetCalls()) == before && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		killed <- shared.Kill("launcher")
	}()
	cause()
	if err := <-killed; err != nil {
		w.t.Fatal(err)
	}
}

func nodesOf(w *world, pool string) int {
	n := 0
	for _, node := range w.recorder.Nodes() {
		if node.Object.Labels[karpv1.NodePoolLabelKey] == pool {
			n++
		}
	}
	return n
}

// nodesNow counts the Nodes of a NodePool that the API server has: a watch may be late.
func (w *world) nodesNow(pool string) int {
	w.t.Helper()
	var nodes corev1.NodeList
	err := persist(w.t.Context(), func() error {
		return w.client.List(w.t.Context(), &nodes, client.MatchingLabels{karpv1.NodePoolLabelKey: pool})
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return len(nodes.Items)
}

// checkOneInstanceEach compares EC2 with the NodeClaims: as many live instances as claims, each owned.
func checkOneInstanceEach(t *testing.T, w *world, pool string) {
	t.Helper()
	owned := map[string]bool{}
	for _, c := range w.claimsOf(pool) {
		owned[instanceID(c)] = true
	}
	launched := 0
	shared.await(t, "instances without an owner to be gone", func() bool {
		launched = 0
		for _, i := range shared.AWS().Instances() {
			if i.Tags[karpv1.NodePoolLabelKey] != pool {
				continue
			}
			launched++
			if !owned[i.ID] && (i.State == "running" || i.State == "pending") {
				return false
			}
		}
		return true
	})
	if launched != len(owned) {
		t.Errorf("%d instances were launched for %d NodeClaims", launched, len(owned))
	}
}

// The scheduler dies while pods come in: those that are promised stay so, and run where they were promised to; the others are planned by its successor.
func TestKillSchedulerAlone(t *testing.T) {
	const pool = "kill-scheduler"
	w := newWorld(t, pool)
	w.pool(pool, nil)
	boot := w.hold(pool)
	w.deployment("first", 8, w.podSpec("500m", "1Gi", nil))
	w.awaitPromised(pool, 8)
	before := w.promises(pool)
	if len(before) != 8 {
		t.Fatalf("%d pods are promised nodes that do not boot, want 8", len(before))
	}
	w.kill("scheduler")
	w.deployment("second", 8, w.podSpec("500m", "1Gi", nil))
	boot()
	w.awaitRunning(16)
	checkOneInstanceEach(t, w, pool)
	after, nodes := w.promises(pool), map[string]string{}
	for _, c := range w.claimsOf(pool) {
		nodes[c.Object.Name] = c.Object.Status.NodeName
	}
	for uid, claim := range before {
		if after[uid] != claim {
			t.Errorf("pod %s was promised to %s before the scheduler died, and is to %q", uid, claim, after[uid])
		}
		if on := w.history(types.UID(uid)).Object.Spec.NodeName; on == "" || on != nodes[claim] {
			t.Errorf("pod %s, promised to %s with the node %q, is on node %q", uid, claim, nodes[claim], on)
		}
	}
}

// promises returns the NodeClaims of a NodePool by the UIDs of the pods that are promised to them. It fails the test where a pod is promised to two.
func (w *world) promises(pool string) map[string]string {
	w.t.Helper()
	out := map[string]string{}
	for _, c := range w.claimsOf(pool) {
		for _, uid := range observe.PromisedTo(c) {
			if other, twice := out[uid]; twice {
				w.t.Errorf("pod %s is promised to %s and to %s", uid, other, c.Object.Name)
			}
			out[uid] = c.Object.Name
		}
	}
	return out
}

// The aws command line speaks to the same AWS, where it is installed; the SDK does in every other test.
func TestCommandLineOfAWSAlone(t *testing.T) {
	const aws = "/usr/bin/aws"
	cmd := exec.CommandContext(t.Context(), aws, "--endpoint-url", shared.AWS().URL(), "ec2", "describe-instances", "--output", "json", "--no-cli-pager")
	cmd.Env = shared.AWSEnviron()
	out, err := cmd.CombinedOutput()
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("%s is not installed", aws)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var answer struct {
		Reservations []struct{ Instances []struct{ InstanceID string } }
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	seen := 0
	for _, r := range answer.Reservations {
		seen += len(r.Instances)
	}
	if alive := len(shared.AWS().Instances()); seen == 0 || seen > alive {
		t.Errorf("the command line lists %d instances, AWS has %d", seen, alive)
	}
	if !strings.Contains(string(out), "InstanceType") {
		t.Errorf("no instance type in %s", out)
	}
}
