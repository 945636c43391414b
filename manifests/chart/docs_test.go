package chart_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/strvals"
	corev1 "k8s.io/api/core/v1"
	schedulerv1 "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"

	"github.com/slipway-k8s/slipway/manifests/chart"
)

// Each --set of the documentation is one that the chart takes.
func TestDocumentedValues(t *testing.T) {
	paths, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	set := regexp.MustCompile(`--set (\S+)`)
	found := 0
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range set.FindAllStringSubmatch(string(text), -1) {
			found++
			values := minimal()
			// The shell takes the quotes away.
			value := strings.NewReplacer(`"`, "", "'", "", "`", "").Replace(match[1])
			if err := strvals.ParseInto(strings.TrimRight(value, ",."), values); err != nil {
				t.Errorf("%s: --set %s: %v", path, match[1], err)
				continue
			}
			if settings := values["settings"].(map[string]any); settings["clusterName"] == "" {
				settings["clusterName"] = "prod"
			}
			if _, err := (chart.Release{Chart: folder, Name: "slipway", Namespace: "kube-system", Values: values}).Render(); err != nil {
				t.Errorf("%s: --set %s: %v", path, match[1], err)
			}
		}
	}
	if found < 10 {
		t.Errorf("%d values were found", found)
	}
}

// pageOf is a page of the documentation.
func pageOf(t *testing.T, name string) string {
	t.Helper()
	return string(fileOf(t, filepath.Join("../../docs", name)))
}

// Each command that installs the chart names the cluster, the version of its API server and both images: none is published.
func TestDocumentedInstallsAreWhole(t *testing.T) {
	install := regexp.MustCompile(`helm upgrade --install slipway (?:.*\\\n)*.*`)
	found := 0
	for _, page := range []string{"getting-started.md", "migrate.md"} {
		for _, command := range install.FindAllString(pageOf(t, page), -1) {
			found++
			for _, value := range []string{"settings.clusterName", "settings.interruptionQueue", "scheduler.emulatedVersion", "scheduler.image.repository", "controller.image.repository"} {
				if !strings.Contains(command, "--set "+value+"=") {
					t.Errorf("%s: no %s in\n%s", page, value, command)
				}
			}
		}
	}
	if found != 2 {
		t.Errorf("%d commands were found", found)
	}
}

// Where another autoscaler is stopped, slipway adopts the default scheduler's pods before: nothing else would launch for them.
func TestPodsAreAdoptedBeforeAnAutoscalerStops(t *testing.T) {
	page := pageOf(t, "migrate.md")
	for _, heading := range []string{"\n### 5b. All of them\n", "\n## From Cluster Autoscaler\n"} {
		_, section, found := strings.Cut(page, heading)
		section, _, _ = strings.Cut(section, "\n## ")
		adopted, stopped := strings.Index(section, "'scheduler.args.adopt={default-scheduler}'"), strings.Index(section, "--replicas 0")
		if !found || adopted < 0 || stopped < adopted {
			t.Errorf("%s: pods are adopted at %d, the autoscaler stops at %d", strings.TrimSpace(heading), adopted, stopped)
		}
	}
	for _, c := range []struct {
		text, want string
		parse      func(text string, into map[string]any) error
	}{
		{"--set 'scheduler.args.adopt={default-scheduler}'", `"adopt":["default-scheduler"]`, strvals.ParseInto},
		{"--set-json 'scheduler.args.adopt=[]'", `"adopt":[]`, strvals.ParseJSON},
	} {
		values := minimal()
		if err := c.parse(strings.Split(c.text, "'")[1], values); err != nil {
			t.Fatal(err)
		}
		var scheduler schedulerv1.KubeSchedulerConfiguration
		config := render(t, "kube-system", values)["ConfigMap kube-system/slipway"].(*corev1.ConfigMap)
		if err := yaml.UnmarshalStrict([]byte(config.Data["scheduler.yaml"]), &scheduler); err != nil {
			t.Fatal(err)
		}
		if args := string(scheduler.Profiles[0].PluginConfig[0].Args.Raw); !strings.Contains(args, c.want) || !strings.Contains(page, c.text) {
			t.Errorf("%s is in no command, or makes the arguments %s", c.text, args)
		}
	}
}

// CRDs that no release owns are marked all: those of the chart and no others.
func TestDocumentedCRDsAreTheCharts(t *testing.T) {
	crds, err := chart.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	marked := regexp.MustCompile(`kubectl (?:label|annotate) --overwrite crd (?:.*\\\n)*.*`).FindAllString(pageOf(t, "getting-started.md"), -1)
	if len(marked) != 2 {
		t.Errorf("%d commands were found", len(marked))
	}
	for _, command := range marked {
		text := strings.ReplaceAll(command, "{nodepools,nodeclaims,nodeoverlays}.karpenter.sh", "nodepools.karpenter.sh nodeclaims.karpenter.sh nodeoverlays.karpenter.sh")
		names := regexp.MustCompile(`\S+\.(?:karpenter\.sh|karpenter\.k8s\.aws|autoscaling\.x-k8s\.io)\b`).FindAllString(text, -1)
		var want []string
		for _, crd := range crds {
			want = append(want, strings.TrimSuffix(filepath.Base(crd.Name), ".yaml"))
		}
		slices.Sort(names)
		slices.Sort(want)
		if diff := cmp.Diff(want, names); diff != "" {
			t.Errorf("-chart +command\n%s\n%s", diff, command)
		}
	}
}

// No page removes the CRDs of Karpenter's chart without having its release keep them first.
func TestCRDsAreKeptWhereTheirReleaseGoes(t *testing.T) {
	const uninstall, keep = "helm uninstall karpenter-crd", `--set additionalAnnotations."helm\.sh/resource-policy"=keep`
	page := pageOf(t, "migrate.md")
	if kept := strings.Index(page, keep); kept < 0 || strings.Index(page, uninstall) < kept {
		t.Errorf("the CRDs are kept at %d and their release goes at %d", kept, strings.Index(page, uninstall))
	}
}

// Installations of Cluster Autoscaler have no label in common: no command looks for them by one.
func TestClusterAutoscalerIsNotFoundByLabel(t *testing.T) {
	if by := regexp.MustCompile(`-l \S*cluster-autoscaler`).FindString(pageOf(t, "migrate.md")); by != "" {
		t.Errorf("%s does not find those of its official chart", by)
	}
}
