package chart_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/strvals"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulerv1 "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"

	"github.com/slipway-k8s/slipway/launcher"
	"github.com/slipway-k8s/slipway/manifests"
	"github.com/slipway-k8s/slipway/manifests/chart"
)

const folder = "../charts/slipway"

// everything are values that turn all templates on.
func everything() map[string]any {
	return map[string]any{
		"settings":                   map[string]any{"clusterName": "prod", "interruptionQueue": "prod-events", "reservedENIs": "1", "batchIdleDuration": "2s", "preferencePolicy": "Ignore", "handoverSelector": "team=a", "eksControlPlane": true, "featureGates": map[string]any{"nodeRepair": true, "reservedCapacity": false}},
		"serviceAccount":             map[string]any{"annotations": map[string]any{"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/r"}},
		"controller":                 map[string]any{"resources": map[string]any{"requests": map[string]any{"cpu": 1, "memory": "1Gi"}}, "env": []any{map[string]any{"name": "AWS_REGION", "value": "eu-west-1"}}, "metrics": map[string]any{"authenticated": true, "certificateSecret": "of-controller"}},
		"scheduler":                  map[string]any{"mode": "beside", "emulatedVersion": "1.34", "args": map[string]any{"spotSharePercent": 30}, "certificateSecret": "of-scheduler", "serviceAccount": map[string]any{"separate": true}},
		"admission":                  map[string]any{"enabled": true, "scope": "cluster", "except": map[string]any{"fargate": []any{map[string]any{"namespace": "edge-*", "labels": map[string]any{"app": "web"}}}}},
		"serviceMonitor":             map[string]any{"enabled": true, "endpointConfig": map[string]any{"interval": "15s"}, "tlsConfig": verified(), "relabelings": []any{map[string]any{"action": "labeldrop", "regex": "pod"}}, "sampleLimit": 1000000},
		"networkPolicy":              map[string]any{"enabled": true, "probesFrom": []any{map[string]any{"ipBlock": map[string]any{"cidr": "10.0.0.0/16"}}}},
		"prometheusRule":             map[string]any{"enabled": true},
		"dashboard":                  map[string]any{"enabled": true},
		"additionalLabels":           map[string]any{"team": "platform"},
		"additionalAnnotations":      map[string]any{"owner": "platform"},
		"additionalClusterRoleRules": []any{map[string]any{"apiGroups": []any{""}, "resources": []any{"nodes/proxy"}, "verbs": []any{"get"}}},
		"initContainers":             []any{map[string]any{"name": "first", "image": "first:1"}},
		"schedulerName":              "another",
		"hostNetwork":                true,
		"logOutputPaths":             []any{"stdout", "/var/log/slipway/controller.log"},
		"imagePullSecrets":           []any{map[string]any{"name": "pull"}},
		"podLabels":                  map[string]any{"a": "b"},
	}
}

func render(t *testing.T, namespace string, values map[string]any) objects {
	t.Helper()
	documents, err := chart.Release{Chart: folder, Name: "slipway", Namespace: namespace, Values: values}.Render()
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, documents)
}

func minimal() map[string]any {
	return map[string]any{"settings": map[string]any{"clusterName": "prod"}}
}

func TestEveryTemplateIsStrictlyDecoded(t *testing.T) {
	templates, err := filepath.Glob(folder + "/templates/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got := render(t, "scheduling", everything())
	if len(got) < len(templates) {
		t.Errorf("%d objects of %d templates", len(got), len(templates))
	}
	for id, o := range got {
		if o.GetLabels()["team"] != "platform" || o.GetAnnotations()["owner"] != "platform" {
			t.Errorf("%s has not the labels and annotations of all: %v, %v", id, o.GetLabels(), o.GetAnnotations())
		}
	}
	account := got["ServiceAccount scheduling/slipway"]
	if account.GetAnnotations()["eks.amazonaws.com/role-arn"] == "" {
		t.Errorf("annotations %v", account.GetAnnotations())
	}
}

// The sandbox, and so every end-to-end test, runs under the rules of manifests/rbac: the chart has these and no others.
func TestRulesAreTheSandboxs(t *testing.T) {
	want, err := manifests.RBAC()
	if err != nil {
		t.Fatal(err)
	}
	rules := map[string][]rbacv1.PolicyRule{}
	for _, role := range want.ClusterRoles {
		rules["ClusterRole "+role.Name] = role.Rules
	}
	for _, role := range want.Roles {
		rules["Role "+role.Namespace+"/"+role.Name] = role.Rules
	}
	got := map[string][]rbacv1.PolicyRule{}
	values := minimal()
	values["controller"] = map[string]any{"metrics": map[string]any{"authenticated": true}, "api": map[string]any{"enabled": true}}
	objects := render(t, "kube-system", values)
	for id, o := range objects {
		switch role := o.(type) {
		case *rbacv1.ClusterRole:
			got[id] = role.Rules
		case *rbacv1.Role:
			got[id] = role.Rules
		}
	}
	if diff := cmp.Diff(rules, got); diff != "" {
		t.Errorf("-rbac +chart\n%s", diff)
	}
	for id := range got {
		bound(t, objects, id, "kube-system")
	}
}

func bound(t *testing.T, o objects, role, namespace string) {
	t.Helper()
	kind, name, _ := strings.Cut(role, " ")
	var ref rbacv1.RoleRef
	var subjects []rbacv1.Subject
	switch binding := o[kind+"Binding "+name].(type) {
	case *rbacv1.ClusterRoleBinding:
		ref, subjects = binding.RoleRef, binding.Subjects
	case *rbacv1.RoleBinding:
		ref, subjects = binding.RoleRef, binding.Subjects
	}
	if ref.Kind != kind || ref.Name != filepath.Base(name) || ref.APIGroup != rbacv1.GroupName {
		t.Errorf("%s is bound as %+v", role, ref)
	}
	want := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: "slipway"}}
	if diff := cmp.Diff(want, subjects); diff != "" {
		t.Errorf("%s: %s", role, diff)
	}
}

