package invariants

import (
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-k8s/slipway/e2e/observe"
)

// launchesBeyondPods is how many launches for one owner may exceed its pods. Crashes and interruptions end some nodes before
// their pods are bound. Useless launches are delayed, so that a fault of five minutes causes no more.
const launchesBeyondPods = 5

// launchesOfOwners finds owners for which many more nodes were launched than they have pods that ran or exist. Such a loop
// also shows where each node gets a new pod that never runs.
func launchesOfOwners(e *Evidence) []string {
	owners, names := map[types.UID]types.UID{}, map[types.UID]string{}
	pods := map[types.UID]int{}
	for _, p := range e.Pods {
		owner, name := p.Object.UID, "Pod "+p.Object.Namespace+"/"+p.Object.Name
		if ref := metav1.GetControllerOf(p.Object); ref != nil {
			owner, name = ref.UID, ref.Kind+" "+p.Object.Namespace+"/"+ref.Name
		}
		owners[p.Object.UID], names[owner] = owner, name
		if p.Running.Seen() || !p.Deleted.Seen() && !p.Failed.Seen() {
			pods[owner]++
		}
	}
	launches := map[types.UID]int{}
	for _, c := range e.Claims {
		of := map[types.UID]bool{}
		for _, uid := range observe.PromisedTo(c) {
			if owner, known := owners[types.UID(uid)]; known && c.Launched.Seen() {
				of[owner] = true
			}
		}
		for owner := range of {
			launches[owner]++
		}
	}
	var out []string
	for _, owner := range slices.Sorted(maps.Keys(launches)) {
		if launches[owner] > pods[owner]+launchesBeyondPods {
			out = append(out, fmt.Sprintf("launches of %s exceed its pods by more than %d: %d nodes for %d pods", names[owner], launchesBeyondPods, launches[owner], pods[owner]))
		}
	}
	return out
}
