package main

import (
	"strings"
	"testing"
)

// With --from-cluster a file is an edit: its objects take the place of the cluster's, without a warning. Two in the files are one too many.
func TestFilesTakeThePlaceOfTheClustersObjects(t *testing.T) {
	pool := strings.TrimSuffix(anyPoolYAML, "---\n")
	config := serve(t, cluster(map[string]any{
		"/api/v1/pods":                      items(t, pendingYAML),
		"/apis/karpenter.sh/v1/nodepools":   items(t, pool+"  limits: {cpu: \"0\"}\n"),
		"/apis/karpenter.sh/v1/nodeclaims":  items(t),
		"/api/v1/namespaces/default/events": items(t),
	}))
	const twice = "NodePool default: is in the input more than once: the last one counts"
	for _, c := range []struct{ files, out, problem string }{
		{"", "1 pod cannot be placed", ""},
		{pool, "1 node to launch for 1 pod", ""},
		{pool + "  limits: {cpu: \"0\"}\n---" + pool, "1 node to launch for 1 pod", twice},
	} {
		args := append([]string{"simulate", "--from-cluster", "--kubeconfig", config}, marketFlags()...)
		if c.files != "" {
			args = append(args, "-f", "-")
		}
		out, errs, _ := slipway(t, c.files, args...) // A problem of the input is an error too.
		if !strings.Contains(out, c.out) || strings.Contains(errs, "more than once") != (c.problem != "") || !strings.Contains(errs, c.problem) {
			t.Errorf("%q: want %q:\n%s\n%s", c.files, c.out, out, errs)
		}
	}
}

// Another provider's NodePools, such as those of EKS Auto Mode, are neither planned for nor a problem of the input, and no pod is planned onto its nodes that
// are on their way.
func TestClusterLeavesOutOtherProviders(t *testing.T) {
	pool := strings.TrimSuffix(anyPoolYAML, "---\n")
	const class = "nodeClassRef: {group: eks.amazonaws.com, kind: NodeClass, name: default}"
	config := serve(t, cluster(map[string]any{
		"/api/v1/pods": items(t, pendingYAML),
		"/apis/karpenter.sh/v1/nodepools": items(t, pool, `
metadata: {name: general-purpose}
spec: {template: {spec: {`+class+`, requirements: []}}}
`),
		"/apis/karpenter.sh/v1/nodeclaims": items(t, `
metadata: {name: general-purpose-1, labels: {karpenter.sh/nodepool: general-purpose}}
spec: {`+class+`, requirements: []}
status: {allocatable: {cpu: "8", memory: 32Gi, pods: "58"}}
`),
	}))
	out, errs, err := slipway(t, "", append([]string{"simulate", "--from-cluster", "--kubeconfig", config}, marketFlags()...)...)
	if err != nil || !strings.Contains(out, "1 node to launch for 1 pod") || strings.Contains(out+errs, "general-purpose") {
		t.Errorf("%v:\n%s\n%s", err, out, errs)
	}
}
