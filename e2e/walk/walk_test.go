package walk_test

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipway-k8s/slipway/e2e/sandbox"
	"github.com/slipway-k8s/slipway/e2e/tap"
)

// walkSpeed divides the delays of machines and AWS. spotNotice leaves time to drain a node, where nothing else runs.
const (
	walkSpeed  = 60
	spotNotice = 8 * time.Second
)

// walkSandbox returns a fast sandbox. Its join deadline suits its speed, and the load of other tests where only a few cases
// are walked.
func walkSandbox() sandbox.Config {
	deadline, notice := 20*time.Second, time.Minute
	if argument[bool]("walk") {
		deadline, notice = 10*time.Second, spotNotice
	}
	return sandbox.Config{
		Speed: walkSpeed, SpotNotice: notice,
		LauncherArgs: []string{"--feature-gates=CapacityBuffer=true", fmt.Sprintf("--join-deadline=%s", deadline), fmt.Sprintf("--empty-join-deadline=%s", 2*deadline)},
	}
}

// step is an effect of a flow: the nth of its name by one program.
type step struct {
	flow, process, effect string
	nth                   int
}

func (s step) String() string {
	return fmt.Sprintf("%s: %s %s #%d", s.flow, s.process, s.effect, s.nth)
}

// stop is what happens at a step.
type stop struct {
	name string
	// processes are those that are killed.
	processes []string
	// cut is true where the connection to the API server is cut.
	cut bool
}

func stops() []stop {
	return []stop{
		{name: "launcher", processes: []string{sandbox.Launcher}},
		{name: "scheduler", processes: []string{sandbox.Scheduler}},
		{name: "both", processes: []string{sandbox.Launcher, sandbox.Scheduler}},
		{name: "API server", cut: true},
	}
}

// walkCase is one kill of the walk.
type walkCase struct {
	step
	stop
	moment tap.Moment
}

func (c walkCase) String() string {
	return fmt.Sprintf("%s: %s stops %s %s %s #%d", c.flow, c.name, c.moment, c.process, c.effect, c.nth)
}

// few returns the cases of every test run: an instance without a record of it yet, with programs that are killed and with an API server that is
// away, a pod that is to be evicted, and a stopped instance whose start nobody recorded.
func few() []walkCase {
	launcher, both, server := stops()[0], stops()[2], stops()[3]
	return []walkCase{
		{step{"arrive", sandbox.Launcher, "EC2 CreateFleet", 1}, server, tap.After},
		{step{"arrive", sandbox.Launcher, "EC2 CreateFleet", 1}, both, tap.After},
		{step{"interrupt", sandbox.Launcher, "create pods/eviction", 1}, launcher, tap.Before},
		{step{"wake", sandbox.Launcher, "EC2 StartInstances", 1}, both, tap.After},
	}
}

// TestCrashWalk stops programs at the steps of every flow, and checks that nothing is lost, launched twice or left behind.
func TestCrashWalk(t *testing.T) {
	if argument[bool]("walk.record") {
		recordSteps(newStage(newScene(t, walkSandbox())))
		return
	}
	until := time.Now().Add(cmp.Or(argument[time.Duration]("walk.for"), math.MaxInt64))
	cases, done := few(), ledger{}
	if argument[bool]("walk") {
		cases, done = every(t), ledger{path: argument[string]("walk.done")}
		lane, lanes := argument[int]("walk.lane"), argument[int]("walk.lanes")
		if lane == 0 && lanes > 1 {
			inLanes(t, lanes, until)
			return
		}
		cases = done.left(t, share(cases, max(lane, 1)-1, lanes))
		if len(cases) == 0 {
			return
		}
	}
	st := newStage(newScene(t, walkSandbox()))
	walked, missed, begin := 0, 0, time.Now()
	for i, c := range inTurn(cases) {
		started := time.Now()
		if started.After(until) {
			break
		}
		walked++
		reached := done.walked(t, c, func() bool { return st.walk(c) })
		t.Logf("%d/%d %s: %.1f s, reached %t", i+1, len(cases), c, time.Since(started).Seconds(), reached)
		if !reached {
			missed++
		}
	}
	st.checkLogs()
	if !argument[bool]("walk") {
		st.checkMessages() // The flows of few together log all of them.
	}
	t.Logf("%d cases in %s, %d of them not reached", walked, time.Since(begin).Round(time.Second), missed)
	if missed*10 > walked {
		t.Errorf("%d of %d steps were not reached: record them anew (-walk.record)", missed, walked)
	}
}

