package kubelet

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-k8s/slipway/e2e/machines/instance"
	launcherdata "github.com/slipway-k8s/slipway/launcher/aws/userdata"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

const nodeConfig = `apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster: {name: sandbox, apiServerEndpoint: "https://127.0.0.1:6443", certificateAuthority: Y2E=, cidr: 10.100.0.0/16}
  kubelet:
    config: {maxPods: 58, systemReserved: {cpu: 50m}}
    flags: ['--node-labels="team=a"', '--v=4']
`

func told(data string) description {
	return description{
		Cluster: "sandbox", Endpoint: "https://127.0.0.1:6443", Token: "k8s-aws-v1.x", Folder: "/m",
		Instance: instance.Instance{
			ID: "i-1", Zone: "us-east-1a", CPUs: 4, MemoryMiB: 8192, PodLimit: 29, PrivateIP: "10.0.0.1",
			PrivateDNSName: "ip-10-0-0-1.ec2.internal", UserData: data,
		},
	}
}

func TestFirstBoot(t *testing.T) {
	written, args, err := firstBoot(told(nodeConfig))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(written[authorityFile]); got != "ca" {
		t.Errorf("cluster CA %q", got)
	}
	var config struct {
		ClusterDNS     []string          `json:"clusterDNS"`
		MaxPods        int               `json:"maxPods"`
		ProviderID     string            `json:"providerID"`
		KubeReserved   map[string]string `json:"kubeReserved"`
		SystemReserved map[string]string `json:"systemReserved"`
	}
	if err := json.Unmarshal(written[configFile], &config); err != nil {
		t.Fatal(err)
	}
	if config.MaxPods != 58 || config.SystemReserved["cpu"] != "50m" {
		t.Errorf("what the user data sets is lost: %+v", config)
	}
	if config.ProviderID != "aws:///us-east-1a/i-1" || !slices.Equal(config.ClusterDNS, []string{"10.100.0.10"}) {
		t.Errorf("what the instance knows is wrong: %+v", config)
	}
	// 60 + 10 + 2 times 5 thousandths of a core, and 255 + 11 times 29 MiB.
	if config.KubeReserved["cpu"] != "80m" || config.KubeReserved["memory"] != "574Mi" {
		t.Errorf("kubeReserved %v", config.KubeReserved)
	}
	for _, want := range []string{
		"--hostname-override=ip-10-0-0-1.ec2.internal", "--node-ip=10.0.0.1", "--node-labels=team=a", "--v=4", "--machine-cpus=4",
		"--machine-volume-bytes=21395144704", "--kubeconfig=/var/lib/kubelet/kubeconfig",
	} {
		if !slices.Contains(args, want) {
			t.Errorf("%s is not among %q", want, args)
		}
	}
}

func TestWrongUserDataDoesNotBoot(t *testing.T) {
	for name, data := range map[string]string{
		"empty":               "",
		"cluster":             strings.ReplaceAll(nodeConfig, "name: sandbox", "name: other"),
		"API server endpoint": strings.ReplaceAll(nodeConfig, "6443", "1"),
		"authority":           strings.ReplaceAll(nodeConfig, "Y2E=", "c"),
		"cidr":                strings.ReplaceAll(nodeConfig, "10.100.0.0/16", "x"),
	} {
		if _, _, err := firstBoot(told(data)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// The unit that the launcher writes runs where it is, and finds all that nodeadm leaves for it.
func TestFirstBootRunsTheLaunchersUnit(t *testing.T) {
	text, err := launcherdata.Render(launcherdata.Input{
		Family: catalog.FamilyAL2023, Prefetch: true,
		Cluster: launcherdata.Cluster{Name: "sandbox", Endpoint: "https://127.0.0.1:6443", CertificateAuthority: "Y2E=", ServiceCIDR: "10.100.0.0/16"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for data, want := range map[string]bool{text: true, nodeConfig: false} {
		written, _, err := firstBoot(told(data))
		if err != nil {
			t.Fatal(err)
		}
		script, ok := written[prefetchFile]
		if ok != want {
			t.Errorf("the unit is there: %v, want %v", ok, want)
		}
		if want && !strings.HasPrefix(string(script), "#!/bin/bash\n") {
			t.Errorf("the unit begins with %.20q", script)
		}
		if environment := string(written[environmentFile]); !strings.Contains(environment, "--hostname-override=ip-10-0-0-1.ec2.internal ") {
			t.Errorf("environment %q", environment)
		}
		if config := string(written[kubeconfigFile]); !strings.Contains(config, "server: https://127.0.0.1:6443\n") {
			t.Errorf("kubeconfig %q", config)
		}
		if login := string(written[standInFolder+"/aws"]); !strings.Contains(login, `"token":"k8s-aws-v1.x"`) {
			t.Errorf("aws %q", login)
		}
	}
}
