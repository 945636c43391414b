package userdata

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

func input(family string, change ...func(*Input)) Input {
	in := Input{
		Family: family,
		Cluster: Cluster{
			Name: "prod", Endpoint: "https://ABC.gr7.us-east-1.eks.amazonaws.com",
			CertificateAuthority: "Y2VydGlmaWNhdGU=", ServiceCIDR: "10.100.0.0/16",
		},
		MaxPods: 29,
		Labels: map[string]string{
			"karpenter.sh/nodepool": "default", "karpenter.sh/capacity-type": "spot", "team": "a",
			// The kubelet would not start with this one.
			"example.kubernetes.io/x":               "y",
			"node.kubernetes.io/exclude-disruption": "true",
		},
		Taints: []corev1.Taint{
			{Key: catalog.StartingTaintKey, Effect: corev1.TaintEffectNoSchedule},
			{Key: "dedicated", Value: "batch", Effect: corev1.TaintEffectNoExecute},
		},
	}
	for _, c := range change {
		c(&in)
	}
	return in
}

func kubelet(in *Input) {
	five, fifty, eighty, ninety, yes := int32(5), int32(50), int32(80), int32(90), true
	in.Kubelet = &awsv1.KubeletConfiguration{
		ClusterDNS: []string{"10.100.0.10"}, PodsPerCore: &five,
		SystemReserved:              map[string]string{"cpu": "100m", "memory": "100Mi"},
		KubeReserved:                map[string]string{"cpu": "200m"},
		EvictionHard:                map[string]string{"memory.available": "5%"},
		EvictionSoft:                map[string]string{"memory.available": "10%"},
		EvictionSoftGracePeriod:     map[string]metav1.Duration{"memory.available": {Duration: time.Minute}},
		EvictionMaxPodGracePeriod:   &ninety,
		ImageGCHighThresholdPercent: &eighty, ImageGCLowThresholdPercent: &fifty, CPUCFSQuota: &yes,
	}
}

func custom(text string) func(*Input) { return func(in *Input) { in.Custom = text } }

func prefetch(in *Input) { in.Prefetch = true }

func hibernates(in *Input) { in.Hibernates = true }

func ipv6(in *Input) {
	in.Cluster.IPv6, in.Cluster.ServiceCIDR, in.Cluster.DNS = true, "fd30:1c53:5f8a::/108", "fd30:1c53:5f8a::a"
}

func raid(in *Input) { in.RAID0 = true }

const multi = `MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="BOUNDARY"

--BOUNDARY
Content-Type: text/x-shellscript; charset="us-ascii"

#!/bin/bash
echo "--//" before
--BOUNDARY
Content-Type: application/node.eks.aws

apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  featureGates:
    FastImagePull: true
--BOUNDARY--
`

// TestRender compares with testdata/*.golden; with REWRITE=1 in the environment it writes them again.
func TestRender(t *testing.T) {
	rewrite := os.Getenv("REWRITE") != ""
	for name, in := range map[string]Input{
		"al2023":              input(catalog.FamilyAL2023),
		"al2023-prefetch":     input(catalog.FamilyAL2023, prefetch, custom("#!/bin/bash\necho hello\n")),
		"al2023-hibernates":   input(catalog.FamilyAL2023, hibernates),
		"al2-hibernates":      input(catalog.FamilyAL2, hibernates),
		"al2023-kubelet-raid": input(catalog.FamilyAL2023, kubelet, raid),
		"al2023-shell":        input(catalog.FamilyAL2023, custom("#!/bin/bash\necho hello\n")),
		"al2023-yaml":         input(catalog.FamilyAL2023, custom("apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {}\n")),
		"al2023-mime":         input(catalog.FamilyAL2023, custom(multi)),
		"al2":                 input(catalog.FamilyAL2, kubelet, raid, custom("#!/bin/bash\necho hello\n")),
		"bottlerocket":        input(catalog.FamilyBottlerocket),
		"bottlerocket-merged": input(catalog.FamilyBottlerocket, kubelet, raid, custom(
			"[settings.kernel]\nlockdown = \"integrity\"\n[settings.kubernetes]\ncluster-name = \"other\"\n[settings.kubernetes.node-labels]\nmine = \"1\"\n")),
		"windows":           input(catalog.FamilyWindows2022),
		"windows-merged":    input(catalog.FamilyWindows2025, kubelet, custom("Write-Host 'hello'\n")),
		"al2-ipv6":          input(catalog.FamilyAL2, ipv6),
		"al2023-ipv6":       input(catalog.FamilyAL2023, ipv6),
		"bottlerocket-ipv6": input(catalog.FamilyBottlerocket, ipv6),
		"custom":            input(catalog.FamilyCustom, custom("anything { at all")),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Render(in)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", name+".golden")
			if rewrite {
				if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("user data differs (-want +got), run with REWRITE=1 to take it:\n%s", diff)
			}
			again, err := Render(in)
			if err != nil || again != got {
				t.Errorf("the same input gave another text, %v", err)
			}
		})
	}
}

