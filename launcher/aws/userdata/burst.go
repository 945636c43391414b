package userdata

import (
	"cmp"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// usualPods is how many pods a kubelet takes when nobody says more.
const usualPods = 110

// burst is how many images the kubelet may be asked for at once: one for each pod that the node may have. With the kubelet's own
// limit of ten, the others that a node's pods ask for when it boots are refused and wait ten seconds, for an image too that is
// pulled already by then. How many it pulls a second after that stays what it was.
func (in Input) burst() int32 {
	return max(usualPods, *cmp.Or(in.kubelet().MaxPods, new(int32)))
}

// burstConfig is a NodeConfig that comes before the user's, so that theirs win.
func burstConfig(in Input) (part, error) {
	config := map[string]any{
		"apiVersion": nodeConfigVersion, "kind": nodeConfigKind,
		"spec": map[string]any{"kubelet": nodeConfigKubelet{Config: map[string]any{"registryBurst": in.burst()}}},
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		return part{}, fmt.Errorf("writing the NodeConfig of the kubelet's limit: %w", err)
	}
	return newPart(nodeConfigType, string(text)), nil
}

// saysBurst says whether a script of the user's sees to the limit itself: a flag would win over the file that it may write.
func saysBurst(custom string) bool {
	for _, name := range []string{"registryBurst", "registry-burst"} {
		if strings.Contains(custom, name) {
			return true
		}
	}
	return false
}