// In another namespace the Lease is there, and what belongs to kube-system stays there.
func TestRulesInAnotherNamespace(t *testing.T) {
	got := render(t, "scheduling", minimal())
	for _, role := range []string{
		"Role scheduling/slipway-scheduler", "Role scheduling/slipway-launcher", "Role kube-system/slipway-scheduler-authentication",
		"Role kube-node-lease/slipway-launcher", "ClusterRole slipway-scheduler", "ClusterRole slipway-launcher",
	} {
		if got[role] == nil {
			t.Errorf("there is no %s but %v", role, slices.Sorted(maps.Keys(got)))
			continue
		}
		bound(t, got, role, "scheduling")
	}
}

func TestBothProgramsReadTheirFiles(t *testing.T) {
	replaces := minimal()
	replaces["schedulerName"], replaces["scheduler"] = "another", map[string]any{"mode": "replace"}
	for name, values := range map[string]map[string]any{"minimal": minimal(), "everything": everything(), "replaces": replaces} {
		config := render(t, "scheduling", values)["ConfigMap scheduling/slipway"].(*corev1.ConfigMap)
		var scheduler schedulerv1.KubeSchedulerConfiguration
		if err := yaml.UnmarshalStrict([]byte(config.Data["scheduler.yaml"]), &scheduler); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if scheduler.LeaderElection.ResourceNamespace != "scheduling" || len(scheduler.Profiles) != 1 {
			t.Errorf("%s: %+v", name, scheduler)
		}
		settings := settingsOf(t, config, containers(t, values)["controller"])
		if older := slices.Contains(containers(t, values)["scheduler"].Args, "--emulated-version=kube=1.34"); older != (name == "everything") {
			t.Errorf("%s: emulates 1.34: %t", name, older)
		}
		if err := settings.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if name == "everything" {
			allReach(t, scheduler, settings)
		}
	}
}

// allReach holds that the values of everything reach the two programs.
func allReach(t *testing.T, scheduler schedulerv1.KubeSchedulerConfiguration, settings launcher.Settings) {
	t.Helper()
	args := string(scheduler.Profiles[0].PluginConfig[0].Args.Raw)
	for _, want := range []string{`"batchIdle":"2s"`, `"preferencePercent":0`, `"spotSharePercent":30`, `"socket":"/run/slipway/launcher.sock"`} {
		if !strings.Contains(args, want) {
			t.Errorf("arguments of NodeLaunch lack %s: %s", want, args)
		}
	}
	if gates, err := launcher.ParseGates(settings.FeatureGates); err != nil || !gates.NodeRepair || gates.SpotToSpotConsolidation {
		t.Errorf("feature gates %q: %+v, %v", settings.FeatureGates, gates, err)
	}
	if !settings.MetricsAuthentication || settings.MetricsCertDir != "/etc/slipway-certificate" {
		t.Errorf("metrics: %+v", settings)
	}
	if settings.LogOutputPaths != "stdout,/var/log/slipway/controller.log" {
		t.Errorf("the log goes to %s", settings.LogOutputPaths)
	}
	if settings.ReservedENIs != 1 || settings.HandoverSelector != "team=a" || settings.InterruptionQueue != "prod-events" {
		t.Errorf("settings %+v", settings)
	}
}

