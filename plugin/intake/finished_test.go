package intake

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-k8s/slipway/plugin/plan"
)

// TestFinishedPodsOfJobs checks that a gang is complete without the pods that its Job has had and does not replace.
func TestFinishedPodsOfJobs(t *testing.T) {
	for name, c := range map[string]struct {
		parallelism, completions, succeeded, want int
		uncounted                                 []types.UID
	}{
		"none has succeeded":                    {8, 8, 0, 0, nil},
		"all but the last":                      {8, 8, 7, 7, nil},
		"some are not in the status yet":        {8, 8, 5, 7, []types.UID{"a", "b"}},
		"the second of two equal waves":         {8, 16, 8, 0, nil},
		"the tail is smaller than the gang":     {8, 20, 16, 4, nil},
		"fewer completions than at a time":      {8, 5, 4, 4, nil},
		"a work queue, which replaces none":     {8, 0, 3, 3, nil},
		"more than it asked for have succeeded": {8, 8, 9, 8, nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := newOpenBatch(t)
			job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "train", UID: "train"}}
			job.Spec.Parallelism, job.Status.Succeeded = new(int32(c.parallelism)), int32(c.succeeded)
			if c.completions > 0 {
				job.Spec.Completions = new(int32(c.completions))
			}
			if c.uncounted != nil {
				job.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Succeeded: c.uncounted}
			}
			earlier := job.DeepCopy()
			earlier.Name, earlier.UID, earlier.Status.Succeeded = "earlier", "earlier", 8
			for _, j := range []*batchv1.Job{job, earlier} {
				if err := b.informers.Batch().V1().Jobs().Informer().GetIndexer().Add(j); err != nil {
					t.Fatal(err)
				}
			}
			for _, pod := range []string{"train-1", "train-2"} {
				p := b.exists(pod, false).DeepCopy()
				p.Labels = map[string]string{plan.LabelGang: "g"}
				p.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", APIVersion: "batch/v1", Name: "train", UID: "train", Controller: new(true)}}
				if err := b.informers.Core().V1().Pods().Informer().GetIndexer().Update(p); err != nil {
					t.Fatal(err)
				}
			}
			if got := b.Owners.Finished(b.Owners.PodsOfGang("default/g")); got != c.want {
				t.Errorf("%d pods have finished, want %d", got, c.want)
			}
			if got := b.Owners.gang(plan.Gang{Name: "default/g", Size: 8}, b.Tried).Existing; got != c.want {
				t.Errorf("%d pods of the gang are there before one was tried, want %d", got, c.want)
			}
		})
	}
}
