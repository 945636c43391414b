package planner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/view"
	"github.com/slipway-k8s/slipway/plugin/simulate/market"
)

// pool returns a NodePool for on-demand nodes of one size, with a limit.
func pool() *karpv1.NodePool {
	p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "pool", ResourceVersion: "7"}}
	p.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}
	p.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
		{Key: karpv1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{"on-demand"}},
	}
	p.Spec.Limits = karpv1.Limits{corev1.ResourceCPU: resource.MustParse("16")}
	return p
}

func pod(name, node, cpu string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)}, Spec: corev1.PodSpec{NodeName: node, SchedulerName: "slipway"}}
	p.Spec.Containers = []corev1.Container{{Name: "main", Image: "a", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}}
	return p
}

// node returns a node that is far too large for one pod.
func node() *corev1.Node {
	const name = "a"
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{
		karpv1.NodePoolLabelKey: "default", corev1.LabelInstanceTypeStable: "m7g.4xlarge", corev1.LabelTopologyZone: "us-east-1a", karpv1.CapacityTypeLabelKey: "on-demand",
		corev1.LabelArchStable: "arm64", corev1.LabelOSStable: "linux", corev1.LabelHostname: name,
	}}}
	n.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("16"), corev1.ResourceMemory: resource.MustParse("64Gi"), corev1.ResourcePods: resource.MustParse("100")}
	n.Status.Allocatable = n.Status.Capacity
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return n
}

// served returns a server for objects, and how often they were read.
func served(t *testing.T, objects ...runtime.Object) (http.Handler, *int) {
	t.Helper()
	return servedAt(t, market.Files{}, objects...)
}

// servedAt is served with what can be bought.
func servedAt(t *testing.T, files market.Files, objects ...runtime.Object) (http.Handler, *int) {
	t.Helper()
	m, err := market.Read(files)
	if err != nil {
		t.Fatal(err)
	}
	reads := 0
	s, err := New(Config{Market: func(context.Context) (*market.Market, error) { return m, nil }, Objects: func(context.Context) ([]runtime.Object, error) { reads++; return objects, nil }, Buffers: buffered})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	s.Register(mux)
	return mux, &reads
}

// asked sends a question, and reads the answer into out.
func asked(t *testing.T, h http.Handler, target, question string, out any) *httptest.ResponseRecorder {
	t.Helper()
	method := http.MethodGet
	if question != "" {
		method = http.MethodPost
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(question)))
	if out != nil {
		if err := json.Unmarshal(w.Body.Bytes(), out); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%s: %d %v: %s", target, w.Code, err, w.Body)
		}
	}
	return w
}

// Pods that a limit keeps pending get the edit that helps. The cluster is read once for questions that come together.
func TestEdits(t *testing.T) {
	h, reads := served(t, pool(), node(), pod("runs", "a", "15"), pod("waits", "", "3"))
	var got Edits
	first := asked(t, h, Path+"edits", "", &got)
	if len(got.Classes) != 1 || got.Classes[0].Owner != "Pod waits" || len(got.Classes[0].Edits) == 0 || len(got.Notes) == 0 {
		t.Fatalf("got %+v", got)
	}
	if e := got.Classes[0].Edits[0]; !strings.HasPrefix(e.Text, "Raise limit cpu of NodePool default from 16 to ") || e.Price <= 0 || e.InstanceType == "" {
		t.Errorf("the first edit is %+v", e)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, Path+"edits", nil)
	r.Header.Set("If-None-Match", first.Header().Get("ETag"))
	again := httptest.NewRecorder()
	h.ServeHTTP(again, r)
	if again.Code != http.StatusNotModified || *reads != 1 {
		t.Errorf("asking again: %d after %d reads", again.Code, *reads)
	}
}

