package intake

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/plugin/plan"
)

// Entry is an unschedulable pod.
type Entry struct {
	// Pod as it was when it was collected.
	Pod *corev1.Pod
	// At is when it was collected first.
	At time.Time
	// Nominated is the pod's nominatedNodeName when it was collected, or another that has come to nothing since.
	Nominated string
	// Renominated is the node that the pod was last seen nominated to instead, RenominatedAt since when no victims were seen terminating there. Empty for none.
	Renominated   string
	RenominatedAt time.Time
	// NoNodes means that the cluster had no node at all.
	NoNodes bool
	// Adopted means that another scheduler tries the pod.
	Adopted bool
	// Class is the pod's class key (plan.ClassKey). It is empty until the planner has taken the pod.
	Class string
	// Gang of the pod. It is zero until the planner has taken the pod, and for a pod of no gang.
	Gang plan.Gang
	// Waited means that the pod was in a batch that has closed: its gang has waited for pods that are missing.
	Waited bool
	// Hopeless means that a plan has found nothing for the pod.
	Hopeless bool
	// EndingSeen is when a terminating pod was last seen whose place this pod gets. Zero for never.
	EndingSeen time.Time
	// EditRest is how long after the next edit of the pod, or of one of its gang, it is planned again, or after what its topology spread counts has changed. It
	// grows with each.
	EditRest time.Duration
	// Refusal is the scheduler's reason against the node that was launched for the pod. Empty for none.
	Refusal string
	// Verdict is the scheduler's message about the existing nodes. Empty if it is not known.
	Verdict string
}

// Sort sorts entries by the time at which they were collected, then by UID.
func Sort(entries []Entry) {
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Pod.UID, b.Pod.UID)) })
}
