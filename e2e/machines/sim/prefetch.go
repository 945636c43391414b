package sim

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/e2e/machines/userdata"
	launcherdata "github.com/slipway-k8s/slipway/launcher/aws/userdata"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// pullsAhead is how many images the prefetch unit pulls at a time.
const pullsAhead = 3

// prefetches reports whether user data have the prefetch unit.
func prefetches(text string) bool {
	scripts, err := userdata.Scripts(text)
	return err == nil && scripts[launcherdata.PrefetchFile] != ""
}

// prefetch pulls the images that the Node lists, as the unit of the user data does until the Node is Ready. The kubelet looks when it starts, and when the
// network is ready.
func (k *kubelet) prefetch(node *corev1.Node, now time.Time) {
	if k.host.prefetches && !isReady(node) {
		k.planner.prefetch(strings.Split(node.Annotations[catalog.PrefetchAnnotation], ","), now)
	}
}

// prefetch begins to pull the images that are not on the machine, in their order, a few at a time.
func (p *planner) prefetch(images []string, now time.Time) {
	for _, image := range images {
		if _, begun := p.ahead[image]; begun || image == "" || p.disk.has(image, now) {
			continue
		}
		if p.ahead == nil {
			p.ahead, p.free = map[string]time.Time{}, make([]time.Time, pullsAhead)
		}
		slot := slices.IndexFunc(p.free, func(at time.Time) bool { return at.Equal(slices.MinFunc(p.free, time.Time.Compare)) })
		begin := later(p.free[slot], now)
		p.free[slot] = begin.Add(p.source.Draw(p.pullTime(&corev1.Pod{}, image), "pull", image))
		p.ahead[image] = begin
		p.disk.pulled(image, p.free[slot])
	}
}