// Controller and scheduler read the memory limit of their containers, where they have one.
func TestMemoryLimit(t *testing.T) {
	resources := func(of any) map[string]any {
		out := minimal()
		out["controller"], out["scheduler"] = map[string]any{"resources": of}, map[string]any{"resources": of}
		return out
	}
	for name, values := range map[string]map[string]any{
		"limited": minimal(), "without a limit": resources(map[string]any{"limits": map[string]any{"memory": nil}}), "without resources": resources(nil),
	} {
		for _, container := range containers(t, values) {
			i := slices.IndexFunc(container.Env, func(e corev1.EnvVar) bool { return e.Name == "MEMORY_LIMIT" })
			if name != "limited" {
				if i >= 0 {
					t.Errorf("%s: %s has %+v", name, container.Name, container.Env[i])
				}
				continue
			}
			if i < 0 || container.Env[i].ValueFrom.ResourceFieldRef.Resource != "limits.memory" || container.Env[i].ValueFrom.ResourceFieldRef.ContainerName != container.Name {
				t.Errorf("%s: %s has %+v", name, container.Name, container.Env)
			}
		}
	}
}

// settingsOf are those that the launcher reads from its file and its container's environment.
func settingsOf(t *testing.T, config *corev1.ConfigMap, container corev1.Container) launcher.Settings {
	t.Helper()
	path := filepath.Join(t.TempDir(), "launcher.yaml")
	if err := os.WriteFile(path, []byte(config.Data["launcher.yaml"]), 0o600); err != nil {
		t.Fatal(err)
	}
	settings := launcher.Defaults()
	if err := settings.Load(path); err != nil {
		t.Fatal(err)
	}
	err := settings.FromEnvironment(func(name string) string {
		i := slices.IndexFunc(container.Env, func(e corev1.EnvVar) bool { return e.Name == name })
		if i < 0 {
			return ""
		}
		return container.Env[i].Value
	})
	if err != nil {
		t.Error(err)
	}
	return settings
}

func containers(t *testing.T, values map[string]any) map[string]corev1.Container {
	t.Helper()
	deployment := render(t, "scheduling", values)["Deployment scheduling/slipway"].(*appsv1.Deployment)
	out := map[string]corev1.Container{}
	for _, c := range deployment.Spec.Template.Spec.Containers {
		out[c.Name] = c
	}
	return out
}

func TestDeploymentIsConfinedAndApart(t *testing.T) {
	deployment := render(t, "scheduling", minimal())["Deployment scheduling/slipway"].(*appsv1.Deployment)
	pod := deployment.Spec.Template.Spec
	if *deployment.Spec.Replicas != 2 || pod.PriorityClassName != "system-cluster-critical" || pod.SchedulerName == "slipway" {
		t.Errorf("%d replicas, priority class %q, scheduler %q", *deployment.Spec.Replicas, pod.PriorityClassName, pod.SchedulerName)
	}
	if s := pod.SecurityContext; !*s.RunAsNonRoot || *s.RunAsUser == 0 || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("security context %+v", s)
	}
	for _, c := range pod.Containers {
		confined(t, c)
	}
	apart := pod.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	for _, selector := range []map[string]string{apart[0].LabelSelector.MatchLabels, pod.TopologySpreadConstraints[0].LabelSelector.MatchLabels} {
		if diff := cmp.Diff(deployment.Spec.Selector.MatchLabels, selector); diff != "" {
			t.Errorf("its Pods are not what keeps it apart: %s", diff)
		}
	}
}

// confined holds that the container can do no harm, is watched, and sees the socket, whose folder the launcher makes: a volume itself may be
// written to by every user.
func confined(t *testing.T, c corev1.Container) {
	t.Helper()
	s := c.SecurityContext
	if !*s.ReadOnlyRootFilesystem || *s.AllowPrivilegeEscalation || !slices.Contains(s.Capabilities.Drop, "ALL") {
		t.Errorf("%s: %+v", c.Name, s)
	}
	if c.LivenessProbe == nil || c.ReadinessProbe == nil || c.Resources.Requests.Cpu().IsZero() || c.Resources.Limits.Memory().IsZero() {
		t.Errorf("%s lacks probes or resources", c.Name)
	}
	if !slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "socket" && m.MountPath == "/run" }) {
		t.Errorf("%s does not see the socket", c.Name)
	}
	for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe} {
		if !slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == probe.HTTPGet.Port.StrVal }) {
			t.Errorf("%s has no port %s", c.Name, probe.HTTPGet.Port.StrVal)
		}
	}
}

