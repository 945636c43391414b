package calls

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// The users whose requests have goals.
const (
	// Scheduler is slipway-scheduler's user.
	Scheduler = "slipway-scheduler"
	// Launcher is slipway-launcher's.
	Launcher = "slipway-launcher"
)

// The goals. A run that misses one shows it.
const (
	// goalCPU is the launcher's CPU time for a node, in seconds.
	goalCPU = 0.05
	// goalWrites is how many requests of the launcher for a node change something, those about pods left out.
	goalWrites = 12
	// goalIdle is how many cores both processes use at rest.
	goalIdle = 0.05
	// goalMemory is the resident size of both processes together, in MiB.
	goalMemory = 1536
	// goalPending is the same with thousands of pods that fit nowhere.
	goalPending = 400
)

// Stage is what was measured from one moment to the next.
type Stage struct {
	// Name of the stage.
	Name string
	// Took is its duration.
	Took time.Duration
	// Nodes and Pods are how many there are at its end.
	Nodes, Pods int
	// Launched and Ended are the nodes that were added and removed meanwhile.
	Launched, Ended int
	// SchedulerCPU and LauncherCPU are in seconds.
	SchedulerCPU, LauncherCPU float64
	// SchedulerMemory and LauncherMemory are the largest resident sizes so far, in MiB.
	SchedulerMemory, LauncherMemory float64
	// FileMemory is the part of both that is pages of files: the programs themselves.
	FileMemory float64
	// Calls are the requests meanwhile.
	Calls Counts
	// Restarted is true where both processes started meanwhile: they read all objects then.
	Restarted bool
	// Rest is true where nothing was to do.
	Rest bool
	// Bound is how long each pod that fits waited for a node, in seconds.
	Bound []float64
	// Largest names the largest object at its end, with its size.
	Largest string
}

// changed is the number of nodes that were added or removed, at least 1.
func (s Stage) changed() float64 { return float64(max(1, s.Launched+s.Ended)) }

// goal marks a figure that is above its goal.
func goal(format string, figure, goal float64) string {
	text := fmt.Sprintf(format, figure)
	if figure > goal {
		return text + " (goal " + fmt.Sprintf(format, goal) + ")"
	}
	return text
}

// Table lays the stages out, a row each. A figure above its goal has the goal beside it.
func Table(stages []Stage) string {
	return table("stage|took|nodes|pods|launched|ended|scheduler CPU s|launcher CPU s|launcher CPU s a node|cores|launcher writes a node|and about its pods|reads of all|memory MiB|largest object", func(row func(...any)) {
		for _, s := range stages {
			perNode, writes, aboutPods, cores := "", "", "", fmt.Sprintf("%.3f", s.cores())
			if s.Rest {
				cores = goal("%.3f", s.cores(), goalIdle)
			} else {
				perNode = goal("%.3f", s.LauncherCPU/s.changed(), goalCPU)
				writes = goal("%.1f", float64(s.Calls.Writes(Launcher))/s.changed(), goalWrites)
				aboutPods = fmt.Sprintf("%.1f", float64(s.Calls.PodWrites(Launcher))/s.changed())
			}
			wholes := float64(s.Calls.Wholes(Launcher) + s.Calls.Wholes(Scheduler))
			reads := goal("%.0f", wholes, 0)
			if s.Restarted {
				reads = fmt.Sprintf("%.0f, of two starts", wholes)
			}
			row(s.Name, s.Took.Round(time.Second), s.Nodes, s.Pods, s.Launched, s.Ended, fmt.Sprintf("%.1f", s.SchedulerCPU), fmt.Sprintf("%.1f", s.LauncherCPU),
				perNode, cores, writes, aboutPods, reads, goal("%.0f", s.SchedulerMemory+s.LauncherMemory, goalMemory), s.Largest)
		}
	})
}

// PendingTable lays the stages out in which so many pods fit nowhere, a row each.
func PendingTable(stages []Stage, pending int) string {
	return table("stage|took|status writes a pod|Events a pod|pods that fit|bound after, p50|p99|at most|scheduler CPU s|launcher CPU s|cores|memory MiB|of it files", func(row func(...any)) {
		for _, s := range stages {
			slices.Sort(s.Bound)
			rank := func(share float64) string {
				if len(s.Bound) == 0 {
					return ""
				}
				return fmt.Sprintf("%.2f s", s.Bound[int(share*float64(len(s.Bound)-1))])
			}
			row(s.Name, s.Took.Round(time.Second), fmt.Sprintf("%.2f", s.PerPod("pods/status", pending)), fmt.Sprintf("%.2f", s.PerPod("events", pending)), len(s.Bound),
				rank(0.5), rank(0.99), rank(1), fmt.Sprintf("%.1f", s.SchedulerCPU), fmt.Sprintf("%.1f", s.LauncherCPU), fmt.Sprintf("%.3f", s.cores()),
				goal("%.0f", s.SchedulerMemory+s.LauncherMemory, goalPending), fmt.Sprintf("%.0f", s.FileMemory))
		}
	})
}

// PerPod is how many requests of both processes changed the resource, for each of the pods.
func (s Stage) PerPod(resource string, pods int) float64 {
	sum := s.Calls.sum(func(call Call) bool {
		of, _, _ := strings.Cut(call.Resource, " ")
		return (call.Who == Scheduler || call.Who == Launcher) && writes(call.Verb) && of == resource
	})
	return float64(sum) / float64(max(1, pods))
}

// cores is how many both processes used, on the average.
func (s Stage) cores() float64 {
	return (s.SchedulerCPU + s.LauncherCPU) / max(s.Took.Seconds(), 1)
}

// CallTable lays out the requests of one stage by user, verb and resource, at most so many rows a user.
func CallTable(s Stage, rows int, users ...string) string {
	return table("user|verb|resource|requests|for each node added or removed", func(row func(...any)) {
		for _, who := range users {
			calls := s.Calls.sorted(who)
			for _, call := range calls[:min(rows, len(calls))] {
				row(who, call.Verb, call.Resource, s.Calls[call], fmt.Sprintf("%.2f", float64(s.Calls[call])/s.changed()))
			}
		}
	})
}

// table lays rows out as a table of Markdown whose columns are aligned.
func table(heads string, rows func(row func(...any))) string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 8, 1, ' ', 0)
	columns := strings.Split(heads, "|")
	// A strings.Builder does not fail.
	_, _ = fmt.Fprintln(w, "| "+strings.Join(columns, "\t| ")+"\t|")
	_, _ = fmt.Fprintln(w, strings.Repeat("|---\t", len(columns))+"|")
	rows(func(cells ...any) {
		for _, cell := range cells {
			_, _ = fmt.Fprintf(w, "| %v\t", cell)
		}
		_, _ = fmt.Fprintln(w, "|")
	})
	_ = w.Flush()
	return out.String()
}
