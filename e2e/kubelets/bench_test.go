package kubelets_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
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

// wanted are the ways of a cell whose names match.
func (c cell) wanted(ways *regexp.Regexp) []way {
	return slices.DeleteFunc(c.ways(), func(w way) bool { return !ways.MatchString(w.name) })
}

// cells are those whose name matches, with the ways whose name matches.
func cells(pattern string, ways *regexp.Regexp) (cells []cell, out []figures.Cell, err error) {
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
				for _, w := range c.wanted(ways) {
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
	_, names, err := cells(text("bench.cells"), regexp.MustCompile(""))
	if err != nil {
		return err
	}
	fmt.Printf("From the kubelet's start to running pods:\n%s\nThe same, round by round:\n%s", file.Table(names), file.Compare(names, compared()))
	return nil
}

// BenchmarkStart measures the time from a kubelet's start until all pods of its node run. In each round of a cell the kubelets of its
// ways start one after the other, or so many at the same moment, so that whatever else the host does it does to all of them. A round
// of which a start fails is counted and measured again.
func BenchmarkStart(b *testing.B) {
	begun := time.Now()
	file, err := figures.Open(text("bench.file"))
	if err != nil {
		b.Fatal(err)
	}
	only, err := regexp.Compile(text("bench.ways"))
	if err != nil {
		b.Fatal(err)
	}
	all, names, err := cells(text("bench.cells"), only)
	if err != nil {
		b.Fatal(err)
	}
	rounds, minutes, beside := number(b, "bench.rounds"), number(b, "bench.minutes"), number(b, "bench.beside")
	worlds, last := map[string]*world{}, noRound()
	for failed := 0; ; {
		next, n, more := file.Next(names, rounds)
		if !more || minutes > 0 && time.Since(begun) > time.Duration(minutes)*time.Minute {
			b.ReportMetric(float64(failed), "failed")
			break
		}
		c := all[slices.IndexFunc(all, func(c cell) bool { return c.String() == next.Name })]
		w := worlds[next.Name]
		if w == nil {
			w = newCell(b, c)
			worlds[next.Name] = w
		}
		ways := c.wanted(only)
		turn := n % len(ways)
		this, measured, err := w.measure(c, append(ways[turn:], ways[:turn]...), atOnce(c, beside), last)
		last = this
		if err != nil {
			if failed++; failed > maxFailed {
				b.Fatal(err)
			}
			fmt.Fprintf(os.Stderr, "%s %s, %d. round failed, it is measured again: %v\n", time.Now().Format(time.TimeOnly), c, n+1, err)
			w.tell(b)
			w.abandon()
			worlds[next.Name], last = nil, noRound()
			continue
		}
		fmt.Fprintf(os.Stderr, "%s %d. round: %v\n", time.Now().Format(time.TimeOnly), n+1, measured)
		if err := file.Add(measured...); err != nil {
			b.Fatal(err)
		}
	}
	<-last.cleared
	b.ReportMetric(0, "ns/op")
	if err := printTables(); err != nil {
		b.Fatal(err)
	}
}

// abandon removes what a round left that failed: its cell is measured again in a new world.
func (w *world) abandon() {
	var instances []string
	for _, c := range w.recorder.Claims() {
		if id := c.Object.Status.ProviderID; !c.Deleted.Seen() && c.Object.Labels[worldKey] == w.name && id != "" {
			instances = append(instances, id[strings.LastIndexByte(id, '/')+1:])
		}
	}
	for _, pool := range w.pools {
		if err := client.IgnoreNotFound(w.client.Delete(w.t.Context(), pool)); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name}}
	if err := client.IgnoreNotFound(w.client.Delete(w.t.Context(), namespace)); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	for _, id := range instances {
		if err := w.AWS().Terminate(id); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	err := wait.PollUntilContextTimeout(w.t.Context(), time.Second, patience, true, func(context.Context) (bool, error) {
		left, err := os.ReadDir(filepath.Join(w.Folder(), "machines"))
		return len(left) == 0, err
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
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
