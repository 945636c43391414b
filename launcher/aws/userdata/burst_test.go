package userdata

import (
	"fmt"
	"strings"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/pelletier/go-toml/v2"

	agent "github.com/slipway-k8s/slipway/e2e/machines/userdata"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// burstOf is the limit that a node's kubelet gets from its user data, as its boot agent reads that; 0 is the kubelet's own.
func burstOf(t *testing.T, in Input) (burst int64) {
	t.Helper()
	text, err := Render(in)
	if err != nil {
		t.Fatal(err)
	}
	switch in.Family {
	case catalog.FamilyBottlerocket:
		var got struct {
			Settings struct {
				Kubernetes struct {
					Burst int64 `toml:"registry-burst"`
				}
			}
		}
		if err := toml.Unmarshal([]byte(text), &got); err != nil {
			t.Fatal(err)
		}
		return got.Settings.Kubernetes.Burst
	case catalog.FamilyAL2:
		scripts := parts(t, text)["text/x-shellscript"]
		for word := range strings.FieldsSeq(strings.Join(bootstrapArgs(t, scripts[len(scripts)-1]), " ")) {
			if value, ok := strings.CutPrefix(word, "--registry-burst="); ok {
				if _, err := fmt.Sscan(value, &burst); err != nil {
					t.Fatal(err)
				}
			}
		}
		return burst
	default:
		got, err := agent.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		value, _ := got.Kubelet["registryBurst"].(float64)
		return int64(value)
	}
}

func maxPods(n int64) func(*Input) { return func(in *Input) { in.MaxPods = n } }

// A kubelet may pull the images of as many pods at once as its node may have, whichever setting gives this number.
func TestKubeletMayPullForAllItsPods(t *testing.T) {
	for _, family := range []string{catalog.FamilyAL2023, catalog.FamilyAL2, catalog.FamilyBottlerocket} {
		for _, c := range []struct {
			name   string
			change func(*Input)
			want   int64
		}{
			{"few", maxPods(29), 110},
			{"not said", maxPods(0), 110},
			{"many", maxPods(234), 234},
			{"many by spec.kubelet", func(in *Input) {
				in.MaxPods, in.Kubelet = 0, &awsv1.KubeletConfiguration{MaxPods: new(int32(250))}
			}, 250},
		} {
			if got := burstOf(t, input(family, c.change)); got != c.want {
				t.Errorf("%s, %s: %d, want %d", family, c.name, got, c.want)
			}
		}
	}
}

const nodeConfigHead = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  kubelet:\n"

// The limit in the user's own user data is kept.
func TestTheUsersLimitOfPullsStays(t *testing.T) {
	for _, c := range []struct {
		family, text string
		want         int64
	}{
		{catalog.FamilyAL2023, nodeConfigHead + "    config:\n      registryBurst: 7\n", 7},
		{
			catalog.FamilyAL2023, "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"B\"\n\n--B\nContent-Type: application/node.eks.aws\n\n" +
				nodeConfigHead + "    config:\n      registryBurst: 8\n--B--\n", 8,
		},
		// Another field of theirs is no reason to leave it out.
		{catalog.FamilyAL2023, nodeConfigHead + "    config:\n      registryPullQPS: 50\n", 110},
		{catalog.FamilyBottlerocket, "[settings.kubernetes]\nregistry-burst = 7\n", 7},
		// The last flag overrides the file that such scripts write, so none is passed.
		{catalog.FamilyAL2, "#!/bin/bash\njq '.registryBurst = 7' </etc/kubernetes/kubelet/kubelet-config.json >new\n", 0},
	} {
		if got := burstOf(t, input(c.family, custom(c.text))); got != c.want {
			t.Errorf("%s: %d, want %d, with\n%s", c.family, got, c.want, c.text)
		}
	}
}

// User data that fits without the limit still fits: to the byte.
func TestLimitOfPullsTakesNobodysRoom(t *testing.T) {
	for family, format := range map[string]string{
		catalog.FamilyAL2023: "#!/bin/bash\necho %s\n", catalog.FamilyAL2: "#!/bin/bash\necho %s\n", catalog.FamilyBottlerocket: "[settings]\nmotd = '%s'\n",
	} {
		filled := func(n int) Input { return input(family, custom(fmt.Sprintf(format, strings.Repeat("x", n)))) }
		without, err := render(filled(0))
		if err != nil {
			t.Fatal(err)
		}
		room := MaxBytes - len(without)
		if got := burstOf(t, filled(room/2)); got != 110 {
			t.Errorf("%s with room: %d", family, got)
		}
		if got := burstOf(t, filled(room)); got != 0 {
			t.Errorf("%s without room: %d", family, got)
		}
		if _, err := Render(filled(room + 1)); err == nil {
			t.Errorf("%s: a byte too many is accepted", family)
		}
	}
}
