package userdata

import (
	"cmp"
	"strings"
)

// usualPods is the kubelet's default number of pods.
const usualPods = 110

// burst returns how many images the kubelet may request at once: one for each pod that the node may have. With the kubelet's default of ten,
// further pulls of a booting node are rejected and wait ten seconds, even for images that have been pulled by then. The sustained rate of
// pulls is not changed.
func (in Input) burst() int32 {
	return max(usualPods, *cmp.Or(in.kubelet().MaxPods, new(int32)))
}

// setsBurst reports whether a script of the user sets the limit itself: the launcher's flag would override the file that the script may
// write.
func setsBurst(custom string) bool {
	for _, name := range []string{"registryBurst", "registry-burst"} {
		if strings.Contains(custom, name) {
			return true
		}
	}
	return false
}
