package manifests_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// literals are the strings of a file that registers metrics.
type literals map[string]bool

// registers says whether a file has a metric's name: as a whole, or as namespace, subsystem and name.
func (l literals) registers(metric string) bool {
	if l[metric] {
		return true
	}
	for i, r := range metric {
		if r == '_' && l[metric[:i]] && l.registers(metric[i+1:]) {
			return true
		}
	}
	return false
}

// registering are all files metrics.go of the two binaries.
func registering(t *testing.T) []literals {
	t.Helper()
	var out []literals
	for _, root := range []string{"../launcher", "../plugin"} {
		err := filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
			if err != nil || filepath.Base(path) != "metrics.go" {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			found := literals{}
			ast.Inspect(file, func(n ast.Node) bool {
				if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
					if text, err := strconv.Unquote(l.Value); err == nil {
						found[text] = true
					}
				}
				return true
			})
			out = append(out, found)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// expressions are all queries of the dashboard and of the alerts, by where they stand.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, "monitoring/dashboard.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, panel := range dashboard.Panels {
		for i, target := range panel.Targets {
			out["panel "+panel.Title+" "+strconv.Itoa(i)] = target.Expr
		}
	}
	var rules struct {
		Groups []struct {
			Name  string `json:"name"`
			Rules []struct {
				Alert       string            `json:"alert"`
				Expr        string            `json:"expr"`
				For         string            `json:"for"`
				Labels      map[string]string `json:"labels"`
				Annotations map[string]string `json:"annotations"`
			} `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.UnmarshalStrict([]byte(read(t, "monitoring/rules.yaml")), &rules); err != nil {
		t.Fatal(err)
	}
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			out["alert "+rule.Alert] = rule.Expr
			if rule.Labels["severity"] == "" || rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
				t.Errorf("alert %s says not how bad it is, what, and what to do: %+v", rule.Alert, rule)
			}
		}
	}
	return out
}

func TestQueriesNameMetricsThatExist(t *testing.T) {
	files := registering(t)
	// kube-scheduler's own.
	stock := []string{"scheduler_pending_pods"}
	name := regexp.MustCompile(`\b(?:slipway|karpenter|scheduler|controller_runtime|workqueue)_[a-z0-9_]+`)
	total := 0
	all := expressions(t)
	for _, where := range slices.Sorted(maps.Keys(all)) {
		metrics := name.FindAllString(all[where], -1)
		if len(metrics) == 0 {
			t.Errorf("%s names no metric: %s", where, all[where])
		}
		for _, metric := range metrics {
			total++
			base := metric
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				base = strings.TrimSuffix(base, suffix)
			}
			if !slices.Contains(stock, base) && !slices.ContainsFunc(files, func(l literals) bool { return l.registers(base) }) {
				t.Errorf("%s: no binary registers %s", where, base)
			}
		}
		if strings.Count(all[where], "(") != strings.Count(all[where], ")") {
			t.Errorf("%s: %s", where, all[where])
		}
	}
	if total < 20 {
		t.Errorf("%d metrics were found", total)
	}
}