// parts reads user data as cloud-init and nodeadm do.
func parts(t *testing.T, text string) map[string][]string {
	t.Helper()
	message, err := mail.ReadMessage(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	_, params, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for reader := multipart.NewReader(message.Body, params["boundary"]); ; {
		p, err := reader.NextPart()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		var body bytes.Buffer
		if _, err := body.ReadFrom(p); err != nil {
			t.Fatal(err)
		}
		kind, _, _ := strings.Cut(p.Header.Get("Content-Type"), ";")
		out[kind] = append(out[kind], body.String())
	}
}

func TestNodeadmCanBeRead(t *testing.T) {
	text, err := Render(input(catalog.FamilyAL2023, kubelet, raid, custom(multi)))
	if err != nil {
		t.Fatal(err)
	}
	got := parts(t, text)
	if scripts := got["text/x-shellscript"]; len(scripts) != 1 || !strings.Contains(scripts[0], `echo "--//" before`) {
		t.Errorf("scripts: %q", scripts)
	}
	configs := got[nodeConfigType]
	if len(configs) != 3 {
		t.Fatalf("got %d NodeConfigs, want what the user may set otherwise, the user's and ours", len(configs))
	}
	var config struct {
		Spec struct {
			Cluster  map[string]string
			Instance struct{ LocalStorage struct{ Strategy string } }
			Kubelet  struct {
				Config map[string]any
				Flags  []string
			}
		}
	}
	if err := yaml.Unmarshal([]byte(configs[2]), &config); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"name": "prod", "apiServerEndpoint": "https://ABC.gr7.us-east-1.eks.amazonaws.com",
		"certificateAuthority": "Y2VydGlmaWNhdGU=", "cidr": "10.100.0.0/16",
	}
	if diff := cmp.Diff(want, config.Spec.Cluster); diff != "" {
		t.Errorf("cluster (-want +got):\n%s", diff)
	}
	flags := []string{"--node-labels=karpenter.sh/capacity-type=spot,karpenter.sh/nodepool=default," +
		"node.kubernetes.io/exclude-disruption=true,team=a"}
	if diff := cmp.Diff(flags, config.Spec.Kubelet.Flags); diff != "" {
		t.Errorf("flags (-want +got):\n%s", diff)
	}
	if config.Spec.Instance.LocalStorage.Strategy != "RAID0" || config.Spec.Kubelet.Config["maxPods"] != 29.0 {
		t.Errorf("config: %+v", config.Spec)
	}
	taints := []any{
		map[string]any{"key": catalog.StartingTaintKey, "effect": "NoSchedule"},
		map[string]any{"key": "dedicated", "value": "batch", "effect": "NoExecute"},
	}
	if diff := cmp.Diff(taints, config.Spec.Kubelet.Config["registerWithTaints"]); diff != "" {
		t.Errorf("taints (-want +got):\n%s", diff)
	}
}

