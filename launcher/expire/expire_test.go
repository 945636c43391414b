package expire_test

import (
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/datadriven"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/expire"
	"github.com/slipway-k8s/slipway/launcher/leadership/leadershiptest"
	"github.com/slipway-k8s/slipway/launcher/scenariotest"
)

// scene has claims.
type scene struct {
	*scenariotest.Scene

	t       *testing.T
	subject *expire.Expiry
	foreign bool
}

// TestScenarios runs the files of testdata, each in a bubble of its own time:
//
//	claim NAME after=DURATION|Never [leaving]   a NodeClaim
//	karpenter lives|dies                        whose the claims are
//	terminator fails=N                          Begin fails so often
//	run DURATION                                prints what happened
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			s := &scene{Scene: scenariotest.New(t), t: t}
			var err error
			s.subject, err = expire.New(expire.Config{
				Client: s.API, Guard: leadershiptest.Always{}, Ender: s, Ours: func(*karpv1.NodeClaim) bool { return !s.foreign },
			})
			if err != nil {
				t.Fatal(err)
			}
			datadriven.RunTest(t, path, func(_ *testing.T, d *datadriven.TestData) string { return s.command(d) })
		})
	})
}

func TestNewNeedsItsDependencies(t *testing.T) {
	if _, err := expire.New(expire.Config{}); err == nil {
		t.Error("no error without any dependency")
	}
}

func (s *scene) command(d *datadriven.TestData) string {
	switch d.Cmd {
	case "claim":
		s.add(d)
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
	name, after := d.CmdArgs[0].Key, ""
	d.ScanArgs(s.t, "after", &after)
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Now(), Finalizers: []string{karpv1.TerminationFinalizer}}}
	claim.Spec.ExpireAfter = karpv1.MustParseNillableDuration(after)
	s.Must(s.API.Create(s.t.Context(), claim))
	if d.HasArg("leaving") {
		s.Must(s.API.Delete(s.t.Context(), claim))
	}
	s.Enqueue(name)
}