// inTurn sorts cases so that, as far as possible, each begins in the state in which the one before ended, since
// coming to rest takes as long as a flow. Of several flows, the one with the most cases left is next. So nodes that fail to
// join alternate with others, and the NodePool is not held.
func inTurn(cases []walkCase) []walkCase {
	byFlow := map[string][]walkCase{}
	for _, c := range cases {
		byFlow[c.flow] = append(byFlow[c.flow], c)
	}
	out, at := make([]walkCase, 0, len(cases)), state{}
	for len(out) < len(cases) {
		next := slices.MaxFunc(flows(), func(a, b flow) int {
			left := func(f flow) int { return len(byFlow[f.name]) }
			begins := func(f flow) int {
				if left(f) > 0 && f.from == at {
					return 1
				}
				return 0
			}
			return cmp.Or(cmp.Compare(begins(a), begins(b)), cmp.Compare(left(a), left(b)))
		})
		out, byFlow[next.name] = append(out, byFlow[next.name][0]), byFlow[next.name][1:]
		at = next.to
	}
	return out
}

// TestEachCaseOnce checks that each case is walked once, for any number of lanes and any order.
func TestEachCaseOnce(t *testing.T) {
	const lanes = 3
	cases := every(t)
	times := map[string]int{}
	for lane := range lanes {
		at, rests := state{}, 0
		for _, c := range inTurn(share(cases, lane, lanes)) {
			times[c.String()]++
			f := flows()[slices.IndexFunc(flows(), func(f flow) bool { return f.name == c.flow })]
			if f.from != at {
				rests++
			}
			at = f.to
		}
		if most := len(cases) / lanes / 2; rests > most {
			t.Errorf("lane %d comes to rest %d times between its cases, want %d at most", lane+1, rests, most)
		}
	}
	for _, c := range cases {
		if times[c.String()] != 1 {
			t.Errorf("%s is walked %d times", c, times[c.String()])
		}
	}
}

// every returns the cases of testdata/steps.txt: each step and each stop, before and after. Where not all are requested, it
// returns one case of each step, in turn.
func every(t *testing.T) []walkCase {
	t.Helper()
	var out []walkCase
	n, nth, named := 0, argument[int]("walk.every"), regexp.MustCompile(argument[string]("walk.case"))
	for i, s := range readSteps(t) {
		for _, p := range stops() {
			for _, m := range []tap.Moment{tap.Before, tap.After} {
				c := walkCase{s, p, m}
				if !asked(s.flow) || !named.MatchString(c.String()) {
					continue
				}
				if n++; (n+i)%nth == 0 {
					out = append(out, c)
				}
			}
		}
	}
	return out
}

// asked reports whether the flag names the flow, or no flow.
func asked(flow string) bool {
	names := argument[string]("walk.flow")
	return names == "" || slices.Contains(strings.Split(names, ","), flow)
}

// walk runs a case's flow, makes the stop at its step, and waits until the cluster is at rest. It reports whether the step
// was reached.
func (s *stage) walk(c walkCase) bool {
	s.t.Helper()
	i := slices.IndexFunc(flows(), func(f flow) bool { return f.name == c.flow })
	f := flows()[i]
	s.rest(f.from)
	reached := s.arm(c)
	defer s.Journal().SetHook(nil)
	s.run(f)
	return reached()
}

// arm prepares the stop of a case. The returned function reports whether it was made.
func (s *stage) arm(c walkCase) func() bool {
	var mu sync.Mutex
	var order []int // The numbers of the effects of this name: they go on beside each other.
	sprung := false
	s.Journal().SetHook(func(e tap.Effect, m tap.Moment) bool {
		mu.Lock()
		defer mu.Unlock()
		if sprung || e.Process != c.process || e.Name != c.effect || counted(e) == "" {
			return false
		}
		if m == tap.Before {
			order = append(order, e.Number)
		}
		if m != c.moment || slices.Index(order, e.Number) != c.nth-1 {
			return false
		}
		sprung = true
		s.stop(c.stop)
		return c.cut || slices.Contains(c.processes, e.Process)
	})
	return func() bool {
		mu.Lock()
		defer mu.Unlock()
		return sprung
	}
}

// outage is how long the API server is unreachable.
const outage = 3 * time.Second

func (s *stage) stop(p stop) {
	for _, process := range p.processes {
		s.kill(process)
	}
	if !p.cut {
		return
	}
	for _, process := range []string{sandbox.Launcher, sandbox.Scheduler} {
		line := s.Taps(process)[0] // The launcher's second one leads to AWS.
		line.Cut()
		time.AfterFunc(outage, line.Restore)
	}
}

// counted returns the name of an effect that is a step; empty for effects that recur by themselves.
func counted(e tap.Effect) string {
	for _, kind := range []string{" leases", " events", " configmaps"} { // The ConfigMaps are the record of the bill.
		if strings.HasSuffix(e.Name, kind) {
			return ""
		}
	}
	return e.Name
}
