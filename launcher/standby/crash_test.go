package standby_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/cloud/memory"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// errCrash stands for the end of a process.
var errCrash = errors.New("crash")

// crash is the end of a process before or after its nth effect.
type crash struct {
	at    int
	after bool
	// effects is how many there were.
	effects int
}

// do makes an effect, or is the end of the process.
func (c *crash) do(effect func() error) error {
	c.effects++
	switch {
	case c.effects > c.at:
		return errCrash // The process is gone.
	case c.effects == c.at && !c.after:
		return errCrash
	}
	if err := effect(); err != nil || c.effects < c.at {
		return err
	}
	return errCrash
}

// crashing is an API server and an EC2 that a process writes to until it ends.
type crashing struct {
	client.Client
	*memory.Cloud
	crash *crash
}

// Patch writes an object.
func (c crashing) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	return c.crash.do(func() error { return c.Client.Patch(ctx, o, p, opts...) })
}

// Delete deletes an object.
func (c crashing) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	return c.crash.do(func() error { return c.Client.Delete(ctx, o, opts...) })
}

// Status writes the status of an object.
func (c crashing) Status() client.SubResourceWriter {
	return crashingStatus{c.Client.Status(), c.crash}
}

type crashingStatus struct {
	client.SubResourceWriter
	crash *crash
}

// Patch writes the status.
func (c crashingStatus) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
	return c.crash.do(func() error { return c.SubResourceWriter.Patch(ctx, o, p, opts...) })
}

// StopInstances stops instances.
func (c crashing) StopInstances(ctx context.Context, ids []string, hibernate bool) map[string]error {
	return c.power(ids, func() map[string]error { return c.Cloud.StopInstances(ctx, ids, hibernate) })
}

// StartInstances starts instances.
func (c crashing) StartInstances(ctx context.Context, of []cloud.Instance) map[string]error {
	return c.power([]string{of[0].ID}, func() map[string]error { return c.Cloud.StartInstances(ctx, of) })
}

func (c crashing) power(ids []string, call func() map[string]error) map[string]error {
	out := map[string]error{}
	if err := c.crash.do(func() error { out = call(); return nil }); err != nil {
		return map[string]error{ids[0]: err}
	}
	return out
}

// A process may end before or after anything it does. Whatever it was, the next one goes on: the instance sleeps, and is started once when a pod is
// promised its node.
func TestCrashBetweenAnyTwoEffects(t *testing.T) {
	// Seven effects until the instance sleeps: the state, the call, the Node's finalizer, the Node, its pod, the condition, the state. Three until it is awake.
	for at := 1; at <= 10; at++ {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("effect %d, after it %t", at, after), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { crashAt(t, &crash{at: at, after: after}) })
			})
		}
	}
}

func crashAt(t *testing.T, c *crash) {
	t.Helper()
	s := newScene(t)
	s.claim(&datadriven.TestData{}, "a")
	s.node(&datadriven.TestData{CmdArgs: []datadriven.CmdArg{{Key: "a"}, {Key: "images", Vals: []string{"r.io/web:1"}}, {Key: "running", Vals: []string{"1"}}}}, "a")
	api, ec2 := s.API, s.ec2
	process := crashing{Client: api, Cloud: ec2, crash: c}
	s.serve(process, process)
	_ = s.Run(s, 30*time.Second) // It crashes, or the instance sleeps.
	if c.effects >= c.at {
		s.serve(api, ec2)
		s.Enqueue("a")
		s.Must(s.Run(s, 30*time.Second))
	}
	asleep := record.StandbyOf(s.get("a"))
	if asleep.State != record.StandbyAsleep || s.instance("a").State != cloud.StateStopped || s.nodes()+len(s.pods()) != 0 {
		t.Fatalf("after the crash it is %s, its instance %s; %d Nodes, %d pods", asleep.State, s.instance("a").State, s.nodes(), len(s.pods()))
	}
	s.promise("promise", "a")
	_ = s.Run(s, 5*time.Second)
	if c.effects < c.at {
		t.Fatalf("%d effects in all, want the crash at the %dth", c.effects, c.at)
	}
	s.serve(api, ec2)
	s.Enqueue("a")
	s.Must(s.Run(s, 30*time.Second))
	if awake := record.StandbyOf(s.get("a")); awake.State != record.StandbyAwake || s.instance("a").State != cloud.StateRunning {
		t.Fatalf("with a pod it is %s, its instance %s", awake.State, s.instance("a").State)
	}
}
