package top_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/view"
	"github.com/slipway-k8s/slipway/launcher/view/top"
)

func TestMain(m *testing.M) {
	flag.Bool("rewrite", false, "write the screens into testdata")
	os.Exit(m.Run())
}

// now is when the cluster of these tests is looked at.
func now() time.Time { return time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC) }

// cluster has a node for each price, the last one booting, with pods, and two owners of pending pods.
func cluster(prices ...float64) top.Snapshot {
	var in view.Objects
	in.Now = now()
	in.Why = func(p *corev1.Pod) string {
		return "no node can be launched: NodePool default: limit cpu of 4 reached: 4 in use, the smallest node that fits, t3a.nano, adds 2"
	}
	for i, price := range prices {
		name := fmt.Sprintf("default-%c%d", 'z'-i%20, i)
		claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{karpv1.NodePoolLabelKey: "default"}, CreationTimestamp: metav1.NewTime(now().Add(-time.Duration(i+1) * time.Minute)),
			Annotations: map[string]string{
				catalog.ExpectedAnnotation: fmt.Sprintf("m7g.%dxlarge/us-east-1%c/spot/%.4f", i+1, 'a'+i%3, price),
				catalog.CostAnnotation:     fmt.Sprintf(`{"instance":%.4f,"volumes":0.002}`, price-0.002),
			},
		}}
		in.NodeClaims = append(in.NodeClaims, claim)
		if i == len(prices)-1 {
			claim.Annotations[catalog.PodsAnnotation] = `[{"uids":["promised"]}]`
			in.Pods = append(in.Pods, pod("promised", "", 100))
			continue
		}
		claim.Status.NodeName = "node-" + name
		claim.StatusConditions().SetTrue(karpv1.ConditionTypeInitialized)
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: claim.Status.NodeName}}
		node.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi")}
		in.Nodes = append(in.Nodes, node)
		for j := range i%5 + 1 {
			in.Pods = append(in.Pods, pod(fmt.Sprintf("web-%d-%d", i, j), node.Name, 900))
		}
	}
	in.Pods = append(in.Pods, pod("api-1", "", 500), pod("api-0", "", 500))
	daemon := pod("cni", "node-default-z0", 50)
	daemon.OwnerReferences[0].Kind = "DaemonSet"
	in.Pods = append(in.Pods, daemon)
	broken := karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "broken"}}
	broken.StatusConditions().SetFalse(karpv1.ConditionTypeValidationSucceeded, "Malformed", "spec.limits")
	in.NodePools = []*karpv1.NodePool{&broken}
	return top.Snapshot{Overview: view.New(in), Objects: in}
}

func pod(name, node string, milli int64) *corev1.Pod {
	yes := true
	owner, _, _ := strings.Cut(name, "-")
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(now().Add(-90 * time.Second)),
		OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: owner, Controller: &yes}},
	}}
	p.Spec.NodeName = node
	p.Status.Phase = corev1.PodPending
	if node != "" {
		p.Status.Phase = corev1.PodRunning
	}
	p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewMilliQuantity(milli, resource.DecimalSI), corev1.ResourceMemory: resource.MustParse("512Mi"),
	}}}}
	return p
}

// terminal is a view that a test types at.
type terminal struct {
	t     *testing.T
	model tea.Model
}

// started is a view of 80 columns and 24 rows that has read a cluster once.
func started(t *testing.T, c top.Config) *terminal {
	t.Helper()
	c.Interval = time.Hour
	out := &terminal{t: t, model: top.New(c)}
	out.send(tea.WindowSizeMsg{Width: 80, Height: 24})
	out.send(out.model.Init()())
	return out
}

// of is a view of a snapshot that explains any pod.
func of(t *testing.T, s top.Snapshot) *terminal {
	t.Helper()
	return started(t, top.Config{
		Load: func() (top.Snapshot, error) { return s, nil },
		Explain: func(pod string) (string, error) {
			return "Pod " + pod + ": pending\n  Unschedulable, for 2s:\n    because", nil
		},
	})
}

