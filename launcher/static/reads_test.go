package static_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// count counts a read of the Keeper.
func (s *scene) count(o runtime.Object, shared *bool) {
	kind := fmt.Sprintf("%T", o)
	s.reads[kind]++
	if !ptr.Deref(shared, false) {
		s.copied[kind]++
	}
}

// A NodePool that has its nodes is looked at each second: nothing is read of a node of which none has to go, and nothing is copied.
func TestNodesThatStayAreNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		pool := func(replicas string) {
			s.command(&datadriven.TestData{Cmd: "pool", CmdArgs: []datadriven.CmdArg{{Key: "replicas", Vals: []string{replicas}}, {Key: "nodes", Vals: []string{"0"}}}})
		}
		pool("3")
		s.run(3 * time.Second)
		s.join()
		s.run(3 * time.Second)
		for _, step := range []struct {
			what string
			do   func()
			// nodes are read in each pass.
			nodes int
		}{
			{"all stay", func() {}, 0},
			{"one has drifted, and the budget keeps it", func() { s.mark("1", "Drifted") }, 1},
		} {
			step.do()
			clear(s.reads)
			clear(s.copied)
			s.run(9500 * time.Millisecond)
			passes := s.reads["*v1.NodeClaimList"]
			if passes < 9 {
				t.Errorf("%s: %d passes in ten seconds", step.what, passes)
			}
			for _, kind := range []string{"*v1.Node", "*v1.PodList"} {
				if got := s.reads[kind]; got != step.nodes*passes {
					t.Errorf("%s: %s was read %d times in %d passes", step.what, kind, got, passes)
				}
			}
			if got := s.reads["*v1.PodDisruptionBudgetList"]; got != min(step.nodes, 1)*passes {
				t.Errorf("%s: PodDisruptionBudgets were read %d times in %d passes", step.what, got, passes)
			}
			if len(s.copied) > 0 {
				t.Errorf("%s: copied were %v", step.what, s.copied)
			}
		}
		// Which one goes is decided by what all of them have.
		clear(s.reads)
		pool("2")
		s.run(time.Second)
		if got := s.reads["*v1.PodList"]; got < 3 {
			t.Errorf("pods of %d nodes were read to remove one of three", got)
		}
	})
}
