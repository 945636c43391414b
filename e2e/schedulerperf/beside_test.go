package schedulerperf_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/slipway-k8s/slipway/e2e/schedulerperf/cases"
)

// TestBeside runs each workload on both sides, in an order that turns with each round, prints the table, and fails where slipway is worse.
func TestBeside(t *testing.T) {
	if argument[string]("cases") == "" {
		t.Skip("make scheduler-perf picks cases")
	}
	name, workload := regexp.MustCompile(argument[string]("cases")), regexp.MustCompile(argument[string]("workloads"))
	r := newRunner(t)
	var all []cases.Compared
	for _, c := range cases.Pick(r.cases(), name, workload) {
		compared := cases.Compared{Case: c}
		for round := range argument[int]("rounds") {
			compared.Rounds = append(compared.Rounds, r.round(c, round))
		}
		all = append(all, compared)
		t.Logf("so far:\n%s", cases.Table(all))
	}
	if len(all) == 0 {
		t.Fatalf("no workload matches %s and %s", name, workload)
	}
	for _, c := range all {
		if wrong := c.Wrong(); wrong != "" {
			t.Error(wrong)
		}
	}
	fmt.Printf("\nMedians of %d rounds, OpportunisticBatching %v:\n\n%s\n", argument[int]("rounds"), argument[bool]("batching"), cases.Table(all))
}

// TestSmoke runs two workloads of 500 nodes on both sides: all pods are bound, or the framework fails, and slipway tries one for all pods that
// are alike and fit nowhere, and tries pods that are alike on few nodes.
func TestSmoke(t *testing.T) {
	r := newRunner(t)
	all := r.cases()
	for _, want := range []string{"Unschedulable 500Nodes/10Init/1kPods", "TopologySpreading 500Nodes"} {
		i := slices.IndexFunc(all, func(c cases.Case) bool { return c.Name+" "+c.Workload == want })
		if i < 0 {
			t.Fatalf("Kubernetes has no case %s", want)
		}
		round := r.round(all[i], 0)
		if all[i].Name == "Unschedulable" && round.Slipway.Repeated == 0 {
			t.Errorf("%s: each pod that fits nowhere was tried on all nodes", want)
		}
		if all[i].Name == "TopologySpreading" && round.Slipway.Hinted == 0 {
			t.Errorf("%s: each pod was tried on all nodes", want)
		}
	}
}

// runner runs workloads in processes of their own: what one leaves in memory is no other's.
type runner struct {
	t *testing.T
	// source is the folder of scheduler_perf in Kubernetes' module, folder that of logs and figures, self the test's binary.
	source, folder, self string
}

func newRunner(t *testing.T) *runner {
	t.Helper()
	source, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		t.Fatalf("finding Kubernetes' sources: %v", err)
	}
	r := &runner{t: t, source: filepath.Join(string(source[:len(source)-1]), "test", "integration", "scheduler_perf"), folder: argument[string]("out")}
	if r.folder == "" {
		r.folder = t.TempDir()
	}
	if r.self, err = os.Executable(); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(r.folder, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	// Kubernetes' tests run the command etcd of the path.
	if err := os.Symlink(r.self, filepath.Join(r.folder, "bin", "etcd")); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
	return r
}

// cases returns all workloads of the three folders that need no drivers.
func (r *runner) cases() []cases.Case {
	r.t.Helper()
	var out []cases.Case
	for _, topic := range []string{"misc", "affinity", "topology_spreading"} {
		text, err := os.ReadFile(filepath.Join(r.source, topic, "performance-config.yaml"))
		if err != nil {
			r.t.Fatal(err)
		}
		read, err := cases.Read(topic, text)
		if err != nil {
			r.t.Fatal(err)
		}
		out = append(out, read...)
	}
	return out
}

// round runs the workload on both sides, stock first in even rounds.
func (r *runner) round(c cases.Case, round int) cases.Round {
	r.t.Helper()
	var out cases.Round
	sides := []string{cases.Stock, cases.Slipway}
	if round%2 == 1 {
		slices.Reverse(sides)
	}
	for _, side := range sides {
		figures := r.run(c, side, round)
		r.t.Logf("%s/%s, round %d, %s: %+v", c.Name, c.Workload, round+1, side, figures)
		if side == cases.Stock {
			out.Stock = figures
		} else {
			out.Slipway = figures
		}
	}
	return out
}

// run runs the workload on one side.
func (r *runner) run(c cases.Case, side string, round int) cases.Figures {
	r.t.Helper()
	folder := filepath.Join(r.folder, fmt.Sprintf("%s_%s_%d_%s", c.Name, regexp.MustCompile(`\W`).ReplaceAllString(c.Workload, "_"), round+1, side))
	if err := os.RemoveAll(folder); err != nil {
		r.t.Fatal(err)
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		r.t.Fatal(err)
	}
	path := filepath.Join(folder, "config.yaml")
	profile := ""
	if side == cases.Slipway {
		profile = path + ".profile"
	}
	text, err := c.Config(profile, argument[bool]("batching"))
	if err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		r.t.Fatal(err)
	}
	args := []string{
		"-test.run=^$", "-test.bench=^BenchmarkPerfScheduling$", "-test.benchtime=1x", "-test.timeout=30m", "-data-items-dir=" + folder,
		"-perf-scheduling-label-filter=" + cases.Label, "-schedulerperf.config=" + path, "-schedulerperf.side=" + side,
		"-schedulerperf.report=" + filepath.Join(folder, "report"),
	}
	if argument[bool]("profile") {
		args = append(args, "-test.cpuprofile="+filepath.Join(folder, "cpu"))
	}
	cmd := exec.CommandContext(r.t.Context(), r.self, args...)
	cmd.Dir = filepath.Join(r.source, c.Topic)
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(r.folder, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"), "ARTIFACTS="+folder)
	out, err := cmd.CombinedOutput()
	if log := filepath.Join(folder, "out"); os.WriteFile(log, out, 0o600) == nil {
		r.t.Logf("log %s", log)
	}
	if err != nil {
		r.t.Fatalf("running %s/%s on %s: %v\n%s", c.Name, c.Workload, side, err, out[max(0, len(out)-4000):])
	}
	return r.figures(folder)
}

// figures reads what the run has written.
func (r *runner) figures(folder string) cases.Figures {
	r.t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "BenchmarkPerfScheduling*.json"))
	if err != nil || len(files) != 1 {
		r.t.Fatalf("files of figures %v, error %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		r.t.Fatal(err)
	}
	out, err := cases.Measured(text)
	if err != nil {
		r.t.Fatal(err)
	}
	if text, err = os.ReadFile(filepath.Join(folder, "report")); err != nil {
		r.t.Fatal(err)
	}
	var more counted
	if err := json.Unmarshal(text, &more); err != nil {
		r.t.Fatal(err)
	}
	out.Batched, out.Repeated, out.Hinted, out.Seconds = more.Batched, more.Repeated, more.Hinted, more.Seconds
	return out
}
