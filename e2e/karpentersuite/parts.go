package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/yaml"
)

// bufferCases begins the names of the cases that expect nodes of 2 CPUs: on kwok they narrow the NodePool to these themselves. Another cloud's
// NodePool has to be narrow already.
const bufferCases = "CapacityBuffer "

// part is cases of a suite that run with one NodePool.
type part struct {
	// name is that of the report and of the output.
	name string
	// nodePool is the path of the NodePool.
	nodePool string
	// focus and skip are Ginkgo's.
	focus, skip string
}

// partsOf divides the selected cases of a suite by the NodePool that they need.
func partsOf(c *cluster, names []string, o options) ([]part, error) {
	selected, err := selection(o)
	if err != nil {
		return nil, err
	}
	var buffers []string
	others := false
	for _, name := range names {
		switch {
		case !selected(name):
		case strings.HasPrefix(name, bufferCases):
			buffers = append(buffers, caseName(name))
		default:
			others = true
		}
	}
	skip := skipPattern(leftOut(o.suite), o.skip)
	var out []part
	if others || len(buffers) == 0 {
		out = append(out, part{name: o.suite, nodePool: c.nodePool, focus: o.focus, skip: either(skip, `^\S+ `+bufferCases)})
	}
	if len(buffers) > 0 {
		narrow, err := c.narrowPool()
		if err != nil {
			return nil, err
		}
		out = append(out, part{name: o.suite + "-buffers", nodePool: narrow, focus: either(buffers...), skip: skip})
	}
	return out, nil
}

// suiteNode is what Ginkgo puts before the name of a case.
func suiteNode(suite string) string { return strings.ToUpper(suite[:1]) + suite[1:] + " " }

// narrowPool writes the provider's NodePool with instance types of 2 CPUs alone.
func (c *cluster) narrowPool() (string, error) {
	text, err := os.ReadFile(c.nodePool)
	if err != nil {
		return "", err
	}
	pool := &karpv1.NodePool{}
	if err := yaml.Unmarshal(text, pool); err != nil {
		return "", fmt.Errorf("reading %s: %w", c.nodePool, err)
	}
	pool.Spec.Template.Spec.Requirements = append(pool.Spec.Template.Spec.Requirements, karpv1.NodeSelectorRequirementWithMinValues{
		Key: "karpenter.k8s.aws/instance-cpu", Operator: corev1.NodeSelectorOpIn, Values: []string{"2"},
	})
	if text, err = yaml.Marshal(pool); err != nil {
		return "", err
	}
	path := filepath.Join(c.state.Folder, "narrow-nodepool.yaml")
	return path, os.WriteFile(path, text, 0o600)
}

// all runs the selected cases, and returns the results of all.
func (s *suiteRun) all(ctx context.Context, names []string) ([]result, error) {
	parts, err := partsOf(s.cluster, names, s.options)
	if err != nil {
		return nil, err
	}
	var all []result
	for _, p := range parts {
		cases, err := s.run(ctx, p)
		if err != nil {
			return nil, err
		}
		all = merged(all, cases)
	}
	return all, nil
}

// merged returns the results of two runs of one suite: a case that the first did not select has the second's.
func merged(first, second []result) []result {
	at := map[string]int{}
	for i, c := range first {
		at[c.name] = i
	}
	for _, c := range second {
		i, known := at[c.name]
		switch {
		case !known:
			first = append(first, c)
		case first[i].verdict == unselected:
			first[i] = c
		}
	}
	return first
}
