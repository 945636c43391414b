package chart_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/slipway-k8s/slipway/manifests/chart"
)

// verified is how Prometheus verifies certificates.
func verified() map[string]any {
	return map[string]any{"serverName": "slipway.scheduling.svc", "ca": map[string]any{"secret": map[string]any{"name": "ca", "key": "ca.crt"}}}
}

// monitored are values with a ServiceMonitor whose endpoints are verified so.
func monitored(tlsConfig map[string]any) map[string]any {
	values := minimal()
	values["serviceMonitor"] = map[string]any{"enabled": true, "tlsConfig": tlsConfig}
	return values
}

func authenticated(values map[string]any) map[string]any {
	values["controller"] = map[string]any{"metrics": map[string]any{"authenticated": true}}
	return values
}

// endpoints of the ServiceMonitor, by port.
func endpoints(t *testing.T, values map[string]any) map[string]map[string]any {
	t.Helper()
	monitor := render(t, "scheduling", values)["ServiceMonitor scheduling/slipway"].(*unstructured.Unstructured)
	list, _, err := unstructured.NestedSlice(monitor.Object, "spec", "endpoints")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string]any{}
	for _, e := range list {
		out[e.(map[string]any)["port"].(string)] = e.(map[string]any)
	}
	return out
}

// A token goes to servers that Prometheus verifies, and to no others.
func TestTokensGoToVerifiedServers(t *testing.T) {
	for name, c := range map[string]struct {
		values map[string]any
		tokens map[string]bool
	}{
		"by default":        {monitored(map[string]any{}), map[string]bool{"http-metrics": false}},
		"verified":          {monitored(verified()), map[string]bool{"http-metrics": false, "https-metrics": true}},
		"and authenticated": {authenticated(monitored(verified())), map[string]bool{"http-metrics": true, "https-metrics": true}},
	} {
		got := map[string]bool{}
		for port, e := range endpoints(t, c.values) {
			got[port] = e["bearerTokenFile"] != nil
			if diff := cmp.Diff(verified(), e["tlsConfig"]); got[port] && (diff != "" || e["scheme"] != "https") {
				t.Errorf("%s: %s sends a token by %v: %s", name, port, e["scheme"], diff)
			}
		}
		if diff := cmp.Diff(c.tokens, got); diff != "" {
			t.Errorf("%s: ports, and whether a token is sent to them: -want +got\n%s", name, diff)
		}
	}
	values := authenticated(monitored(map[string]any{}))
	if _, err := (chart.Release{Chart: folder, Name: "slipway", Namespace: "scheduling", Values: values}).Render(); err == nil {
		t.Error("authenticated metrics that Prometheus cannot verify are accepted")
	}
}

// The alerts are on metrics that Prometheus reads: without tlsConfig the ServiceMonitor has the launcher's endpoint alone.
func TestAlertsAreOnMetricsThatAreRead(t *testing.T) {
	launchers, _, found := strings.Cut(string(fileOf(t, "../../docs/metrics.md")), "## The scheduler\n")
	if !found {
		t.Fatal("docs/metrics.md has no metrics of the scheduler")
	}
	all := map[string]any{}
	if err := yaml.Unmarshal(fileOf(t, "../monitoring/rules.yaml"), &all); err != nil {
		t.Fatal(err)
	}
	for name, values := range map[string]map[string]any{
		"the launcher's alone": monitored(map[string]any{}), "all": monitored(verified()), "those of another monitor": minimal(),
	} {
		values["prometheusRule"] = map[string]any{"enabled": true}
		rules := render(t, "scheduling", values)["PrometheusRule scheduling/slipway"].(*unstructured.Unstructured)
		if name != "the launcher's alone" {
			if diff := cmp.Diff(all, rules.Object["spec"]); diff != "" {
				t.Errorf("%s: -rules.yaml +chart\n%s", name, diff)
			}
			continue
		}
		text, err := yaml.Marshal(rules.Object["spec"])
		if err != nil {
			t.Fatal(err)
		}
		metrics := regexp.MustCompile(`\bslipway_[a-z0-9_]+`).FindAllString(string(text), -1)
		if len(metrics) < 8 || !strings.Contains(string(text), "SlipwayNobodyLeads") {
			t.Errorf("alerts on %v alone", metrics)
		}
		for _, metric := range metrics {
			if !strings.Contains(launchers, "| `"+metric+"` |") {
				t.Errorf("an alert is on %s, which the launcher does not serve", metric)
			}
		}
	}
}

