package plugin

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
)

// BenchmarkBuffers places 1,000 pods of buffers on 1,000 half-empty nodes.
func BenchmarkBuffers(b *testing.B) {
	objects, _ := halfEmptyFleet(benchCatalog(), 1000)
	p := benchPlannerOf(b, objects)
	template := corev1.PodTemplateSpec{Spec: benchPod("buffer", "").Spec}
	text, err := template.Marshal()
	if err != nil {
		b.Fatal(err)
	}
	q := &api.PlaceBuffers{Namespace: "default", Namespaces: []string{"default"}, Buffers: []*api.Buffer{{Name: "spare", Uid: "u", Pods: 1000, Template: text}}}
	for b.Loop() {
		before := time.Now()
		a := p.buffers.place(b.Context(), q)
		if got := a.GetBuffers()[0]; got.GetExisting() != 1000 {
			b.Fatalf("%d of 1000 pods have room in %s: %s", got.GetExisting(), time.Since(before), got.GetNoRoom())
		}
	}
}
