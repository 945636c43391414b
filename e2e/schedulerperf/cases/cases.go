// Package cases is pure: it reads the cases of scheduler_perf, writes one workload of one as a configuration of its own, and compares what two
// sides did in it.
package cases

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	"sigs.k8s.io/yaml"
)

// Label is what a configuration of one workload has as its only label.
const Label = "performance"

// Case is one workload of a case of scheduler_perf.
type Case struct {
	// Topic is the folder of the case's file, such as "affinity". Kubernetes looks up thresholds by it.
	Topic string
	// Name of the case and of its Workload.
	Name, Workload string
	// Threshold is the least average of pods per second; zero for none.
	Threshold float64
	// Emulates reports whether the workload switches QueueingHints off: Kubernetes then emulates version 1.33.
	Emulates bool

	doc, workload map[string]any
}

// Read returns the workloads of a file of scheduler_perf, in its order.
func Read(topic string, text []byte) ([]Case, error) {
	var docs []map[string]any
	if err := yaml.Unmarshal(text, &docs); err != nil {
		return nil, fmt.Errorf("reading the cases of %s: %w", topic, err)
	}
	var out []Case
	for _, doc := range docs {
		workloads, _ := doc["workloads"].([]any)
		for _, w := range workloads {
			w, ok := w.(map[string]any)
			if !ok {
				return nil, fmt.Errorf("reading the cases of %s: a workload of %v is no object", topic, doc["name"])
			}
			c := Case{Topic: topic, Threshold: threshold(w["threshold"], topic), doc: doc, workload: w}
			c.Name, _ = doc["name"].(string)
			c.Workload, _ = w["name"].(string)
			c.Emulates = gates(doc, w)["SchedulerQueueingHints"] == false
			out = append(out, c)
		}
	}
	return out, nil
}

// threshold is one number, or one for each topic.
func threshold(value any, topic string) float64 {
	if by, ok := value.(map[string]any); ok {
		value = by[topic]
	}
	number, _ := value.(float64)
	return number
}

// gates returns the feature gates of a case with those of its workload.
func gates(doc, workload map[string]any) map[string]any {
	out := map[string]any{}
	for _, of := range []map[string]any{doc, workload} {
		given, _ := of["featureGates"].(map[string]any)
		maps.Copy(out, given)
	}
	return out
}

// Pick returns the cases whose name and workload match. It leaves out workloads that emulate an older version: a scheduler of this version
// cannot run like that.
func Pick(all []Case, name, workload *regexp.Regexp) []Case {
	return slices.DeleteFunc(slices.Clone(all), func(c Case) bool {
		return c.Emulates || !name.MatchString(c.Name) || !workload.MatchString(c.Workload)
	})
}

// Config returns a configuration of this workload alone. scheduler is the path of a KubeSchedulerConfiguration, empty for the case's own. With
// batching, the scheduler has the gate OpportunisticBatching, which scheduler_perf switches off unless a case names it and which is on where a
// scheduler is started as usual. The threshold is left out: Kubernetes fails a run that is below, and a run on a busy machine is to be compared.
func (c Case) Config(scheduler string, batching bool) ([]byte, error) {
	workload := maps.Clone(c.workload)
	delete(workload, "threshold")
	workload["labels"] = []string{Label}
	with := gates(c.doc, c.workload)
	if batching {
		with["OpportunisticBatching"] = true
	}
	workload["featureGates"] = with
	doc := maps.Clone(c.doc)
	doc["workloads"] = []any{workload}
	if scheduler != "" {
		doc["schedulerConfigPath"] = scheduler
	}
	text, err := yaml.Marshal([]any{doc})
	if err != nil {
		return nil, fmt.Errorf("writing %s/%s: %w", c.Name, c.Workload, err)
	}
	return text, nil
}
