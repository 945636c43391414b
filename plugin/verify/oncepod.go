package verify

import (
	"cmp"
	"fmt"
	"slices"

	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// sharing returns the verdicts on pods of the plan that use a ReadWriteOncePod claim together with another one of the plan. VolumeRestrictions does
// not see them: it counts a claim that pods on nodes use as one use, however many there are. Of several pods, one of the highest priority keeps its place,
// and the verdict is on all others of the class, those that the plan does not place included: they would be no better in their stead.
func (s *scene) sharing() []Verdict {
	var out []Verdict
	users := map[string]catalog.PodRef{}
	byPriority := slices.DeleteFunc(slices.Clone(s.order), func(index int) bool { return len(oncePod(&s.classes[index])) == 0 })
	slices.SortStableFunc(byPriority, func(a, b int) int {
		return cmp.Compare(corev1helpers.PodPriority(s.classes[b].Pod), corev1helpers.PodPriority(s.classes[a].Pod))
	})
	for _, index := range byPriority {
		claims := oncePod(&s.classes[index])
		late := Verdict{Class: index}
		for _, at := range s.spots[index] {
			for _, ref := range at.refs {
				if claim, user, found := taken(users, claims); found {
					late.Pods = append(late.Pods, ref)
					late.Reason = fmt.Sprintf("%s: pod %s/%s, which is planned too, uses the ReadWriteOncePod claim %s", names.VolumeRestrictions, user.Namespace, user.Name, claim)
					continue
				}
				for _, claim := range claims {
					users[claim] = ref
				}
			}
		}
		if len(late.Pods) > 0 {
			late.Pods = slices.DeleteFunc(slices.Clone(s.classes[index].Pods), func(ref catalog.PodRef) bool {
				return slices.ContainsFunc(claims, func(claim string) bool { return users[claim] == ref })
			})
			out = append(out, late)
		}
	}
	return out
}

// oncePod returns the ReadWriteOncePod claims of the class's pods, as namespace/name.
func oncePod(c *plan.Class) []string {
	var out []string
	for _, v := range c.Volumes {
		if v.ReadWriteOncePod {
			out = append(out, c.Pod.Namespace+"/"+v.Claim)
		}
	}
	return out
}

// taken returns the first of the claims that has a user.
func taken(users map[string]catalog.PodRef, claims []string) (claim string, user catalog.PodRef, ok bool) {
	for _, claim := range claims {
		if user, ok := users[claim]; ok {
			return claim, user, true
		}
	}
	return "", catalog.PodRef{}, false
}