// send gives a message to the view, and the message of what it reads then; it waits for no clock.
func (r *terminal) send(msg tea.Msg) {
	r.t.Helper()
	var cmd tea.Cmd
	r.model, cmd = r.model.Update(msg)
	_, key := msg.(tea.KeyPressMsg)
	_, click := msg.(tea.MouseClickMsg)
	if (key || click) && cmd != nil {
		if next := cmd(); next != nil {
			r.model, _ = r.model.Update(next)
		}
	}
	r.fits()
}

// keys types keys; those of several letters are in brackets.
func (r *terminal) keys(text string) {
	r.t.Helper()
	special := map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "up": tea.KeyUp, "down": tea.KeyDown, "end": tea.KeyEnd, "home": tea.KeyHome, "pgdown": tea.KeyPgDown, "backspace": tea.KeyBackspace}
	for text != "" {
		if name, rest, ok := strings.Cut(strings.TrimPrefix(text, "<"), ">"); ok && text[0] == '<' {
			r.send(tea.KeyPressMsg{Code: special[name]})
			text = rest
			continue
		}
		r.send(tea.KeyPressMsg{Code: rune(text[0]), Text: text[:1]})
		text = text[1:]
	}
}

func (r *terminal) screen() string { return ansi.Strip(r.model.View().Content) }

// fits holds that a screen is within its terminal.
func (r *terminal) fits() {
	r.t.Helper()
	lines := strings.Split(r.screen(), "\n")
	if len(lines) > 24 {
		r.t.Errorf("%d lines:\n%s", len(lines), r.screen())
	}
	for _, line := range lines {
		if ansi.StringWidth(line) > 80 {
			r.t.Errorf("%d cells: %s", ansi.StringWidth(line), line)
		}
	}
}

// golden compares a screen with that of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	var lines []string
	for line := range strings.SplitSeq(got, "\n") {
		lines = append(lines, strings.TrimRight(line, " "))
	}
	got = strings.Join(lines, "\n") + "\n"
	path := "testdata/" + name + ".txt"
	if flag.Lookup("rewrite").Value.String() == "true" {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", name, diff)
	}
}

// Each screen is what testdata has.
func TestScreens(t *testing.T) {
	many := make([]float64, 60)
	for i := range many {
		many[i] = 0.01 * float64(i+1)
	}
	for name, c := range map[string]struct {
		prices []float64
		keys   string
	}{
		"cluster":  {[]float64{0.04, 0.08, 0.16, 0.32}, ""},
		"by_price": {[]float64{0.04, 0.08, 0.16, 0.32}, "p<down>"},
		"cheapest": {[]float64{0.04, 0.08, 0.16, 0.32}, "pp"},
		"filter":   {[]float64{0.04, 0.08, 0.16, 0.32}, "/1b"},
		"node":     {[]float64{0.04, 0.08, 0.16, 0.32}, "p<down><enter><down>"},
		"promised": {[]float64{0.04, 0.08, 0.16, 0.32}, "p<enter>"},
		"pod":      {[]float64{0.04, 0.08, 0.16, 0.32}, "p<down><enter><down><enter>"},
		"pending":  {[]float64{0.04}, "<down><enter>"},
		"pool":     {[]float64{0.04}, "<end><enter>"},
		"help":     {[]float64{0.04}, "?"},
		"many":     {many, "c<pgdown><pgdown>"},
		"last":     {many, "<end>"},
		"none":     {nil, ""},
	} {
		r := of(t, cluster(c.prices...))
		r.keys(c.keys)
		golden(t, name, r.screen())
	}
}

// The first line says how many nodes the bill leaves out, within 80 columns.
func TestUnpricedNodesAreCounted(t *testing.T) {
	head, _, _ := strings.Cut(of(t, cluster(0.04, 0, 0, 0.32)).screen(), "\n")
	if want := "3 nodes  0.0400 USD/h  29/month  100% spot  2 unpriced  +1 n"; !strings.Contains(head, want) {
		t.Errorf("the first line is %q, want %q", head, want)
	}
}

