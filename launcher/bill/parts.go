package bill

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Parts are USD by what they are paid for.
type Parts struct {
	// Instance is the instance at its spot or on-demand price, as far as no commitment pays for it.
	Instance float64 `json:"instance"`
	// Volumes are its EBS volumes.
	Volumes float64 `json:"volumes"`
	// PublicIPv4 is its public address.
	PublicIPv4 float64 `json:"publicIPv4"`
	// Burst is CPU beyond the baseline of a burstable instance.
	Burst float64 `json:"burst"`
	// Declared is what the NodePool declares (catalog.NodeCostAnnotation).
	Declared float64 `json:"declared"`
	// Commitments is what Savings Plans and Reserved Instances cost that pay for instances.
	Commitments float64 `json:"commitments"`
}

// Total returns the sum.
func (p Parts) Total() float64 {
	return p.Instance + p.Volumes + p.PublicIPv4 + p.Burst + p.Declared + p.Commitments
}

// Plus returns the sum by part.
func (p Parts) Plus(q Parts) Parts {
	return Parts{
		p.Instance + q.Instance, p.Volumes + q.Volumes, p.PublicIPv4 + q.PublicIPv4, p.Burst + q.Burst, p.Declared + q.Declared,
		p.Commitments + q.Commitments,
	}
}

// Times returns the parts times a factor.
func (p Parts) Times(f float64) Parts {
	return Parts{p.Instance * f, p.Volumes * f, p.PublicIPv4 * f, p.Burst * f, p.Declared * f, p.Commitments * f}
}

// Amounts are resources.
type Amounts struct {
	// CPU in thousandths, Memory in bytes, Accelerators in devices.
	CPU, Memory, Accelerators int64
}

// Key is what a pod is charged to.
type Key struct {
	// Namespace of the pod.
	Namespace string
	// Kind and Name of its workload; both are empty for the other workloads of the namespace.
	Kind, Name string
	// Labels are its labels app.kubernetes.io/*, sorted, such as app.kubernetes.io/name=web,app.kubernetes.io/part-of=shop.
	Labels string
}

// LabelPrefix is what the names of the labels begin with that are recorded (Kubernetes documentation, "Recommended Labels").
const LabelPrefix = "app.kubernetes.io/"

// LabelMap returns the labels.
func (k Key) LabelMap() map[string]string {
	out := map[string]string{}
	for pair := range strings.SplitSeq(k.Labels, ",") {
		if name, value, ok := strings.Cut(pair, "="); ok {
			out[name] = value
		}
	}
	return out
}

func compare(a, b Key) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name), strings.Compare(a.Labels, b.Labels))
}

// String returns the parts that are not zero.
func (p Parts) String() string {
	out := []string{fmt.Sprintf("instances %.4f", p.Instance)}
	for _, part := range []struct {
		name string
		usd  float64
	}{{"volumes", p.Volumes}, {"public IPv4", p.PublicIPv4}, {"burst", p.Burst}, {"declared", p.Declared}, {"commitments", p.Commitments}} {
		if part.usd > 0 {
			out = append(out, fmt.Sprintf("%s %.4f", part.name, part.usd))
		}
	}
	return strings.Join(out, " + ")
}

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
