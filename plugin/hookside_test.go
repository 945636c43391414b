package plugin

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/reservations"
)

// Pods whose owner has reserved room are not tried on the best nodes for others alone: they prefer that room.
func TestPodsWithReservedRoomAreNotOrdinary(t *testing.T) {
	ofSet := func(name, set string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: set, UID: types.UID(set), Controller: new(true)}},
		}}
	}
	displaced := ofSet("web-1", "web")
	table := reservations.New(reservations.Config{Pod: func(catalog.PodRef) *corev1.Pod { return displaced }})
	h := &hookSide{reserved: table}
	if !h.Ordinary(ofSet("web-2", "web")) {
		t.Error("a pod is not ordinary while nothing is reserved")
	}
	table.Reserve([]plan.Member{{Pods: []catalog.PodRef{{Name: "web-1"}}}}, reservations.Place{Node: "n", At: time.Now()})
	table.Publish(nil, nil)
	if h.Ordinary(ofSet("web-2", "web")) {
		t.Error("a pod is ordinary though room is reserved for its owner's")
	}
	if !h.Ordinary(ofSet("api-1", "api")) {
		t.Error("a pod of another owner is not ordinary")
	}
}
