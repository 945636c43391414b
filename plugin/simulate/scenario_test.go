package simulate_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/tools/txtar"

	"github.com/slipway-k8s/slipway/plugin/simulate"
	"github.com/slipway-k8s/slipway/plugin/simulate/input"
	"github.com/slipway-k8s/slipway/plugin/simulate/market"
)

func TestMain(m *testing.M) {
	flag.Bool("rewrite", false, "write what comes out into the scenario files")
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"),
		goleak.IgnoreAnyFunction("k8s.io/kubernetes/pkg/scheduler/metrics.(*MetricAsyncRecorder).run"),
	)
}

// run is one simulation.
type run struct {
	objects *input.Objects
	market  *market.Market
	outcome *simulate.Outcome
}

func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(string(a.Comment), "# ") {
				t.Error("the file does not begin with a comment that says what it shows")
			}
			r := simulated(t, a)
			check(t, r)
			if again := simulated(t, a); cmp.Diff(answer(t, r), answer(t, again)) != "" {
				t.Errorf("the same input gives another answer:\n%s", cmp.Diff(answer(t, r), answer(t, again)))
			}
			for i := range a.Files {
				f := &a.Files[i]
				if !strings.HasPrefix(f.Name, "want.") {
					continue
				}
				got := output(t, r, f.Name)
				if diff := cmp.Diff(string(f.Data), got); diff != "" && flag.Lookup("rewrite").Value.String() != "true" {
					t.Errorf("%s differs (-want +got):\n%s", f.Name, diff)
				}
				f.Data = []byte(got)
			}
			if flag.Lookup("rewrite").Value.String() == "true" {
				if err := os.WriteFile(file, txtar.Format(a), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// simulated runs the scenario's input.
func simulated(t *testing.T, a *txtar.Archive) run {
	t.Helper()
	dir := t.TempDir()
	options := simulate.Options{PreferenceShare: 0.1, Now: noon()}
	files := marketFiles(t)
	for _, f := range a.Files {
		switch {
		case strings.HasPrefix(f.Name, "want."):
		case f.Name == "config":
			var err error
			if options.Scheduler, err = simulate.ReadScheduler(f.Data); err != nil {
				t.Fatal(err)
			}
		case f.Name == "commitments":
			files.Commitments, files.Now = f.Data, noon()
		case f.Name == "interruptions":
			files.Interruptions, files.InterruptionCost = f.Data, 0.005
		case f.Name == "flags":
			for line := range strings.Lines(string(f.Data)) {
				setFlag(t, strings.Fields(line), &options, &files)
			}
		default:
			writeFile(t, filepath.Join(dir, f.Name), f.Data)
		}
	}
	m, err := market.Read(files)
	if err != nil {
		t.Fatal(err)
	}
	reader := input.NewReader()
	if err := reader.ReadFiles([]string{dir}, nil); err != nil {
		t.Fatal(err)
	}
	r := run{objects: reader.Finish(), market: m}
	for i := range r.objects.Problems {
		// The temporary directory is another one each time.
		r.objects.Problems[i].Object = strings.ReplaceAll(r.objects.Problems[i].Object, dir+string(filepath.Separator), "")
	}
	if r.outcome, err = simulate.Run(t.Context(), r.objects, m, options); err != nil {
		t.Fatal(err)
	}
	return r
}

// writeFile writes a file, in a folder that need not exist.
func writeFile(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func setFlag(t *testing.T, fields []string, o *simulate.Options, files *market.Files) {
	t.Helper()
	if fields[0] == "builtin" {
		*files = market.Files{}
		return
	}
	to, ok := map[string]*float64{"preference-share": &o.PreferenceShare, "spot-share": &o.Plan.SpotShare, "spot-premium": &o.Plan.SpotPremium}[fields[0]]
	if !ok {
		t.Fatalf("there is no flag %s", fields[0])
	}
	share, err := strconv.ParseFloat(fields[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	*to = share
}

// answer is the result without what differs from run to run.
func answer(t *testing.T, r run) simulate.Result {
	t.Helper()
	out := r.outcome.Result(t.Context())
	if out.PlanSeconds <= 0 || out.VerifySeconds <= 0 || out.VerifySeconds > out.PlanSeconds || out.PeakRSSMiB <= 0 || out.Rounds < 1 {
		t.Errorf("planSeconds %v, verifySeconds %v, peakRSSMiB %v, rounds %d", out.PlanSeconds, out.VerifySeconds, out.PeakRSSMiB, out.Rounds)
	}
	out.PlanSeconds, out.VerifySeconds, out.PeakRSSMiB, out.Rounds = 0, 0, 0, 0
	// How good the planner is at telling them is the planner's to test.
	out.LowerBoundPerHour, out.FirstFitPerHour, out.BoundSeconds = 0, 0, 0
	return out
}

func output(t *testing.T, r run, section string) string {
	t.Helper()
	var out bytes.Buffer
	kind, pod, _ := strings.Cut(strings.TrimPrefix(section, "want."), " ")
	var err error
	switch kind {
	case "json":
		e := json.NewEncoder(&out)
		e.SetIndent("", "  ")
		err = e.Encode(answer(t, r))
	case "table":
		err = r.outcome.Write(t.Context(), &out, "table")
	case "explain":
		err = r.outcome.Explain(t.Context(), &out, pod)
	case "stderr":
		simulate.WriteNotes(&out, r.objects, r.outcome)
	default:
		err = fmt.Errorf("there is no output %s", section)
	}
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(out.String()) {
		if !slices.ContainsFunc([]string{"Planned and verified in ", "  no set of nodes ", "  first-fit "}, func(s string) bool { return strings.HasPrefix(line, s) }) {
			lines = append(lines, line)
		}
	}
	return words(t, r).Replace(strings.Join(lines, ""))
}

// words stands for what the planner says: its words are the planner's to test.
func words(t *testing.T, r run) *strings.Replacer {
	t.Helper()
	var pairs []string
	add := func(message string) {
		asJSON, err := json.Marshal(message)
		if err != nil || message == "" {
			t.Fatalf("the planner says %q: %v", message, err)
		}
		pairs = append(pairs, message, "(why)", strings.Trim(string(asJSON), `"`), "(why)")
	}
	for _, u := range r.outcome.Plan.Unplaced {
		for _, reason := range u.Reasons {
			add(reason.Message)
		}
	}
	for _, p := range r.outcome.Plan.Problems {
		add(p.Message)
	}
	return strings.NewReplacer(pairs...)
}
