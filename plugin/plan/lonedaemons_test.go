package plan_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// loneDaemons adds twenty DaemonSets with 2,000 terms of required anti-affinity each, and pods of 300 shapes.
func loneDaemons(b *batch) {
	for i := range 20 {
		ds := daemonSet(podYAML{Name: fmt.Sprint("hostile-", i), Namespace: "hostile"})
		ds.Spec.Template.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms(2000)}}
		b.in.DaemonSets = append(b.in.DaemonSets, ds)
	}
	for i := range 300 {
		b.add(1, 50+i, 64)
	}
}
