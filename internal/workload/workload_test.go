package workload_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/internal/workload"
)

func TestOf(t *testing.T) {
	for name, tc := range map[string]struct {
		kind, controller, hash, wantKind, want string
	}{
		"of a Deployment":      {"ReplicaSet", "web-5d9c", "5d9c", "Deployment", "web"},
		"no label":             {"ReplicaSet", "web-5d9c", "", "ReplicaSet", "web-5d9c"},
		"a label of its own":   {"ReplicaSet", "web", "5d9c", "ReplicaSet", "web"},
		"of a StatefulSet":     {"StatefulSet", "db-5d9c", "5d9c", "StatefulSet", "db-5d9c"},
		"without a controller": {},
		"larger than any":      {strings.Repeat("k", 1<<20), strings.Repeat("n", 252) + "é", "", strings.Repeat("k", 63), strings.Repeat("n", 252)},
	} {
		pod := &corev1.Pod{}
		if tc.hash != "" {
			pod.Labels = map[string]string{"pod-template-hash": tc.hash}
		}
		if tc.kind != "" {
			pod.OwnerReferences = []metav1.OwnerReference{{Kind: tc.kind, Name: tc.controller, Controller: new(true)}}
		}
		if kind, got := workload.Of(pod); kind != tc.wantKind || got != tc.want {
			t.Errorf("%s: %s %s, want %s %s", name, kind, got, tc.wantKind, tc.want)
		}
	}
}