// What a row of pending pods is depends on what the plan did with its pods: edits were searched for the largest classes alone, some pods are not planned
// at all, and some have a place.
func TestEditsSayWhatHappenedToEachPod(t *testing.T) {
	full := pool()
	full.Spec.Limits[corev1.ResourceCPU] = resource.MustParse("20")
	objects := []runtime.Object{full, node(), pod("runs", "a", "10")}
	for i := range 21 {
		objects = append(objects, pod(fmt.Sprintf("large-%02d", i), "", fmt.Sprint(100+i)))
	}
	gated := pod("gated", "", "1")
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}}
	gated.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "later", UID: "later", Controller: new(true)}}
	objects = append(objects, gated, pod("fits", "", "2"))
	begun := time.Now()
	h, _ := servedAt(t, market.Files{Prices: []byte(`{"on-demand": {"m7g.4xlarge": 0.6528, "m7g.xlarge": 0.1632}, "refused": []}`), Now: begun}, objects...)
	var got Edits
	asked(t, h, Path+"edits", "", &got)
	searched := 0
	for _, c := range got.Classes {
		if !c.Unsearched {
			searched++
		}
	}
	if len(got.Classes) != 21 || searched != 20 || !got.Classes[20].Unsearched || got.Classes[20].Edits == nil || got.More != 0 {
		t.Errorf("%d classes, %d of them searched, %d more: %+v", len(got.Classes), searched, got.More, got.Classes)
	}
	want := []Group{{Namespace: "shop", Owner: "Job later", Pods: []string{"gated"}, Count: 1, Reason: "held by the scheduling gate example.com/wait"}}
	if diff := cmp.Diff(want, got.Held); diff != "" {
		t.Errorf("the pods that are held differ (-want +got):\n%s", diff)
	}
	want = []Group{{Namespace: "shop", Owner: "Pod fits", Pods: []string{"fits"}, Count: 1}}
	if diff := cmp.Diff(want, got.Placed); diff != "" {
		t.Errorf("the pods with a place differ (-want +got):\n%s", diff)
	}
	if got.At.Before(begun) || got.At.After(time.Now()) || !got.Refusals {
		t.Errorf("read at %s, refusals known: %t", got.At, got.Refusals)
	}
}

