package input

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Each pod has its own creation, in every style of text. Pods that differ in their name, UID and creation alone are of one shape.
func TestCreationOfPods(t *testing.T) {
	for style, pod := range map[string]string{
		"block": "apiVersion: v1\nkind: Pod\nmetadata:\n  creationTimestamp: %[2]s\n  name: web-%[1]d\n  labels:\n    app: web\nspec:\n  containers:\n  - name: main\n",
		"flow":  "{apiVersion: v1, kind: Pod, metadata: {creationTimestamp: %[2]s, name: web-%[1]d, labels: {app: web}}, spec: {containers: [{name: main}]}}\n",
		"JSON":  `{"apiVersion": "v1", "kind": "Pod", "metadata": {"creationTimestamp": %[2]s, "name": "web-%[1]d", "labels": {"app": "web"}}, "spec": {"containers": [{"name": "main"}]}}`,
	} {
		t.Run(style, func(t *testing.T) {
			r := NewReader()
			for i, created := range []string{`"2026-03-04T11:51:00Z"`, `"2026-03-04T11:49:00Z"`, "null"} {
				if err := r.Read("pod", fmt.Appendf(nil, pod, i, created)); err != nil {
					t.Fatal(err)
				}
			}
			objects := r.Finish()
			if len(objects.Pods) != 3 || len(objects.Problems) > 0 {
				t.Fatalf("%d pods, problems %v", len(objects.Pods), objects.Problems)
			}
			for i, want := range []time.Time{time.Date(2026, 3, 4, 11, 51, 0, 0, time.UTC), time.Date(2026, 3, 4, 11, 49, 0, 0, time.UTC), {}} {
				if p := objects.Pods[i]; !p.CreationTimestamp.Time.Equal(want) || p.Shape != objects.Pods[0].Shape {
					t.Errorf("pod %s of shape %d was created at %s, want shape %d and %s", p.Name, p.Shape, p.CreationTimestamp, objects.Pods[0].Shape, want)
				}
			}
		})
	}
}

// A pod whose creation is no time is left out and named with the field.
func TestCreationThatIsNoTime(t *testing.T) {
	r := NewReader()
	if err := r.Read("pod", []byte("apiVersion: v1\nkind: Pod\nmetadata:\n  creationTimestamp: soon\n  name: web\nspec:\n  containers:\n  - name: main\n")); err != nil {
		t.Fatal(err)
	}
	objects := r.Finish()
	if len(objects.Pods) != 0 || len(objects.Problems) != 1 || !strings.Contains(objects.Problems[0].Field, "creationTimestamp") {
		t.Errorf("%d pods, problems %+v", len(objects.Pods), objects.Problems)
	}
}
