package userdata_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/e2e/machines/userdata"
)

const al2023 = `MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: text/x-shellscript; charset="us-ascii"

#!/bin/bash
echo hello
--//
Content-Type: application/node.eks.aws

apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  instance:
    localStorage:
      strategy: RAID0
  kubelet:
    config:
      maxPods: 200
      evictionHard: {memory.available: 200Mi}
--//
Content-Type: application/node.eks.aws

apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster:
    name: sandbox
    apiServerEndpoint: https://127.0.0.1:6443
    certificateAuthority: Y2E=
    cidr: 10.100.0.0/16
  kubelet:
    config:
      maxPods: 29
      kubeReserved: {cpu: 80m}
      registerWithTaints:
      - {key: slipway.dev/starting, effect: NoSchedule}
    flags:
    - --node-labels="karpenter.sh/nodepool=default,team=a"
    - --register-with-taints=dedicated=ml:NoExecute
--//--
`

func TestAL2023(t *testing.T) {
	got, err := userdata.Parse(al2023)
	if err != nil {
		t.Fatal(err)
	}
	want := userdata.Config{
		Cluster:              "sandbox",
		Endpoint:             "https://127.0.0.1:6443",
		CertificateAuthority: "Y2E=",
		ServiceCIDR:          "10.100.0.0/16",
		Labels:               map[string]string{"karpenter.sh/nodepool": "default", "team": "a"},
		Kubelet: map[string]any{
			"maxPods":      29.,
			"evictionHard": map[string]any{"memory.available": "200Mi"}, "kubeReserved": map[string]any{"cpu": "80m"},
			"registerWithTaints": []any{map[string]any{"key": "slipway.dev/starting", "effect": "NoSchedule"}},
		},
		Flags: []string{`--node-labels="karpenter.sh/nodepool=default,team=a"`, "--register-with-taints=dedicated=ml:NoExecute"},
		Taints: []corev1.Taint{
			{Key: "slipway.dev/starting", Effect: corev1.TaintEffectNoSchedule},
			{Key: "dedicated", Value: "ml", Effect: corev1.TaintEffectNoExecute},
		},
		MaxPods:       29,
		KubeReserved:  map[string]string{"cpu": "80m"},
		EvictionHard:  map[string]string{"memory.available": "200Mi"},
		InstanceStore: true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestBottlerocket(t *testing.T) {
	got, err := userdata.Parse(`
[settings]
[settings.kubernetes]
api-server = 'https://127.0.0.1:6443'
cluster-certificate = 'Y2E='
cluster-name = 'sandbox'
max-pods = 58
[settings.kubernetes.node-labels]
'karpenter.sh/nodepool' = 'default'
[settings.kubernetes.node-taints]
'slipway.dev/starting' = [':NoSchedule']
dedicated = ['ml:NoExecute']
[settings.kubernetes.kube-reserved]
memory = '300Mi'
`)
	if err != nil {
		t.Fatal(err)
	}
	want := userdata.Config{
		Cluster:              "sandbox",
		Endpoint:             "https://127.0.0.1:6443",
		CertificateAuthority: "Y2E=",
		Labels:               map[string]string{"karpenter.sh/nodepool": "default"},
		Taints: []corev1.Taint{
			{Key: "dedicated", Value: "ml", Effect: corev1.TaintEffectNoExecute},
			{Key: "slipway.dev/starting", Effect: corev1.TaintEffectNoSchedule},
		},
		MaxPods:      58,
		Bottlerocket: true,
		KubeReserved: map[string]string{"memory": "300Mi"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestWhatDoesNotJoin(t *testing.T) {
	cases := []struct{ name, data, want string }{
		{"nothing", "", "empty"},
		{"a shell script", "#!/bin/bash\necho\n", "neither"},
		{"no NodeConfig part", strings.ReplaceAll(al2023, "application/node.eks.aws", "text/plain"), "no MIME part"},
		{"another kind", strings.ReplaceAll(al2023, "kind: NodeConfig", "kind: ClusterConfig"), "ClusterConfig"},
		{"broken YAML", strings.Replace(al2023, "  cluster:", "\tcluster:", 1), "NodeConfig 1"},
		{"no cluster name", strings.Replace(al2023, "name: sandbox", "{}", 1), "NodeConfig"},
		{"no CA", strings.Replace(al2023, "certificateAuthority: Y2E=", "", 1), "certificate authority"},
		{"no CIDR", strings.Replace(al2023, "cidr: 10.100.0.0/16", "", 1), "cidr"},
		{"a taint without effect", strings.Replace(al2023, "dedicated=ml:NoExecute", "dedicated=ml", 1), "no effect"},
		{"a taint with an unknown effect", strings.Replace(al2023, "effect: NoSchedule", "effect: Never", 1), "Never"},
		{"a label that the kubelet refuses", strings.Replace(al2023, "team=a", "kubernetes.io/team=a", 1), "kubernetes.io/team"},
		{"no cluster in Bottlerocket's settings", "[settings.kubernetes]\nmax-pods = 5\n", "cluster name"},
		{"broken TOML", "[settings.kubernetes]\nmax-pods = = 5\n", "settings"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := userdata.Parse(c.data)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}
