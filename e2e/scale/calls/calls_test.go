package calls_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/slipway-k8s/slipway/e2e/scale/calls"
)

// entry is a line of an audit log, as kube-apiserver writes it but for what is not read.
func entry(stage, verb, uri, user, object string) string {
	return `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","stage":"` + stage + `","requestURI":"` + uri + `","verb":"` + verb +
		`","user":{"username":"` + user + `"},"objectRef":{` + object + "}}\n"
}

const launcher = "system:serviceaccount:kube-system:slipway-launcher"

func TestRead(t *testing.T) {
	const complete, started = "ResponseComplete", "ResponseStarted"
	pods := `"resource":"pods"`
	log := entry(complete, "list", "/api/v1/pods?limit=500", launcher, pods) +
		entry(complete, "list", "/api/v1/pods?limit=500\\u0026continue=x", launcher, pods) +
		entry(complete, "list", "/api/v1/pods?fieldSelector=spec.nodeName%3Da", launcher, pods) +
		entry(complete, "list", "/api/v1/namespaces/a/pods", launcher, pods+`,"namespace":"a"`) +
		entry(started, "watch", "/api/v1/pods?sendInitialEvents=true", launcher, pods) +
		entry(complete, "watch", "/api/v1/pods?sendInitialEvents=true", launcher, pods) +
		entry(started, "watch", "/api/v1/pods?resourceVersion=7", launcher, pods) +
		entry(complete, "patch", "/api/v1/nodes/a/status", "system:node:a", `"resource":"nodes","name":"a","subresource":"status"`) +
		entry(complete, "create", "/api/v1/nodes", launcher, `"resource":"nodes","name":"a"`) +
		strings.Replace(entry(complete, "create", "/api/v1/namespaces/a/events", launcher, `"resource":"events","namespace":"a"`), "}}", `},"requestObject":{"involvedObject":{"kind":"Pod"}}}`, 1) +
		entry(complete, "get", "/version", "admin", "") + "\n"
	counts := calls.Counts{}
	read, err := counts.Read(strings.NewReader(log + `{"half`))
	if err != nil || read != int64(len(log)) {
		t.Errorf("read %d bytes of %d, %v", read, len(log), err)
	}
	want := calls.Counts{
		{Who: "slipway-launcher", Verb: calls.Whole, Resource: "pods"}:       2,
		{Who: "slipway-launcher", Verb: "list", Resource: "pods"}:            3,
		{Who: "slipway-launcher", Verb: "watch", Resource: "pods"}:           1,
		{Who: "slipway-launcher", Verb: "create", Resource: "nodes"}:         1,
		{Who: "slipway-launcher", Verb: "create", Resource: "events of Pod"}: 1,
		{Who: "kubelets", Verb: "patch", Resource: "nodes/status"}:           1,
	}
	if !maps.Equal(counts, want) {
		t.Errorf("counted %v, want %v", counts, want)
	}
	if counts.Writes(calls.Launcher) != 1 || counts.PodWrites(calls.Launcher) != 1 || counts.Wholes(calls.Launcher) != 2 {
		t.Errorf("%d writes and %d reads of all pods, want 1 and 2", counts.Writes(calls.Launcher), counts.Wholes(calls.Launcher))
	}
	if less := counts.Less(want); len(less) != 0 {
		t.Errorf("the same less itself is %v", less)
	}
}

func TestReadRefusesWhatIsNoEntry(t *testing.T) {
	if _, err := (calls.Counts{}).Read(strings.NewReader("no entry\n")); err == nil {
		t.Error("a line that is no entry was read")
	}
}

func TestTableShowsMissedGoals(t *testing.T) {
	counts := calls.Counts{
		{Who: calls.Launcher, Verb: "patch", Resource: "nodeclaims/status"}: 130,
		{Who: calls.Launcher, Verb: calls.Whole, Resource: "pods"}:          1,
		{Who: calls.Scheduler, Verb: "create", Resource: "pods/binding"}:    20,
	}
	out := calls.Stage{Name: "out", Took: 10 * time.Second, Nodes: 10, Pods: 20, Launched: 10, SchedulerCPU: 1, LauncherCPU: 0.4, SchedulerMemory: 1000, LauncherMemory: 1000, Calls: counts}
	rest := calls.Stage{Name: "rest", Took: 10 * time.Second, LauncherCPU: 1, Rest: true, Calls: calls.Counts{}}
	text := calls.Table([]calls.Stage{out, rest})
	for _, want := range []string{"13.0 (goal 12.0)", "1 (goal 0)", "2000 (goal 1536)", "0.100 (goal 0.050)", "| 0.040 "} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
	text = calls.CallTable(out, 1, calls.Launcher, calls.Scheduler)
	if strings.Count(text, "\n") != 4 || !strings.Contains(text, "nodeclaims/status") || !strings.Contains(text, "13.00") || !strings.Contains(text, "pods/binding") {
		t.Errorf("the table of requests is\n%s", text)
	}
}
