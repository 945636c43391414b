package manifests_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
)

// alertOf is the alert of a name.
func alertOf(t *testing.T, name string) alert {
	t.Helper()
	all := alerts(t)
	i := slices.IndexFunc(all, func(r alert) bool { return r.Alert == name })
	if i < 0 {
		t.Fatalf("there is no alert %s", name)
	}
	return all[i]
}

// errorCodes are all codes that ec2error classifies: those of its constants, and those that its functions list.
func errorCodes(t *testing.T) []ec2error.Code {
	t.Helper()
	var out []ec2error.Code
	add := func(e ast.Expr) {
		if text, ok := e.(*ast.BasicLit); ok && text.Kind == token.STRING {
			code, err := strconv.Unquote(text.Value)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, ec2error.Code(code))
		}
	}
	for _, name := range []string{"codes.go", "classify.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), "../launcher/catalog/ec2error/"+name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				for _, value := range n.Values {
					add(value)
				}
			case *ast.CompositeLit:
				for _, element := range n.Elts {
					add(element)
				}
			}
			return true
		})
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// A lack of capacity fires no alert about refusals. All other codes do, full subnets as well; those of an AWS that throttles, fails or does not answer are
// not counted as refusals.
func TestAlertOfRefusalsIsOfWhatStays(t *testing.T) {
	selector := regexp.MustCompile(`code!~"([^"]*)"`).FindStringSubmatch(alertOf(t, "SlipwayLaunchRefused").Expr)
	if selector == nil {
		t.Fatal("the alert selects no codes")
	}
	// Prometheus anchors the expressions of its selectors.
	passes, err := regexp.Compile("^(?:" + selector[1] + ")$")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, code := range errorCodes(t) {
		class, want := "other", false
		switch {
		case code.IsAddress():
			class = "address"
		case code.IsThrottled():
			class = "throttled"
		case code.IsServersFault():
			class = "AWS's fault"
		case code.IsCapacity():
			class, want = "capacity", true
		case code.IsQuota():
			class = "quota"
		case code.IsDenied():
			class = "denied"
		}
		found[class]++
		if got := passes.MatchString(string(code)); got != want {
			t.Errorf("%s (%s) is left out: %t, want %t", code, class, got, want)
		}
	}
	for class, least := range map[string]int{"address": 2, "throttled": 9, "AWS's fault": 7, "capacity": 11, "quota": 11, "denied": 11, "other": 30} {
		if found[class] < least {
			t.Errorf("%d codes of class %s, at least %d are expected", found[class], class, least)
		}
	}
}

// An alert whose cause stays goes on: launches elsewhere do not end it, and two kubelets that reject pods are enough, since pre-binding is off then.
func TestAlertsStayWithTheirCause(t *testing.T) {
	for name, want := range map[string]struct{ expr, forTime, severity string }{
		"SlipwayPodsUnplaced":   {`sum(increase(slipway_planned_pods_total{outcome=~"unplaced|refused"}[10m])) > 0`, "30m", "warning"},
		"SlipwayKubeletsReject": {`sum by (nodepool, reason) (increase(slipway_prebind_rejected_total[30m])) > 0`, "", "warning"},
		"SlipwayNodePoolHeld":   {`max by (nodepool) (slipway_nodepool_held) > 0`, "10m", "critical"},
	} {
		if got := alertOf(t, name); got.Expr != want.expr || got.For != want.forTime || got.Labels["severity"] != want.severity {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

// docs/troubleshooting.md has a row for each alert, which names where to go on.
func TestAlertsAreInTroubleshooting(t *testing.T) {
	_, section, found := strings.Cut(read(t, "../docs/troubleshooting.md"), "\n## Alerts\n")
	if !found {
		t.Fatal("docs/troubleshooting.md has no section Alerts")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var rows, want []string
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 || !strings.Contains(cells[1], "`") {
			continue
		}
		if !strings.Contains(cells[2], "](") {
			t.Errorf("%s has no link", line)
		}
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[1], -1) {
			rows = append(rows, name[1])
		}
	}
	for _, r := range alerts(t) {
		want = append(want, r.Alert)
	}
	slices.Sort(rows)
	slices.Sort(want)
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("-rules.yaml +docs/troubleshooting.md\n%s", diff)
	}
}

// Each link of that section leads to a heading.
func TestAlertsLeadToHeadings(t *testing.T) {
	page := read(t, "../docs/troubleshooting.md")
	_, section, _ := strings.Cut(page, "\n## Alerts\n")
	section, _, _ = strings.Cut(section, "\n## ")
	links := regexp.MustCompile(`\]\(([a-z-]*\.md)?#([a-z-]+)\)`).FindAllStringSubmatch(section, -1)
	if len(links) < 10 {
		t.Errorf("%d links were found", len(links))
	}
	for _, link := range links {
		text := page
		if link[1] != "" {
			text = read(t, "../docs/"+link[1])
		}
		if !slices.ContainsFunc(regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1), func(heading []string) bool {
			return strings.ReplaceAll(strings.ToLower(regexp.MustCompile(`[^A-Za-z0-9 -]`).ReplaceAllString(heading[1], "")), " ", "-") == link[2]
		}) {
			t.Errorf("%s leads to no heading", link[0])
		}
	}
}