func fileOf(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Each container has its certificate where its arguments and settings say.
func TestCertificates(t *testing.T) {
	pod := render(t, "scheduling", everything())["Deployment scheduling/slipway"].(*appsv1.Deployment).Spec.Template.Spec
	for _, c := range pod.Containers {
		if got := mountOf(pod, c, "/etc/slipway-certificate"); got != "of-"+c.Name {
			t.Errorf("%s has the certificate %q", c.Name, got)
		}
		if c.Name == "scheduler" && !slices.Contains(c.Args, "--tls-private-key-file=/etc/slipway-certificate/tls.key") {
			t.Errorf("the scheduler does not use its certificate: %v", c.Args)
		}
	}
}

// The ports are open to peers that are named, and closed where none is.
func TestNetworkPolicy(t *testing.T) {
	policy := func(values map[string]any) *networkingv1.NetworkPolicy {
		all := minimal()
		all["networkPolicy"] = values
		out, _ := render(t, "scheduling", all)["NetworkPolicy scheduling/slipway"].(*networkingv1.NetworkPolicy)
		return out
	}
	if policy(map[string]any{}) != nil {
		t.Error("there is a NetworkPolicy by default")
	}
	block := []any{map[string]any{"ipBlock": map[string]any{"cidr": "10.0.0.0/16"}}}
	both := policy(map[string]any{"enabled": true, "probesFrom": block})
	var ports [][]int32
	for _, rule := range both.Spec.Ingress {
		if len(rule.From) != 1 {
			t.Errorf("a rule for %v", rule.From)
		}
		var of []int32
		for _, p := range rule.Ports {
			of = append(of, p.Port.IntVal)
			if *p.Protocol != corev1.ProtocolTCP {
				t.Errorf("port %+v", p)
			}
		}
		ports = append(ports, of)
	}
	if diff := cmp.Diff([][]int32{{8080, 10259}, {8081, 10259}}, ports); diff != "" {
		t.Errorf("ports of metrics and of probes: -want +got\n%s", diff)
	}
	closed := policy(map[string]any{"enabled": true, "metricsFrom": []any{}})
	if len(closed.Spec.Ingress) != 0 || !slices.Equal(closed.Spec.PolicyTypes, []networkingv1.PolicyType{"Ingress"}) {
		t.Errorf("nobody is named: %+v", closed.Spec)
	}
	deployment := render(t, "scheduling", minimal())["Deployment scheduling/slipway"].(*appsv1.Deployment)
	if diff := cmp.Diff(deployment.Spec.Selector.MatchLabels, both.Spec.PodSelector.MatchLabels); diff != "" {
		t.Errorf("other Pods than slipway's: %s", diff)
	}
}

// The API has its port, its address, its certificate and the right to ask who a client is, and none of them by default.
func TestChartServesTheAPI(t *testing.T) {
	values := minimal()
	values["controller"] = map[string]any{"api": map[string]any{"enabled": true, "port": 9443, "certificateSecret": "of-api"}}
	values["networkPolicy"] = map[string]any{"enabled": true, "metricsFrom": []any{}, "apiFrom": []any{map[string]any{"ipBlock": map[string]any{"cidr": "10.0.0.0/16"}}}}
	for name, c := range map[string]struct {
		values map[string]any
		served bool
	}{"by default": {minimal(), false}, "enabled": {values, true}} {
		objects := render(t, "scheduling", c.values)
		for _, object := range []string{"ClusterRole slipway-launcher-api", "ClusterRoleBinding slipway-launcher-api", "Role kube-system/slipway-launcher-authentication"} {
			if _, ok := objects[object]; ok != c.served {
				t.Errorf("%s: %s is there: %t, want %t", name, object, ok, c.served)
			}
		}
		service := objects["Service scheduling/slipway"].(*corev1.Service)
		if got := slices.ContainsFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == 9443 }); got != c.served {
			t.Errorf("%s: ports %+v", name, service.Spec.Ports)
		}
		settings := objects["ConfigMap scheduling/slipway"].(*corev1.ConfigMap).Data["launcher.yaml"]
		for _, line := range []string{"apiAddress: :9443", "apiCertDir: /etc/slipway-api-certificate"} {
			if strings.Contains(settings, line) != c.served {
				t.Errorf("%s: settings %s", name, settings)
			}
		}
		deployment := objects["Deployment scheduling/slipway"].(*appsv1.Deployment)
		mounted := slices.ContainsFunc(deployment.Spec.Template.Spec.Volumes, func(v corev1.Volume) bool { return v.Secret != nil && v.Secret.SecretName == "of-api" })
		if mounted != c.served {
			t.Errorf("%s: the certificate's volume is there: %t", name, mounted)
		}
	}
	policy := render(t, "scheduling", values)["NetworkPolicy scheduling/slipway"].(*networkingv1.NetworkPolicy)
	if len(policy.Spec.Ingress) != 1 || policy.Spec.Ingress[0].Ports[0].Port.IntVal != 9443 {
		t.Errorf("the NetworkPolicy lets in %+v", policy.Spec.Ingress)
	}
}