// Keys lead back to where they came from, and the row stays selected while the cluster changes.
func TestKeys(t *testing.T) {
	s := cluster(0.04, 0.08, 0.16)
	r := started(t, top.Config{Load: func() (top.Snapshot, error) { return s, nil }, Explain: func(string) (string, error) { return "", errors.New("it is gone") }})
	first := r.screen()
	r.keys("<enter><enter>")
	if got := r.screen(); !strings.Contains(got, "it is gone") {
		t.Errorf("an explanation that fails:\n%s", got)
	}
	r.keys("<esc><esc>?<esc>/zz<backspace>x<esc>")
	if diff := cmp.Diff(first, r.screen()); diff != "" {
		t.Errorf("keys do not lead back:\n%s", diff)
	}
	r.keys("<down>")
	before := selected(r.screen())
	s = cluster(0.04, 0.08, 0.16, 0.32, 0.64)
	r.send(r.model.Init()())
	if got := selected(r.screen()); strings.Fields(got)[0] != strings.Fields(before)[0] {
		t.Errorf("the row was %q, is %q", before, got)
	}
	s = cluster()
	r.send(r.model.Init()())
	r.keys("<home><end><enter><esc><esc>")
	for _, key := range []tea.KeyPressMsg{{Code: 'q', Text: "q"}, {Code: 'c', Mod: tea.ModCtrl}} {
		_, cmd := r.model.Update(key)
		if cmd == nil {
			t.Fatalf("%s does not quit", key)
		}
		if _, quit := cmd().(tea.QuitMsg); !quit {
			t.Errorf("%s does not quit", key)
		}
	}
}

// selected is the line with the mark.
func selected(screen string) string {
	for l := range strings.SplitSeq(screen, "\n") {
		if strings.HasPrefix(l, ">") {
			return l
		}
	}
	return ""
}

// The mouse wheel moves as keys do, and does not leave the list.
func TestWheel(t *testing.T) {
	r := of(t, cluster(make([]float64, 30)...))
	for range 40 {
		r.send(tea.MouseWheelMsg{Button: tea.MouseWheelDown})
	}
	down := r.screen()
	for range 40 {
		r.send(tea.MouseWheelMsg{Button: tea.MouseWheelUp})
	}
	if up := r.screen(); !strings.HasPrefix(selected(down), ">NodePool broken") || !strings.HasPrefix(selected(up), ">default-") {
		t.Errorf("down:\n%s\nup:\n%s", down, up)
	}
}

// A click selects a row, and opens the one that is selected: a node, then one of its pods. A click elsewhere does nothing, and other buttons neither.
func TestClick(t *testing.T) {
	r := of(t, cluster(make([]float64, 30)...))
	line := func(text string) int {
		return slices.IndexFunc(strings.Split(r.screen(), "\n"), func(line string) bool { return strings.Contains(line, text) })
	}
	click := func(text string, button tea.MouseButton) string {
		r.send(tea.MouseClickMsg{X: 3, Y: line(text), Button: button})
		return r.screen()
	}
	before := r.screen()
	for what, after := range map[string]string{"the head": click("Sorted by", tea.MouseLeft), "another button": click("default-v4 ", tea.MouseRight)} {
		if after != before {
			t.Errorf("a click of %s:\n%s", what, after)
		}
	}
	if got := click("2 of shop/ReplicaSet api", tea.MouseLeft); !strings.HasPrefix(selected(got), ">2 of shop/ReplicaSet api") {
		t.Errorf("pending pods:\n%s", got)
	}
	r.keys("<home>")
	at := line("default-p10 ")
	if got := click("default-p10 ", tea.MouseLeft); !strings.HasPrefix(selected(got), ">default-p10 ") || line("default-p10 ") != at {
		t.Errorf("a node:\n%s", got)
	}
	if got := click("default-p10 ", tea.MouseLeft); !strings.HasPrefix(got, "NodeClaim default-p10") {
		t.Fatalf("the node again:\n%s", got)
	}
	click("shop/web-10-0", tea.MouseLeft)
	if got := click("shop/web-10-0", tea.MouseLeft); !strings.HasPrefix(got, "slipway explain pod shop/web-10-0") {
		t.Errorf("a pod:\n%s", got)
	}
}

