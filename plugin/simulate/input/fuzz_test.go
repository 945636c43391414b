package input_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/slipway-k8s/slipway/plugin/simulate/input"
)

// many is a number of four digits or more.
var many = regexp.MustCompile(`[0-9]{4}|[eE][0-9]`)

// FuzzRead gives the reader any text: it must not panic, and what it complains of must have a name and words. Run it with
// go test ./plugin/simulate/input -fuzz FuzzRead.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		"", "---\n", "{}", "[]", "null", "42", "kind: Pod", "a: &a [*a]\n", "{\"kind\":\"List\",\"items\":[{\"kind\":\"Pod\"}]}",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, resources: {requests: {cpu: -1}}}]}\n",
		"apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\nspec:\n  containers:\n  - name: a\n    resources:\n      requests: {cpu: lots}\n",
		"apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\nspec: 7\n",
		"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {replicas: -3, template: {spec: {}}}\n",
		"apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: a}\nspec: {volumeClaimTemplates: [{}], template: {spec: {containers: [{name: a}]}}}\n",
		"apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: a}\nspec: {jobTemplate: {spec: {parallelism: 2, template: {spec: {containers: [{}]}}}}}\n",
		"apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: a}\nspec: {template: {spec: {requirements: [{key: a, operator: Perhaps}]}}}\n",
		"apiVersion: karpenter.sh/v1beta1\nkind: NodePool\nmetadata: {name: a}\n",
		"apiVersion: v1\nkind: LimitRange\nmetadata: {name: a}\nspec: {limits: [{type: Container, default: {cpu: 1}}]}\n---\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a}]}\n",
		"apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Node\n  metadata: {name: n}\n  status: {allocatable: {cpu: -2}}\n-\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if many.MatchString(text) {
			return // Thousands of replicas take their time.
		}
		r := input.NewReader()
		if err := r.Read("fuzz", []byte(text)); err != nil {
			if !strings.Contains(err.Error(), "fuzz") {
				t.Errorf("the error does not name its source: %v", err)
			}
			return
		}
		for _, p := range r.Finish().Problems {
			if p.Object == "" || p.Message == "" {
				t.Errorf("a problem without object or words: %+v", p)
			}
		}
	})
}
