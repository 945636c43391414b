package main

import (
	"strings"
	"testing"
	"time"
)

// A pod for which slipway has recorded no reason is shown with what its scheduler says: one that is adopted or another scheduler's, and one that is held by
// its scheduling gates. "Not planned yet" is one about which nothing is said.
func TestStatusSaysWhatTheSchedulerSays(t *testing.T) {
	pod := func(name, spec, conditions string) string {
		return `{metadata: {namespace: default, name: ` + name + `, uid: ` + name + `, creationTimestamp: "` + time.Now().UTC().Format(time.RFC3339) + `"}, ` +
			`spec: {containers: [{name: main}], ` + spec + `}, status: {phase: Pending, conditions: [` + conditions + `]}}`
	}
	pods := []string{
		pod("adopted", "schedulerName: default-scheduler", `{type: PodScheduled, status: "False", reason: Unschedulable, message: "0/2 nodes are available"}`),
		pod("gated", "schedulerName: slipway, schedulingGates: [{name: a}]", `{type: PodScheduled, status: "False", reason: SchedulingGated, message: "Scheduling is blocked"}`),
		pod("new", "schedulerName: slipway", ""),
	}
	config := serve(t, cluster(map[string]any{"/api/v1/pods": object(t, `{items: [`+strings.Join(pods, ", ")+`]}`)}))
	out, _, err := slipway(t, "", "status", "--kubeconfig", config)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"adopted": "0/2 nodes are available", "gated": "Scheduling is blocked", "new": "not planned yet"} {
		_, line, _ := strings.Cut(out, "default/Pod "+name+" for ")
		line, _, _ = strings.Cut(line, "\n")
		if _, got, _ := strings.Cut(line, ": "); got != want {
			t.Errorf("%s: %q, want %q, in\n%s", name, got, want, out)
		}
	}
}
