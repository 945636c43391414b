package kubelets_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/kubelets/figures"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// way is how pods come to their node.
type way struct {
	name string
	// bound is launch: by the benchmark, as soon as the Node exists; auto: by the launcher; scheduler: by the scheduler's own
	// cycle, since the pods have no controller.
	bound string
	// off says that the nodes do not prefetch.
	off bool
}

// label is its name where no other characters are allowed. None is another's beginning with a dash behind it.
func (w way) label() string { return strings.ReplaceAll(w.name, "+", "") }

// cell is one situation.
type cell struct {
	network time.Duration
	image   string
	pods    int
}

func (c cell) String() string {
	return fmt.Sprintf("network=%s/image=%s/pods=%d", c.network, c.image, c.pods)
}

// ways are how the pods of a cell come to their node. Small images gain nothing from prefetching.
func (c cell) ways() []way {
	if c.image == "main" {
		return []way{{name: "launch", bound: "launch"}, {name: "auto", bound: "auto"}, {name: "scheduler", bound: "scheduler"}}
	}
	return []way{
		{name: "launch", bound: "launch"},
		{name: "auto", bound: "auto", off: true},
		{name: "auto+prefetch", bound: "auto"},
		{name: "scheduler", bound: "scheduler", off: true},
		{name: "scheduler+prefetch", bound: "scheduler"},
	}
}

// compared are the ways that are held against each other.
func compared() []figures.Pair {
	return []figures.Pair{
		{Way: "launch", Other: "scheduler"},
		{Way: "auto", Other: "scheduler"},
		{Way: "auto+prefetch", Other: "scheduler+prefetch"},
		{Way: "auto+prefetch", Other: "auto"},
		{Way: "scheduler+prefetch", Other: "scheduler"},
	}
}

// cells are those whose name matches.
func cells(pattern string) (cells []cell, out []figures.Cell, err error) {
	wanted, err := regexp.Compile(pattern)
	if err != nil {
		return nil, nil, err
	}
	for _, pods := range []int{10, 1, 30} {
		for _, network := range []time.Duration{0, benchLateBy} {
			for _, image := range []string{"main", "pad-200"} {
				c := cell{network: network, image: image, pods: pods}
				if !wanted.MatchString(c.String()) {
					continue
				}
				var names []string
				for _, w := range c.ways() {
					names = append(names, w.name)
				}
				cells = append(cells, c)
				out = append(out, figures.Cell{Name: c.String(), Ways: names})
			}
		}
	}
	if len(out) == 0 {
		return nil, nil, fmt.Errorf("-bench.cells %q matches no cell such as %s", pattern, cell{benchLateBy, "pad-200", 10})
	}
	return cells, out, nil
}

// printTables prints what was measured.
func printTables() error {
	file, err := figures.Open(text("bench.file"))
	if err != nil {
		return err
	}
	_, names, err := cells(text("bench.cells"))
	if err != nil {
		return err
	}
	fmt.Printf("From the kubelet's start to running pods:\n%s\nThe same, round by round:\n%s", file.Table(names), file.Compare(names, compared()))
	return nil
}

// BenchmarkStart measures the time from a kubelet's start until all pods of its node run. In each round of a cell the kubelets of all
// its ways start at the same moment, on machines beside each other, so that whatever else the host does it does to all of them.
func BenchmarkStart(b *testing.B) {
	begun := time.Now()
	file, err := figures.Open(text("bench.file"))
	if err != nil {
		b.Fatal(err)
	}
	all, names, err := cells(text("bench.cells"))
	if err != nil {
		b.Fatal(err)
	}
	rounds, minutes, beside := number(b, "bench.rounds"), number(b, "bench.minutes"), number(b, "bench.beside")
	worlds := map[string]*world{}
	for {
		next, round, more := file.Next(names, rounds)
		if !more || minutes > 0 && time.Since(begun) > time.Duration(minutes)*time.Minute {
			break
		}
		c := all[slices.IndexFunc(all, func(c cell) bool { return c.String() == next.Name })]
		w := worlds[next.Name]
		if w == nil {
			w = newCell(b, c)
			worlds[next.Name] = w
		}
		ways := c.ways()
		turn := round % len(ways)
		ways = append(ways[turn:], ways[:turn]...)
		var measured []figures.Figure
		for group := range slices.Chunk(ways, atOnce(c, beside)) {
			measured = append(measured, w.measure(c, group)...)
		}
		fmt.Fprintf(os.Stderr, "%s %d. round: %v\n", time.Now().Format(time.TimeOnly), round+1, measured)
		if err := file.Add(measured...); err != nil {
			b.Fatal(err)
		}
	}
	shared.cleared.Wait()
	b.ReportMetric(0, "ns/op")
	if err := printTables(); err != nil {
		b.Fatal(err)
	}
}

// atOnce is how many ways of a cell start beside each other: as many as two cores can start without one's containers waiting for
// another's.
func atOnce(c cell, beside int) int {
	switch {
	case beside > 0:
		return beside
	case c.pods > 10:
		return 1
	case c.image != "main":
		return 2
	default:
		return len(c.ways())
	}
}

// newCell makes a NodePool for each way of a cell.
func newCell(b *testing.B, c cell) *world {
	b.Helper()
	w := newWorld(b, fmt.Sprintf("bench-%d", time.Now().UnixNano()))
	off := nodeClass(w.name, "")
	off.Annotations = map[string]string{catalog.PrefetchAnnotation: catalog.PrefetchOff}
	w.create(off)
	for _, how := range c.ways() {
		w.pool(w.poolOf(how), func(p *karpv1.NodePool) {
			p.Spec.Template.Labels[wayKey] = how.label()
			if c.network > 0 {
				p.Spec.Template.Labels[lateKey] = seconds(c.network)
			}
			if how.off {
				p.Spec.Template.Spec.NodeClassRef.Name = off.Name
			}
		})
	}
	return w
}

// poolOf is the NodePool of a way.
func (w *world) poolOf(how way) string { return w.name + "-" + how.label() }
