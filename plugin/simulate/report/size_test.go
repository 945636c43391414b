package report

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/simulate"
	"github.com/slipway-k8s/slipway/plugin/simulate/input"
)

// most is how large a page of 5,000 nodes may be.
const most = 3 << 20

// longName is as long as the API server allows, and grows where it is escaped.
func longName(kind string, n int) string {
	name := fmt.Sprintf("%s-%d-", kind, n)
	return name + strings.Repeat("<", 253-len(name))
}

// large is a fleet of 5,000 nodes, each of a type and with pods of its own, in 250 NodePools.
func large(kind string) ([]simulate.NodeUse, map[string]string) {
	var out []simulate.NodeUse
	owners := map[string]string{}
	for i := range 5000 {
		n := simulate.NodeUse{
			Name: longName(kind, i), NodePool: longName("pool", i%250), InstanceType: longName("type", i), Zone: longName("zone", i%6), CapacityType: "on-demand",
			Price: float64(i%97) / 10, Cost: catalog.Cost{Instance: float64(i%97) / 20, Volumes: float64(i%97) / 20},
			CPU: simulate.Share{Requested: 3, Allocatable: 4}, Memory: simulate.Share{Requested: 3 << 30, Allocatable: 8 << 30},
		}
		for j := range 8 {
			pod := fmt.Sprintf("%s/%s", longName("namespace", i%50), longName("pod", 8*i+j))
			n.Pods = append(n.Pods, pod)
			owners[pod] = "Deployment " + longName("deployment", 8*i+j)
		}
		out = append(out, n)
	}
	return out, owners
}

func about() notes {
	out := notes{ignored: map[string]int{}}
	for i := range 5000 {
		out.ignored[longName("kind", i)] = i
		out.said = append(out.said, strings.Repeat(longName("note", i), 20))
		out.problems = append(out.problems, input.Problem{Object: longName("object", i), Field: "spec", Message: strings.Repeat("&", 5000)})
	}
	return out
}

// What 5,000 nodes with 40,000 pods give is bounded, whatever their names are.
func TestSize(t *testing.T) {
	after, owners := large("node")
	f := fleets{before: after[:2500], after: after, owners: owners, about: about()}
	plan := simulate.Result{CostPerHour: 1, LowerBoundPerHour: 1}
	saving := simulate.SavingResult{Nodes: 5000, NodesThen: 2500, CostPerHour: 10, CostPerHourThen: 5, Steps: 100}
	for i, n := range after {
		if i >= 2500 {
			plan.Nodes = append(plan.Nodes, simulate.Node{Name: n.Name, NodePool: n.NodePool, Pods: n.Pods})
		} else {
			move := simulate.MoveResult{Step: i / 25, Evictions: map[string]string{}, Workloads: map[string]int{}, Nodes: []simulate.OldNode{{Name: n.Name}}}
			for _, pod := range n.Pods {
				move.Evictions[pod] = after[len(after)-1-i].Name
				move.Workloads[owners[pod]]++
			}
			saving.Moves = append(saving.Moves, move)
		}
		saving.Kept = append(saving.Kept, simulate.KeptResult{Node: n.Name, Reason: longName("reason", i)})
		var reasons []simulate.Reason
		for j := range 20 {
			reasons = append(reasons, simulate.Reason{NodePool: longName("pool", j), Code: "Code", Reason: longName("reason", i)})
		}
		plan.Unschedulable = append(plan.Unschedulable, simulate.Unschedulable{Pod: n.Pods[0], Reasons: reasons})
	}
	for name, p := range map[string]page{"plan": planPage(plan, f), "saving": savingPage(saving, f)} {
		var out strings.Builder
		if err := write(&out, p); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d bytes", name, out.Len())
		if out.Len() > most {
			t.Errorf("%s has %d bytes, want at most %d", name, out.Len(), most)
		}
		if !strings.Contains(out.String(), "more") {
			t.Errorf("%s does not say that it leaves something out", name)
		}
	}
}

// Nodes that are alike are summed up, and the sum is right.
func TestNodesThatAreAlike(t *testing.T) {
	var nodes []simulate.NodeUse
	for i := range 123 {
		nodes = append(nodes, simulate.NodeUse{
			Name: fmt.Sprintf("n%03d", i), InstanceType: "m5.large", Zone: "a", CapacityType: "spot", Price: 0.5, Pods: []string{fmt.Sprint("p", i)},
			CPU: simulate.Share{Requested: 1, Allocatable: 2},
		})
	}
	r := &rows{left: maxRows}
	got := r.list(nodes, sign{})
	if len(got) != firstNodes+1 || r.left != maxRows-len(got) {
		t.Fatalf("%d rows, %d left", len(got), r.left)
	}
	sum := got[firstNodes]
	if sum.Name != "and 120 more like it" || sum.Pods != 120 || sum.Price != "60.0000" || sum.CPU.Of != "120 of 240" || sum.CPU.Percent != "50%" {
		t.Errorf("the sum is %+v", sum)
	}
	nodes[122].Price = 0
	if sum := r.list(nodes, sign{})[firstNodes]; sum.Price != "59.5000 for 119 of them" {
		t.Errorf("with a node without a price the sum is %s", sum.Price)
	}
}

// Text has enough contrast on what is behind it, in light and in dark (WCAG 2.2, 1.4.3: 4.5 to 1).
func TestContrast(t *testing.T) {
	color := regexp.MustCompile(`--([a-z-]+): #([0-9a-f]{6})`)
	light, dark, ok := strings.Cut(styleText, "prefers-color-scheme: dark")
	if !ok {
		t.Fatal("the style sheet has one scheme")
	}
	for name, text := range map[string]string{"light": light, "dark": dark} {
		colors := map[string]float64{}
		for _, m := range color.FindAllStringSubmatch(text, -1) {
			colors[m[1]] = luminance(t, m[2])
		}
		for _, pair := range [][2]string{{"text", "bg"}, {"text", "panel"}, {"soft", "bg"}, {"soft", "panel"}, {"bad", "bad-bg"}, {"bad", "bg"}, {"bad", "panel"}, {"good", "bg"}, {"good", "panel"}, {"soft", "bad-bg"}} {
			a, b := colors[pair[0]], colors[pair[1]]
			if ratio := (max(a, b) + 0.05) / (min(a, b) + 0.05); ratio < 4.5 || len(colors) < 10 {
				t.Errorf("%s: %s on %s has a contrast of %.2f", name, pair[0], pair[1], ratio)
			}
		}
	}
}

// luminance is the relative luminance of a color (WCAG 2.2), with an exponent of 2.2 for the curve.
func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		v, err := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		sum += weight * math.Pow(float64(v)/255, 2.2)
	}
	return sum
}
