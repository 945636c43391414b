package block_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/block"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/leadership/leadershiptest"
	"github.com/slipway-k8s/slipway/launcher/scenariotest"
)

// scene has claims in reservations.
type scene struct {
	*scenariotest.Scene

	t       *testing.T
	subject *block.Drains
	foreign bool
	silent  bool
	ends    map[string]time.Time
}

// TestScenarios runs the files of testdata, each in a bubble of its own time:
//
//	claim NAME in=ID type=default|capacity-block [leaving]   a NodeClaim in a capacity reservation
//	ends ID DURATION                                         when the block ends, from the start
//	ec2 silent|answers                                       whether EC2 describes reservations
//	karpenter lives|dies                                     whose the claims are
//	terminator fails=N                                       Begin fails so often
//	run DURATION                                             prints what happened
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			s := &scene{Scene: scenariotest.New(t), t: t, ends: map[string]time.Time{}}
			var err error
			s.subject, err = block.New(block.Config{
				Client: s.API, Blocks: s, Guard: leadershiptest.Always{}, Ender: s, Events: s, Ours: func(*karpv1.NodeClaim) bool { return !s.foreign },
			})
			if err != nil {
				t.Fatal(err)
			}
			datadriven.RunTest(t, path, func(_ *testing.T, d *datadriven.TestData) string { return s.command(d) })
		})
	})
}

func TestNewNeedsItsDependencies(t *testing.T) {
	if _, err := block.New(block.Config{}); err == nil {
		t.Error("no error without any dependency")
	}
}

// BlockEnd implements block.Blocks.
func (s *scene) BlockEnd(_ context.Context, id string) (time.Time, error) {
	if s.silent {
		return time.Time{}, errors.New("EC2 does not answer")
	}
	return s.ends[id], nil
}

// Eventf implements announce.EventRecorder.
func (s *scene) Eventf(o runtime.Object, kind, reason, format string, args ...any) {
	name := "?"
	switch o := o.(type) {
	case *karpv1.NodeClaim:
		name = "NodeClaim " + o.Name
	case *corev1.Node:
		name = "Node " + o.Name
	}
	s.LogTimed("%s %s %s: %s", kind, reason, name, fmt.Sprintf(format, args...))
}

func (s *scene) command(d *datadriven.TestData) string {
	switch d.Cmd {
	case "claim":
		s.add(d)
	case "ends":
		s.ends[d.CmdArgs[0].Key] = s.Start.Add(s.Duration(d.CmdArgs[1].Key))
	case "ec2":
		s.silent = d.CmdArgs[0].Key == "silent"
	case "karpenter":
		s.foreign = d.CmdArgs[0].Key == "lives"
	case "terminator":
		d.ScanArgs(s.t, "fails", &s.Fails)
	case "run":
		_ = s.Run(s.subject, s.Duration(d.CmdArgs[0].Key)) // A Begin that fails is in the trace.
	default:
		s.t.Fatalf("unknown command %s", d.Cmd)
	}
	return s.TakeTrace()
}

func (s *scene) add(d *datadriven.TestData) {
	name, id, kind := d.CmdArgs[0].Key, "", ""
	d.ScanArgs(s.t, "in", &id)
	d.ScanArgs(s.t, "type", &kind)
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: name, Finalizers: []string{karpv1.TerminationFinalizer},
		Labels: map[string]string{catalog.LabelReservationID: id, catalog.LabelReservationType: kind},
	}}
	claim.Status.NodeName = "node-" + name
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: claim.Status.NodeName}}
	s.Must(errors.Join(s.API.Create(s.t.Context(), claim), s.API.Create(s.t.Context(), node)))
	if d.HasArg("leaving") {
		s.Must(s.API.Delete(s.t.Context(), claim))
	}
	s.Enqueue(name)
}
