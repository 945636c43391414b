package observe_test

import (
	"testing"

	"github.com/slipway-k8s/slipway/e2e/observe"
)

// Availability is counted write by write, whenever somebody looks.
func TestFewestReady(t *testing.T) {
	at := func(revision uint64) observe.Moment {
		m := observe.Moment{Revision: revision}
		m.At = m.At.Add(1)
		return m
	}
	first, second := observe.Pod{Ready: at(1)}, observe.Pod{Ready: at(2)}
	leaves := func(p observe.Pod, revision uint64) observe.Pod {
		p.Terminating, p.Deleted = at(revision), at(revision+5)
		return p
	}
	failed := first
	failed.Failed = at(4)
	late := leaves(observe.Pod{Ready: at(6)}, 5)
	for _, tc := range []struct {
		name string
		pods []observe.Pod
		want int
	}{
		{"all stay", []observe.Pod{first, second}, 2},
		{"never so many", []observe.Pod{first}, -1},
		{"nobody", nil, -1},
		{"the new one before the old one goes", []observe.Pod{leaves(first, 9), second, {Ready: at(8)}}, 2},
		{"the old one goes first", []observe.Pod{leaves(first, 7), second, {Ready: at(8)}}, 1},
		{"one after the other", []observe.Pod{leaves(first, 3), leaves(second, 9), {Ready: at(8)}, {Ready: at(20)}}, 1},
		{"both at once", []observe.Pod{leaves(first, 3), leaves(second, 4), {Ready: at(8)}, {Ready: at(9)}}, 0},
		{"one fails", []observe.Pod{failed, second}, 1},
		{"Ready only after it was asked to leave", []observe.Pod{first, second, late}, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := observe.FewestReady(tc.pods, 2); got != tc.want {
				t.Errorf("FewestReady = %d, want %d", got, tc.want)
			}
		})
	}
}