// question returns one as JSON.
func question(t *testing.T, objects string, remove ...string) string {
	t.Helper()
	text, err := json.Marshal(Question{Objects: objects, Remove: remove})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A question plans other objects, and leaves the cluster's as they are.
func TestWhatIfObjectsWereOthers(t *testing.T) {
	h, _ := served(t, pool(), node(), pod("runs", "a", "3"), pod("waits", "", "15"))
	var object Object
	asked(t, h, Path+"object?kind=NodePool&name=default", "", &object)
	if !strings.Contains(object.YAML, "kind: NodePool") || strings.Contains(object.YAML, "resourceVersion") || strings.Contains(object.YAML, "status") {
		t.Errorf("the NodePool is\n%s", object.YAML)
	}
	var got WhatIf
	asked(t, h, Path+"whatif", question(t, strings.ReplaceAll(object.YAML, `cpu: "16"`, `cpu: "100"`)), &got)
	if got.Before.UnschedulableCount != 1 || got.After.UnschedulableCount != 0 || got.After.LaunchedCount != 1 || got.After.Price <= got.Before.Price || len(got.Problems) != 0 {
		t.Errorf("with a higher limit: %+v", got)
	}
	asked(t, h, Path+"whatif", question(t, "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: b}\nspec: {wrong: 1, template: {spec: {requirements: []}}}"), &got)
	if !strings.Contains(strings.Join(got.Problems, "\n"), "spec.wrong") {
		t.Errorf("a field that is not there: %+v", got.Problems)
	}
	asked(t, h, Path+"whatif", question(t, ""), &got)
	if got.After.UnschedulableCount != 1 || got.Before.Price != got.After.Price {
		t.Errorf("nothing is changed: %+v", got)
	}
}

// Both plans are of the same cluster: what is read is not read again between them.
func TestWhatIfPlansOneCluster(t *testing.T) {
	prices := [][]byte{[]byte(`{"on-demand": {"m7g.4xlarge": 0.6528}}`), []byte(`{"on-demand": {"m7g.4xlarge": 6.528}}`)}
	clusters := [][]runtime.Object{{pool(), node(), pod("runs", "a", "3")}, {pool()}}
	var s *Server
	reads := 0
	s, err := New(Config{Buffers: buffered, Objects: func(context.Context) ([]runtime.Object, error) {
		reads++
		return clusters[min(reads, len(clusters))-1], nil
	}, Market: func(context.Context) (*market.Market, error) {
		s.objects.until = time.Time{} // They are of no use again.
		return market.Read(market.Files{Prices: prices[min(reads, len(prices))-1]})
	}})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	s.Register(mux)
	var got WhatIf
	asked(t, mux, Path+"whatif", question(t, ""), &got)
	if got.Before.Nodes != 1 || got.After.Nodes != 1 || got.Before.Price == 0 || got.Before.Price != got.After.Price || reads != 1 {
		t.Errorf("nothing is changed: %+v after %d reads", got, reads)
	}
}

// A question plans fewer nodes, by their names or those of their NodeClaims. One that cannot be read, or is too large, is refused.
func TestWhatIfNodesWereGone(t *testing.T) {
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "claim-a", Labels: node().Labels}, Status: karpv1.NodeClaimStatus{NodeName: "a"}}
	h, _ := served(t, pool(), node(), claim, pod("runs", "a", "3"), pod("waits", "", "15"))
	var object Object
	var got WhatIf
	asked(t, h, Path+"object?kind=Pod&namespace=shop&name=runs", "", &object)
	if !strings.Contains(object.YAML, "name: runs") || strings.Contains(object.YAML, "nodeName") {
		t.Errorf("the pod is\n%s", object.YAML)
	}
	for _, name := range []string{"a", "claim-a"} {
		asked(t, h, Path+"whatif", question(t, "", name), &got)
		if got.Before.Nodes != 1 || got.After.Nodes != got.After.LaunchedCount || got.After.LaunchedCount == 0 || got.Removed[0] != name {
			t.Errorf("without the node %s: %+v", name, got)
		}
	}
	for q, want := range map[string]int{
		question(t, "", "b"): http.StatusBadRequest, "{": http.StatusBadRequest, `{"other": 1}`: http.StatusBadRequest, question(t, "a: [b"): http.StatusBadRequest,
		question(t, strings.Repeat("a", mostBody)): http.StatusBadRequest, question(t, "", strings.Split(strings.Repeat("a ", mostRemoved+1), " ")...): http.StatusBadRequest,
	} {
		if w := asked(t, h, Path+"whatif", q, nil); w.Code != want || !strings.Contains(w.Body.String(), `"kind":"Status"`) {
			t.Errorf("%.60s: %d %.200s", q, w.Code, w.Body)
		}
	}
	if w := asked(t, h, Path+"object?kind=NodePool&name=none", "", nil); w.Code != http.StatusNotFound {
		t.Errorf("an object that is not there: %d", w.Code)
	}
}

// buffered is what two nodes for three pods give, one of them a minute after the other.
func buffered(context.Context) (view.BufferReport, error) {
	now := time.Now()
	return view.ReportBuffers([]view.Decision{
		{At: now.Add(-time.Hour), What: view.Launched, NodePool: "default", Pods: 2, Price: 0.1},
		{At: now.Add(-time.Hour + time.Second), What: view.Launched, NodePool: "default", Pods: 1, Price: 0.1},
	}, nil, now), nil
}

// What buffers would have cost and saved is answered by size: two nodes save the wait of all three pods, one that of two.
func TestBuffers(t *testing.T) {
	h, _ := served(t, pool())
	var got view.BufferReport
	asked(t, h, Path+"buffers", "", &got)
	if len(got.Answers) != 2 || got.Answers[0].Had != 1 || got.Answers[1].Had != 2 || got.Until.Sub(got.Since) != time.Hour {
		t.Fatalf("got %+v", got)
	}
	if one, two := got.Answers[0], got.Answers[1]; one.SavedSeconds*3 != two.SavedSeconds*2 || two.StandbySavedSeconds >= two.SavedSeconds || one.PerDay*2 != two.PerDay || one.StandbyPerDay >= one.PerDay {
		t.Errorf("got %+v", got.Answers)
	}
}

