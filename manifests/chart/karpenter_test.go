package chart_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chartutil"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-k8s/slipway/manifests/chart"
)

// karpenters are the values of Karpenter's chart, from Karpenter's module, for a cluster.
func karpenters(t *testing.T) map[string]any {
	t.Helper()
	source, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/aws/karpenter-provider-aws").Output()
	if err != nil {
		t.Fatal(err)
	}
	values, err := chartutil.ReadValuesFile(filepath.Join(strings.TrimSpace(string(source)), "charts/karpenter/values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	values["settings"].(map[string]any)["clusterName"] = "prod"
	return values
}

// A file with all of Karpenter's values installs the same Pods as no file, but for what it says.
func TestKarpentersValues(t *testing.T) {
	values := karpenters(t)
	_, err := chart.Release{Chart: folder, Name: "slipway", Namespace: "scheduling", Values: values}.Render()
	if err == nil || !strings.Contains(err.Error(), "is Karpenter's image") {
		t.Errorf("Karpenter's image runs as the launcher: %v", err)
	}
	delete(values["controller"].(map[string]any), "image")
	got := render(t, "scheduling", values)
	pod := got["Deployment scheduling/slipway"].(*appsv1.Deployment).Spec.Template.Spec
	for _, c := range pod.Containers {
		confined(t, c)
	}
	want := render(t, "scheduling", minimal())["Deployment scheduling/slipway"].(*appsv1.Deployment).Spec.Template.Spec
	want.TerminationGracePeriodSeconds = nil                                   // Karpenter's value is null, which is Kubernetes' 30.
	want.TopologySpreadConstraints[0].WhenUnsatisfiable = corev1.DoNotSchedule // Karpenter's.
	if diff := cmp.Diff(want, pod); diff != "" {
		t.Errorf("-without values +with Karpenter's\n%s", diff)
	}
	if got["PodDisruptionBudget scheduling/karpenter"] == nil {
		t.Error("the PodDisruptionBudget has not the name of the values")
	}
	settings := settingsOf(t, got["ConfigMap scheduling/slipway"].(*corev1.ConfigMap), containers(t, values)["controller"])
	if err := settings.Validate(); err != nil {
		t.Error(err)
	}
}

// What has no meaning here is taken, and reaches neither program.
func TestKarpentersValuesWithoutEffect(t *testing.T) {
	values := minimal()
	values["logErrorOutputPaths"] = []any{"/var/log/errors"}
	values["settings"].(map[string]any)["disableDryRun"], values["settings"].(map[string]any)["disableClusterStateObservability"] = true, true
	if diff := cmp.Diff(render(t, "scheduling", minimal()), render(t, "scheduling", values)); diff != "" {
		t.Errorf("-without +with\n%s", diff)
	}
}

// Containers that users add run as they say, and what they change of the controller's leaves its confinement.
func TestContainersOfTheUser(t *testing.T) {
	values := minimal()
	profile := map[string]any{"type": "RuntimeDefault"}
	mount := func(name string) map[string]any { return map[string]any{"name": name, "mountPath": "/" + name} }
	values["initContainers"] = []any{map[string]any{"name": "first", "image": "first:1"}}
	values["controller"] = map[string]any{
		"containerName":       "launcher",
		"securityContext":     map[string]any{"appArmorProfile": profile, "seLinuxOptions": map[string]any{}},
		"sidecarContainer":    []any{map[string]any{"name": "proxy", "image": "proxy:1", "volumeMounts": []any{mount("own")}}, map[string]any{"name": "logs", "image": "logs:1"}},
		"sidecarVolumeMounts": []any{mount("sidecars")},
		"extraVolumeMounts":   []any{mount("extra")},
	}
	pod := render(t, "scheduling", values)["Deployment scheduling/slipway"].(*appsv1.Deployment).Spec.Template.Spec
	if len(pod.InitContainers) != 1 || pod.InitContainers[0].Image != "first:1" {
		t.Errorf("init containers %+v", pod.InitContainers)
	}
	got := map[string][]string{}
	for _, c := range pod.Containers {
		got[c.Name] = nil
		for _, m := range c.VolumeMounts {
			got[c.Name] = append(got[c.Name], m.Name)
		}
	}
	want := map[string][]string{
		"scheduler": {"socket", "config"}, "launcher": {"socket", "config", "extra"}, "proxy": {"own", "extra", "sidecars"}, "logs": {"extra", "sidecars"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("containers and their mounts: -want +got\n%s", diff)
	}
	launcher := containers(t, values)["launcher"]
	confined(t, launcher)
	if s := launcher.SecurityContext; s.AppArmorProfile == nil || s.SELinuxOptions != nil || s.Privileged != nil {
		t.Errorf("security context %+v", s)
	}
	if ref := launcher.Env[0].ValueFrom.ResourceFieldRef; ref.ContainerName != "launcher" {
		t.Errorf("the memory limit is that of container %s", ref.ContainerName)
	}
	if other := containers(t, values)["scheduler"].SecurityContext; other.AppArmorProfile != nil {
		t.Errorf("the scheduler has the controller's %+v", other.AppArmorProfile)
	}
}

// Relabelings are the launcher's endpoint's, as in Karpenter's chart; the limit is that of each scrape.
func TestRelabelings(t *testing.T) {
	drop := []any{map[string]any{"action": "labeldrop", "regex": "pod"}}
	for name, values := range map[string]map[string]any{"verified": monitored(verified()), "and authenticated": authenticated(monitored(verified()))} {
		monitor := values["serviceMonitor"].(map[string]any)
		monitor["relabelings"], monitor["metricRelabelings"], monitor["sampleLimit"] = drop, drop, 2000000
		monitor["endpointConfig"] = map[string]any{"interval": "15s"}
		for port, e := range endpoints(t, values) {
			var want any
			if port == "http-metrics" {
				want = drop
			}
			if e["interval"] != "15s" || !cmp.Equal(want, e["relabelings"]) || !cmp.Equal(want, e["metricRelabelings"]) {
				t.Errorf("%s: endpoint %s: %v", name, port, e)
			}
		}
		rendered := render(t, "scheduling", values)["ServiceMonitor scheduling/slipway"].(*unstructured.Unstructured)
		if limit, _, err := unstructured.NestedFieldNoCopy(rendered.Object, "spec", "sampleLimit"); err != nil || limit != 2e6 {
			t.Errorf("%s: sampleLimit %v, %v", name, limit, err)
		}
	}
	unlimited := render(t, "scheduling", monitored(map[string]any{}))["ServiceMonitor scheduling/slipway"].(*unstructured.Unstructured)
	if _, found, _ := unstructured.NestedFieldNoCopy(unlimited.Object, "spec", "sampleLimit"); found {
		t.Error("there is a limit by default")
	}
}
