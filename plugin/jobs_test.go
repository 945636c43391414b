package plugin

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
)

// The scheduler keeps Jobs without their pod templates, which it does not read. What plugins of others may read of kube-scheduler's informers stays whole.
func TestJobsAreKeptWithoutTemplates(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "default", Name: "a"}
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	f := informers.NewSharedInformerFactory(fake.NewClientset(
		&batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Parallelism: new(int32(7)), Template: template}},
		&appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Template: template}},
	), 0)
	p, err := New(Options{Registerer: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.observe(f); err != nil {
		t.Fatal(err)
	}
	f.Start(t.Context().Done())
	f.WaitForCacheSync(t.Context().Done())
	t.Cleanup(f.Shutdown)
	job, err := f.Batch().V1().Jobs().Lister().Jobs("default").Get("a")
	if err != nil || len(job.Spec.Template.Spec.Containers) != 0 || *job.Spec.Parallelism != 7 {
		t.Errorf("Job %+v, %v", job, err)
	}
	set, err := f.Apps().V1().ReplicaSets().Lister().ReplicaSets("default").Get("a")
	if err != nil || len(set.Spec.Template.Spec.Containers) != 1 {
		t.Errorf("ReplicaSet %+v, %v", set, err)
	}
}
