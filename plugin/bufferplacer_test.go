package plugin

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	schedulermetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/slipway-k8s/slipway/plugin/buffers"
)

// A pod of a buffer stays on a node whose cordon the snapshot shows, also where the cordon is gone by now: planned by that snapshot it would have a node
// launched. It stays where the cordon is not in the snapshot yet, for as long as a cordon may last.
func TestBufferStaysOnCordonedNodes(t *testing.T) {
	schedulermetrics.Register()
	node := func(taints ...corev1.Taint) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "ip-1"}, Spec: corev1.NodeSpec{Taints: taints}}
	}
	cordon := corev1.Taint{Key: disruptedTaint, Effect: corev1.TaintEffectNoSchedule}
	for _, c := range []struct {
		name       string
		shown      []corev1.Taint
		since      time.Duration
		terminates bool
		want       bool
	}{
		{name: "no cordon"},
		{name: "in the snapshot alone", shown: []corev1.Taint{cordon}, want: true},
		{name: "not in the snapshot yet", since: time.Second, want: true},
		{name: "in both", shown: []corev1.Taint{cordon}, since: time.Second, want: true},
		{name: "for too long", shown: []corev1.Taint{cordon}, since: buffersStay},
		{name: "the node terminates", shown: []corev1.Taint{cordon}, since: time.Second, terminates: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			shown := &snapshot{Snapshot: internalcache.NewEmptySnapshot(), cache: internalcache.New(t.Context(), nil, false)}
			shown.cache.AddNode(klog.Background(), node(c.shown...))
			if err := shown.update(t.Context()); err != nil {
				t.Fatal(err)
			}
			b := &bufferPlacer{provisioner: provisioner{snapshot: shown}, table: buffers.NewTable(), cordoned: map[string]time.Time{}}
			b.table.Put(&corev1.Pod{}, "", "ip-1")
			if c.since > 0 {
				b.cordoned["ip-1"] = time.Now().Add(-c.since)
			}
			if c.terminates {
				b.table.Terminate([]string{"ip-1"})
			}
			if got := b.stays("ip-1"); got != c.want {
				t.Errorf("stays: %t, want %t", got, c.want)
			}
		})
	}
}