// The schema has each setting of the launcher by its name; settings that the Pod fixes are not for users.
func TestSchemaKnowsTheSettings(t *testing.T) {
	text, err := os.ReadFile(folder + "/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties map[string]struct{ Properties map[string]any }
	}
	if err := yaml.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{"batchIdleDuration": true, "batchMaxDuration": true, "preferencePolicy": true, "eksControlPlane": true, "disableClusterStateObservability": true, "disableDryRun": true}
	for field := range reflect.TypeFor[launcher.Settings]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if !slices.Contains([]string{"socket", "metricsAddress", "metricsAuthentication", "metricsCertDir", "apiAddress", "apiCertDir", "healthProbeAddress", "logOutputPaths", "memoryLimit"}, name) {
			want[name] = true
		}
	}
	got := map[string]bool{}
	for name := range schema.Properties["settings"].Properties {
		got[name] = true
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-settings +schema\n%s", diff)
	}
}

func TestSchemaRefuses(t *testing.T) {
	for wrong, values := range map[string]map[string]any{
		"no cluster":            {},
		"a setting of nobody's": {"settings": map[string]any{"clusterName": "a", "clusterNmae": "b"}},
		"a value of nobody's":   {"settings": map[string]any{"clusterName": "a"}, "replica": 1},
		"its own scheduler":     {"settings": map[string]any{"clusterName": "a"}, "schedulerName": "slipway"},
		"its own Pods":          {"settings": map[string]any{"clusterName": "a"}, "scheduler": map[string]any{"mode": "replace"}},
		"its own Pods unnamed":  {"settings": map[string]any{"clusterName": "a"}, "scheduler": map[string]any{"mode": "replace"}, "schedulerName": ""},
		"a mode that is not":    {"settings": map[string]any{"clusterName": "a"}, "scheduler": map[string]any{"mode": "both"}},
		"no verification":       monitored(map[string]any{"serverName": "slipway", "caFile": "/ca.crt", "insecureSkipVerify": true}),
		"no authority":          monitored(map[string]any{"serverName": "slipway"}),
		"no name":               monitored(map[string]any{"caFile": "/ca.crt"}),
		"the scheduler's name":  {"settings": map[string]any{"clusterName": "a"}, "controller": map[string]any{"containerName": "scheduler"}},
		"privileges":            {"settings": map[string]any{"clusterName": "a"}, "controller": map[string]any{"securityContext": map[string]any{"privileged": true}}},
		"a fraction of words":   {"settings": map[string]any{"clusterName": "a", "commitmentShare": "half"}},
		"a gate of nobody's":    {"settings": map[string]any{"clusterName": "a", "featureGates": map[string]any{"nodeRepare": true}}},
	} {
		_, err := chart.Release{Chart: folder, Name: "slipway", Namespace: "kube-system", Values: values}.Render()
		if err == nil {
			t.Errorf("%s is accepted", wrong)
		}
	}
}

// helm --set reads integers alone, and gives the chart a fraction as a text.
func TestFractionsBySet(t *testing.T) {
	values, err := strvals.Parse("settings.clusterName=a,settings.vmMemoryOverheadPercent=0.05,settings.consolidationMinSaving=0.5,settings.commitmentShare=0.25,settings.interruptionCost=2")
	if err != nil {
		t.Fatal(err)
	}
	objects := render(t, "scheduling", values)
	got := settingsOf(t, objects["ConfigMap scheduling/slipway"].(*corev1.ConfigMap), corev1.Container{})
	if got.VMMemoryOverheadPercent != 0.05 || got.ConsolidationMinSaving != 0.5 || got.CommitmentShare != 0.25 || got.InterruptionCost != 2 {
		t.Errorf("settings: %+v", got)
	}
}

func TestPack(t *testing.T) {
	for name, file := range map[string]string{"slipway": "slipway-1.2.3.tgz", "slipway-crds": "slipway-crds-1.2.3.tgz"} {
		path, err := chart.Pack("../charts/"+name, "v1.2.3", t.TempDir(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(path) != file {
			t.Errorf("%s is %s", name, path)
		}
		documents, err := chart.Release{Chart: path, Name: name, Namespace: "kube-system", Values: minimal()}.Render()
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(slices.Sorted(maps.Keys(decode(t, documents))))
		for _, want := range map[string][]string{
			"slipway":      {"ClusterRole slipway-launcher", "Deployment kube-system/slipway"},
			"slipway-crds": {"CustomResourceDefinition nodepools.karpenter.sh", "CustomResourceDefinition ec2nodeclasses.karpenter.k8s.aws"},
		}[name] {
			if !strings.Contains(got, want) {
				t.Errorf("%s has no %s: %s", name, want, got)
			}
		}
	}
}
