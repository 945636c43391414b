package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os/exec"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/observe"
)

func keyOf(name string) client.ObjectKey { return client.ObjectKey{Name: name} }

// The launcher dies between CreateFleet and the Node object: the instance it launched is found again and used, and no second
// one is bought.
func TestKillLauncherAlone(t *testing.T) {
	w := newWorld(t, "kill-launcher")
	w.pool("kill-launcher", func(p *karpv1.NodePool) { onlyTypes(p, "m6i.2xlarge") })
	killed := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	before := len(shared.FleetCalls())
	go func() {
		for len(shared.FleetCalls()) == before && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		killed <- shared.Kill("launcher")
	}()
	w.deployment("web", 4, w.podSpec("1", "1Gi", nil))
	if err := <-killed; err != nil {
		t.Fatal(err)
	}
	if n := nodesOf(w, "kill-launcher"); n != 0 {
		t.Logf("%d Nodes were there already when the launcher died", n)
	}
	w.awaitRunning(4)
	checkOneInstanceEach(t, w, "kill-launcher")
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

// The scheduler dies while pods come in: those that are promised stay so, the others are planned by its successor.
func TestKillSchedulerAlone(t *testing.T) {
	w := newWorld(t, "kill-scheduler")
	w.pool("kill-scheduler", nil)
	w.deployment("first", 8, w.podSpec("500m", "1Gi", nil))
	w.await(t, "the first pods to be collected", func() bool { return len(w.pods()) > 0 })
	w.kill("scheduler")
	w.deployment("second", 8, w.podSpec("500m", "1Gi", nil))
	w.awaitRunning(16)
	checkOneInstanceEach(t, w, "kill-scheduler")
	promised := map[string]string{}
	for _, c := range w.claimsOf("kill-scheduler") {
		for uid, claim := range promisesOf(c) {
			if other, twice := promised[uid]; twice {
				t.Errorf("pod %s is promised to %s and to %s", uid, other, claim)
			}
			promised[uid] = claim
		}
	}
}

// The aws command line speaks to the same AWS, where it is installed; the SDK does in every other test.
func TestCommandLineOfAWSAlone(t *testing.T) {
	const aws = "/usr/bin/aws"
	cmd := exec.CommandContext(t.Context(), aws, "--endpoint-url", shared.AWS().URL(), "ec2", "describe-instances", "--output", "json", "--no-cli-pager")
	cmd.Env = shared.AWSEnviron()
	out, err := cmd.CombinedOutput()
	if errors.Is(err, fs.ErrNotExist) {
		t.Logf("%s is not installed", aws)
		return
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

func promisesOf(c observe.Claim) map[string]string {
	out := map[string]string{}
	for _, uid := range observe.PromisedTo(c) {
		out[uid] = c.Object.Name
	}
	return out
}