// A cluster that cannot be read any more leaves what was read, and says so.
func TestFailures(t *testing.T) {
	fail := errors.New("connection \x1b[31mrefused")
	s := cluster(0.04)
	r := started(t, top.Config{Load: func() (top.Snapshot, error) { return s, fail }})
	if got := r.screen(); !strings.Contains(got, "cannot be read") || !strings.Contains(got, `connection \u001b[31mrefused`) {
		t.Errorf("at first:\n%s", got)
	}
	fail = nil
	r.send(r.model.Init()())
	fail = errors.New("connection refused")
	r.send(r.model.Init()())
	if got := r.screen(); !strings.Contains(got, "Not read since then: connection refused") || !strings.Contains(got, "default-z0") {
		t.Errorf("later:\n%s", got)
	}
}

// Colors come where they are wanted alone; bars are of ASCII where that is all there is.
func TestColors(t *testing.T) {
	load := func() (top.Snapshot, error) { return cluster(0.04, 0.08, 0.16, 0.32, 0.64, 1.28), nil }
	plain, colors := started(t, top.Config{Load: load}), started(t, top.Config{Load: load, Color: true})
	if diff := cmp.Diff(plain.screen(), colors.screen()); diff != "" {
		t.Errorf("the text differs:\n%s", diff)
	}
	for _, sgr := range []string{"\x1b[31m", "\x1b[32m", "\x1b[33m"} {
		if has := strings.Contains(plain.model.View().Content, sgr); has {
			t.Errorf("%q without colors", sgr)
		}
		if has := strings.Contains(colors.model.View().Content, sgr); !has {
			t.Errorf("no %q with colors", sgr)
		}
	}
	ascii := started(t, top.Config{Load: load, ASCII: true}).screen()
	if strings.ContainsAny(ascii, "█░") || !strings.Contains(ascii, "##") {
		t.Errorf("bars:\n%s", ascii)
	}
}

// Names of others are shown, and a terminal obeys none of them.
func TestNamesAreNotObeyed(t *testing.T) {
	s := cluster(0.04, 0.08)
	const evil = "\x1b[2J\r\u202e\u009b31m\n"
	for i := range s.Overview.Nodes {
		n := &s.Overview.Nodes[i]
		n.NodePool, n.InstanceType, n.Zone, n.CapacityType, n.Why = evil, evil, evil, evil, evil
	}
	s.Overview.Pending[0].Why, s.Overview.NotReady[0].Message = evil, evil
	r := started(t, top.Config{Load: func() (top.Snapshot, error) { return s, nil }, Explain: func(string) (string, error) { return evil, nil }})
	for _, keys := range []string{"", "<enter>", "<enter>", "<esc><esc><end><enter>"} {
		r.keys(keys)
		shown := strings.NewReplacer("\x1b[1m", "", "\x1b[2m", "", "\x1b[7m", "", "\x1b[m", "").Replace(r.model.View().Content)
		if strings.ContainsAny(shown, "\x1b\r\u202e\u009b") {
			t.Errorf("after %q: %q", keys, shown)
		}
		r.fits()
	}
}

// Any size of a terminal is filled, and no more.
func TestSizes(t *testing.T) {
	load := func() (top.Snapshot, error) { return cluster(make([]float64, 30)...), nil }
	for _, size := range [][2]int{{1, 1}, {20, 6}, {40, 10}, {80, 24}, {120, 40}, {300, 100}} {
		for _, keys := range []rune{tea.KeyHome, tea.KeyEnd, tea.KeyEnter} {
			m := tea.Model(top.New(top.Config{Load: load, Explain: func(string) (string, error) { return "", nil }}))
			m, _ = m.Update(m.Init()())
			m, _ = m.Update(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
			m, _ = m.Update(tea.KeyPressMsg{Code: keys})
			lines := strings.Split(ansi.Strip(m.View().Content), "\n")
			if len(lines) > max(size[1], 6) {
				t.Errorf("%v: %d lines", size, len(lines))
			}
			for _, l := range lines {
				if ansi.StringWidth(l) > max(size[0], 20) {
					t.Errorf("%v: %d cells: %s", size, ansi.StringWidth(l), l)
				}
			}
		}
	}
}