// The lower bound is below what the nodes cost, and below what a plan from scratch costs.
func TestBound(t *testing.T) {
	h, _ := served(t, pool(), node(), pod("runs", "a", "3"), pod("waits", "", "15"))
	var got Bound
	asked(t, h, Path+"bound", "", &got)
	if got.Least <= 0 || got.Least > got.Planned || got.Planned >= got.Price || got.Unplaced != 0 {
		t.Errorf("got %+v", got)
	}
}

// Nodes without a known price, such as those in a capacity reservation, do not count, and neither do their pods: the bound stays below the price.
func TestUnpricedNodesDoNotCount(t *testing.T) {
	var want, got Bound
	h, _ := served(t, pool(), node(), pod("runs", "a", "3"))
	asked(t, h, Path+"bound", "", &want)
	reserved := node()
	reserved.Name, reserved.UID = "b", "b"
	reserved.Labels[corev1.LabelHostname], reserved.Labels[karpv1.CapacityTypeLabelKey] = "b", "reserved"
	large := pool()
	large.Spec.Limits = nil
	h, _ = served(t, large, node(), reserved, pod("runs", "a", "3"), pod("reserved", "b", "15"))
	asked(t, h, Path+"bound", "", &got)
	if got.Price != want.Price || got.Least != want.Least || got.Planned != want.Planned || got.Least > got.Price || got.Unpriced != 1 || want.Unpriced != 0 {
		t.Errorf("got %+v, want %+v and the node without a price", got, want)
	}
	var answer WhatIf
	asked(t, h, Path+"whatif", question(t, "", "b"), &answer)
	if answer.Before.Unpriced != 1 || answer.Before.Price != want.Price || answer.Before.Nodes != 2 || answer.After.Unpriced != 0 {
		t.Errorf("what if without the node: %+v", answer)
	}
}

// Nothing is planned on what EC2 refuses. The lower bound is that of a cluster that was bought before.
func TestRefusedOfferings(t *testing.T) {
	prices := `{"on-demand": {"m6i.xlarge": 0.2, "m6i.2xlarge": 0.4}, "refused": [{"code": "InsufficientInstanceCapacity", "zone": "us-east-1a",
		"capacityType": "on-demand", "instanceTypes": ["m6i.xlarge", "m6i.2xlarge"], "until": "2999-01-01T00:00:00Z"}]}`
	h, _ := servedAt(t, market.Files{Prices: []byte(prices), Zones: []byte(`["us-east-1a"]`), Now: time.Now()}, pool(), pod("waits", "", "3"))
	var got WhatIf
	asked(t, h, Path+"whatif", question(t, ""), &got)
	if got.After.LaunchedCount != 0 || got.After.UnschedulableCount != 1 || !strings.Contains(got.After.Unschedulable[0].Reasons[0].Reason, "EC2 has no capacity in the 2 offerings that fit") {
		t.Errorf("got %+v", got.After)
	}
	prices = strings.Replace(prices, `"on-demand": {`, `"on-demand": {"m7g.4xlarge": 0.7, `, 1)
	h, _ = servedAt(t, market.Files{Prices: []byte(prices), Zones: []byte(`["us-east-1a"]`), Now: time.Now()}, pool(), node(), pod("runs", "a", "3"))
	var bound Bound
	asked(t, h, Path+"bound", "", &bound)
	if bound.Least <= 0 || bound.Least > 0.3 || bound.Price < 0.7 || bound.Unplaced != 0 {
		t.Errorf("got %+v", bound)
	}
}

// What the user may not read is reported as the API server says it.
func TestRefused(t *testing.T) {
	m, err := market.Read(market.Files{})
	if err != nil {
		t.Fatal(err)
	}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no"))
	s, err := New(Config{Market: func(context.Context) (*market.Market, error) { return m, nil }, Objects: func(context.Context) ([]runtime.Object, error) { return nil, forbidden }, Buffers: func(context.Context) (view.BufferReport, error) { return view.BufferReport{}, forbidden }})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	s.Register(mux)
	for _, path := range []string{"edits", "bound", "object", "buffers"} {
		if w := asked(t, mux, Path+path, "", nil); w.Code != http.StatusForbidden {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if _, err := New(Config{}); err == nil {
		t.Error("a server without a cluster is made")
	}
}