func TestBottlerocketCanBeRead(t *testing.T) {
	text, err := Render(input(catalog.FamilyBottlerocket, kubelet, raid, custom("[settings.kubernetes]\ncluster-name = \"other\"\n")))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Settings struct {
			Kubernetes struct {
				ClusterName string              `toml:"cluster-name"`
				MaxPods     int                 `toml:"max-pods"`
				Labels      map[string]string   `toml:"node-labels"`
				Taints      map[string][]string `toml:"node-taints"`
			}
			Commands map[string]map[string]any `toml:"bootstrap-commands"`
		}
	}
	if err := toml.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	k := got.Settings.Kubernetes
	if k.ClusterName != "prod" || k.MaxPods != 29 || k.Labels["team"] != "a" || k.Labels["example.kubernetes.io/x"] != "" {
		t.Errorf("settings.kubernetes: %+v", k)
	}
	taints := map[string][]string{catalog.StartingTaintKey: {":NoSchedule"}, "dedicated": {"batch:NoExecute"}}
	if diff := cmp.Diff(taints, k.Taints); diff != "" {
		t.Errorf("taints (-want +got):\n%s", diff)
	}
	if len(got.Settings.Commands) != 1 {
		t.Errorf("bootstrap commands: %v", got.Settings.Commands)
	}
}

// Bottlerocket is given the directories for the local disks as long as it does not know them itself.
func TestBottlerocketBindsDirectories(t *testing.T) {
	given := []any{"apiclient", "ephemeral-storage", "bind", "--dirs", "/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods"}
	for version, want := range map[string][]any{
		"": given, "v1.45.9": given, "1.45.0": given, "v1.4*": given, "v1": given, "vNext": given, "v20260709": given,
		"latest": given[:3], "v1.46.0": given[:3], "1.46.0": given[:3], "v1.100.1": given[:3], "v2.0.0": given[:3],
	} {
		text, err := Render(input(catalog.FamilyBottlerocket, raid, func(in *Input) { in.AMIVersion = version }))
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Settings struct {
				Commands map[string]struct{ Commands []any } `toml:"bootstrap-commands"`
			}
		}
		if err := toml.Unmarshal([]byte(text), &got); err != nil {
			t.Fatal(err)
		}
		commands := []any{[]any{"apiclient", "ephemeral-storage", "init"}, want}
		if diff := cmp.Diff(commands, got.Settings.Commands["000-mount-instance-storage"].Commands); diff != "" {
			t.Errorf("version %q (-want +got):\n%s", version, diff)
		}
	}
}

// User data that was written on Windows starts nodes of Linux: archives have no carriage return, those of a user's own parts included. Other families pass user
// data on as it is, as in Karpenter.
func TestCarriageReturns(t *testing.T) {
	crlf := func(text string) string { return strings.ReplaceAll(text, "\n", "\r\n") }
	for _, family := range []string{catalog.FamilyAL2023, catalog.FamilyAL2} {
		for _, text := range []string{"#!/bin/bash\necho hello\n", multi} {
			want, err := Render(input(family, custom(text)))
			if err != nil {
				t.Fatal(err)
			}
			got, err := Render(input(family, custom(crlf(text))))
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%s: %v, -with LF +with CRLF:\n%s", family, err, diff)
			}
		}
	}
	for _, family := range []string{catalog.FamilyCustom, catalog.FamilyWindows2022} {
		if got, err := Render(input(family, custom(crlf("one\ntwo\n")))); err != nil || !strings.Contains(got, "one\r\ntwo\r\n") {
			t.Errorf("%s: %v, %q", family, err, got)
		}
	}
}

func TestRenderRejects(t *testing.T) {
	for name, in := range map[string]Input{
		"family":                          input("Ubuntu"),
		"two scripts":                     input(catalog.FamilyWindows2022, custom("</PowerShell><powershell>reboot")),
		"broken archive":                  input(catalog.FamilyAL2023, custom("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"B\"\n\n--B\nno header, no end")),
		"no type":                         input(catalog.FamilyAL2, custom("MIME-Version: 1.0\n\nx")),
		"a header with a carriage return": input(catalog.FamilyAL2023, custom("Content-Type:\rtext/x-shellscript\n\necho\n")),
		"not TOML":                        input(catalog.FamilyBottlerocket, custom("settings = [")),
		"not a table":                     input(catalog.FamilyBottlerocket, custom("[settings]\nkubernetes = 1\n")),
		"too long":                        input(catalog.FamilyAL2023, custom("#!/bin/bash\n# "+strings.Repeat("x", MaxBytes))),
	} {
		if text, err := Render(in); err == nil {
			t.Errorf("%s: accepted: %s", name, text)
		}
	}
}
