package webapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
	"github.com/slipway-k8s/slipway/launcher/view"
)

// world is a Server over stores that the test fills, and viewers that the test names.
type world struct {
	*Server

	stores map[string]toolscache.Indexer
	// types are what EC2 has.
	types []catalog.InstanceType
	// standby means that the replica does not lead.
	standby bool
	// events are those about each pod, and eventReads counts how often they were read.
	events     []corev1.Event
	eventReads int
	// reads counts how often a store was asked for.
	reads int
	url   string
}

func newWorld(tb testing.TB, objects ...client.Object) *world {
	tb.Helper()
	w := &world{stores: map[string]toolscache.Indexer{}}
	for _, kind := range []client.Object{&corev1.Pod{}, &corev1.Node{}, &karpv1.NodeClaim{}, &karpv1.NodePool{}} {
		w.stores[fmt.Sprintf("%T", kind)] = toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
	}
	for _, o := range objects {
		w.put(tb, o)
	}
	var err error
	w.Server, err = New(Config{Address: "127.0.0.1:0", Kubernetes: &rest.Config{}, Indexers: func(_ context.Context, kind client.Object) (toolscache.Indexer, error) {
		w.reads++
		return w.stores[fmt.Sprintf("%T", kind)], nil
	}, Types: func(context.Context) map[string][]catalog.InstanceType {
		return map[string][]catalog.InstanceType{"default": w.types}
	}, Rates: func() *catalog.Rates { return nil }, Decisions: func() []view.Decision {
		return []view.Decision{view.NewDecision(view.Consolidated, w.now(), "replaced by m7g.large spot", claim("default-a", "n1"))}
	}, Events: func(context.Context, *corev1.Pod) ([]corev1.Event, error) {
		w.eventReads++
		return w.events, nil
	}, Leading: func() bool { return !w.standby }, Consolidation: func() view.Consolidation {
		return view.Consolidation{Moves: []view.Move{{Nodes: []string{"n1"}, Saving: 0.25}}, Stays: []view.Stay{{Node: "n2", Why: "pod a/b may not be disrupted"}}}
	}})
	if err != nil {
		tb.Fatal(err)
	}
	clock := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	w.now = func() time.Time { return clock }
	server := httptest.NewServer(w.Handler(Access{Authenticator: authenticator.RequestFunc(viewer), Authorizer: authorizer.AuthorizerFunc(rights)}))
	tb.Cleanup(server.Close)
	w.url = server.URL
	return w
}

func (w *world) put(tb testing.TB, o client.Object) {
	tb.Helper()
	if err := w.stores[fmt.Sprintf("%T", o)].Add(o); err != nil {
		tb.Fatal(err)
	}
}

// viewer takes the token for the user's name.
func viewer(r *http.Request) (*authenticator.Response, bool, error) {
	name, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return &authenticator.Response{User: &user.DefaultInfo{Name: name}}, ok, nil
}

// rights lets admin see everything, and a tenant the pods of the namespace with the tenant's name.
func rights(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	switch name := a.GetUser().GetName(); {
	case name == "nodes only":
		if a.GetResource() == "nodeclaims" {
			return authorizer.DecisionAllow, "", nil
		}
	case name == "admin", name == a.GetNamespace() && a.GetResource() == "pods" && name != "":
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// get asks as a viewer; an empty one is nobody.
func (w *world) get(tb testing.TB, viewer, path string, header ...string) (*http.Response, map[string]any) {
	tb.Helper()
	r, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, w.url+path, nil)
	if err != nil {
		tb.Fatal(err)
	}
	if viewer != "" {
		r.Header.Set("Authorization", "Bearer "+viewer)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	var body map[string]any
	if answer.StatusCode != http.StatusNotModified {
		if err := json.NewDecoder(answer.Body).Decode(&body); err != nil {
			tb.Fatalf("%s: %v", path, err)
		}
	}
	return answer, body
}

func pendingPod(namespace, name, why string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + name)}}
	pod.Status.Phase = corev1.PodPending
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: why}}
	return pod
}

func claim(name, node string) *karpv1.NodeClaim {
	c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Now()}}
	c.Annotations = map[string]string{catalog.ExpectedAnnotation: "m7g.large/us-east-1a/spot/0.0300", catalog.PodsAnnotation: `[{"uids":["ab"]}]`}
	c.Status.NodeName, c.Status.ProviderID = node, "aws:///us-east-1a/i-1"
	return c
}

// A viewer sees what the API server would show, and nobody sees nothing.
func TestWhoSeesWhat(t *testing.T) {
	w := newWorld(t, claim("default-a", "n1"), pendingPod("a", "b", ""), pendingPod("a", "waits", "no room"), pendingPod("c", "d", "no room"))
	for _, c := range []struct {
		path                  string
		nobody, tenant, admin int
	}{
		{"/api/v1/openapi.json", 401, 200, 200},
		{"/api/v1/nodes", 401, 403, 200},
		{"/api/v1/nodes/n1", 401, 403, 200},
		{"/api/v1/nodes/default-a", 401, 403, 200},
		{"/api/v1/nodes/none", 401, 403, 404},
		{"/api/v1/nodes/n1/pods", 401, 403, 200},
		{"/api/v1/nodes/n1/pods?namespace=a", 401, 200, 200},
		{"/api/v1/nodes/n1/pods?namespace=c", 401, 403, 200},
		{"/api/v1/pods", 401, 403, 200},
		{"/api/v1/pods?namespace=a", 401, 200, 200},
		{"/api/v1/pods?namespace=c", 401, 403, 200},
		{"/api/v1/pods?namespace=c&namespace=a", 401, 403, 200},
		{"/api/v1/pods?namespace=a&namespace=c", 401, 200, 200},
		{"/api/v1/namespaces/a/pods/b", 401, 200, 200},
		{"/api/v1/namespaces/a/pods/none", 401, 404, 404},
		{"/api/v1/namespaces/c/pods/d", 401, 403, 200},
		{"/api/v1/namespaces/a/pods/..%2F..%2Fc%2Fpods%2Fd", 401, 404, 404},
		{"/api/v1/faults", 401, 403, 200},
		{"/api/v1/prices", 401, 403, 200},
		{"/api/v1/decisions", 401, 403, 200},
		{"/api/v1/consolidation", 401, 403, 200},
		{"/metrics", 404, 404, 404},
	} {
		for viewer, want := range map[string]int{"": c.nobody, "a": c.tenant, "admin": c.admin} {
			answer, body := w.get(t, viewer, c.path)
			if answer.StatusCode != want {
				t.Errorf("%s for %q: %d %v, want %d", c.path, viewer, answer.StatusCode, body, want)
			}
			if want >= 400 && (body["kind"] != "Status" || body["message"] == "") {
				t.Errorf("%s for %q: the error is %v, want a Status as the API server's", c.path, viewer, body)
			}
		}
	}
	_, body := w.get(t, "a", "/api/v1/pods?namespace=a&namespace=c")
	if text := fmt.Sprint(body); strings.Contains(text, "Pod d") || !strings.Contains(text, "Pod waits") {
		t.Errorf("the tenant sees %v, want its own pods", body)
	}
	for path, want := range map[string]int{"/api/v1/decisions": 200, "/api/v1/consolidation": 403} {
		if answer, _ := w.get(t, "nodes only", path); answer.StatusCode != want {
			t.Errorf("%s for who sees no pods: %d, want %d", path, answer.StatusCode, want)
		}
	}
	answer, err := http.Post(w.url+"/api/v1/nodes", "application/json", nil)
	if err != nil || answer.StatusCode < 400 {
		t.Errorf("a write was answered with %v %v", answer, err)
	}
	_ = answer.Body.Close()
}

// Answers have what the views of the terminal have.
func TestAnswers(t *testing.T) {
	w := newWorld(t, claim("default-a", "n1"), pendingPod("a", "b", ""), pendingPod("c", "d", "no room"), pendingPod("c", "e", "no room"),
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	w.types = []catalog.InstanceType{{Name: "m7g.large", Charges: catalog.Charges{Volumes: 0.002}, Offerings: []catalog.Offering{{
		Zone: "a", CapacityType: "spot", Price: 0.032, UnavailableUntil: w.now().Add(time.Minute), Refusal: ec2error.Refusal{Code: ec2error.InsufficientInstanceCapacity, Since: w.now(), Attempts: 1},
	}}}}
	for path, want := range map[string][]string{
		"/api/v1/nodes":               {`"nodeClaim":"default-a"`, `"usdPerHour":0.03`, `"launched":1`, `"promised":1`, `"nodePoolsNotReady":[{`, `"nodePool":"default"`},
		"/api/v1/nodes/n1":            {`"nodeClaim":"default-a"`, `"instanceType":"m7g.large"`, `"timeline":[{`, `"what":"planned"`},
		"/api/v1/pods":                {`"pending":2`, `"promised":1`, `"count":1`, `"owner":"Pod e"`, `"why":"no room"`},
		"/api/v1/decisions":           {`"what":"consolidation"`, `"nodeClaims":["default-a"]`, `"why":"replaced by m7g.large spot"`, `"usdPerHour":0.03`},
		"/api/v1/consolidation":       {`"nodes":["n1"]`, `"savedUSDPerHour":0.25`, `"node":"n2"`, `"why":"pod a/b may not be disrupted"`},
		"/api/v1/faults":              {`"code":"InsufficientInstanceCapacity"`, `"zone":"a"`, `"instanceTypes":["m7g.large"]`, `"launches":[]`},
		"/api/v1/prices":              {`"on-demand":{}`, `"spot":{"a":{"m7g.large":0.03}}`, `"refused":[{`, `"code":"InsufficientInstanceCapacity"`},
		"/api/v1/pods?namespace=a":    {`"pending":0`, `"promised":1`},
		"/api/v1/namespaces/a/pods/b": {`"nodeClaim":"default-a"`, `"what":"node planned"`, `"phase":"Pending"`},
		"/api/v1/namespaces/c/pods/d": {`"why":"no room"`, `"timeline":[]`},
	} {
		_, body := w.get(t, "admin", path)
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range want {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s lacks %s:\n%s", path, part, text)
			}
		}
	}
}

// The bill says how many nodes it leaves out.
func TestUnpricedNodesAreCounted(t *testing.T) {
	taken := claim("taken", "")
	taken.Annotations = nil
	w := newWorld(t, claim("default-a", ""), taken)
	if _, body := w.get(t, "admin", "/api/v1/nodes"); body["unpriced"] != 1.0 || body["launched"] != 2.0 || body["usdPerHour"] != 0.03 {
		t.Errorf("the answer is %v", body)
	}
}

// The page is served beside the API, to everyone, and a browser that asks for nothing in particular gets it.
func TestPage(t *testing.T) {
	w := newWorld(t)
	for path, want := range map[string]int{"/": 200, "/ui/": 200, "/ui/app.js": 200, "/ui/none": 404, "/ui/../api/v1/nodes": 401} {
		answer, err := http.Get(w.url + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != want || want == 200 && !strings.Contains(answer.Header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: %d %v, want %d", path, answer.StatusCode, answer.Header, want)
		}
	}
}

// The reasons that the scheduler wrote on a pod are answered as data, for the pod and for its class; what is none of the scheduler's is left out.
func TestReasons(t *testing.T) {
	written := func(namespace, name, message string) *corev1.Pod {
		p := pendingPod(namespace, name, "no node can be launched")
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: nodeLaunchable, Status: corev1.ConditionFalse, Reason: "NoNodePoolFits", Message: message})
		return p
	}
	const limited = `{"reasons":[{"nodePools":["default","arm"],"code":"LimitReached","message":"limit cpu of 4 reached"}]}`
	bound := written("b", "r", limited)
	bound.Spec.NodeName = "n1"
	w := newWorld(t, written("a", "p", limited), written("c", "q", "not JSON"), bound)
	for _, path := range []string{"/api/v1/pods", "/api/v1/namespaces/a/pods/p"} {
		_, body := w.get(t, "admin", path)
		text, err := json.Marshal(body)
		if err != nil || !strings.Contains(string(text), `"reasons":[{"code":"LimitReached","message":"limit cpu of 4 reached","nodePools":["default","arm"]}]`) {
			t.Errorf("%s: %s (%v)", path, text, err)
		}
	}
	if _, body := w.get(t, "admin", "/api/v1/namespaces/c/pods/q"); body["reasons"] != nil || body["why"] == nil {
		t.Errorf("a condition that is not the scheduler's: %v", body)
	}
	if _, body := w.get(t, "admin", "/api/v1/namespaces/b/pods/r"); body["reasons"] != nil || body["node"] != "n1" {
		t.Errorf("a pod that has a node: %v", body)
	}
}

// A node's pods are those on it and those that wait for it, of the namespaces that the viewer asks for.
func TestNodePods(t *testing.T) {
	on := pendingPod("c", "on", "")
	on.Spec.NodeName = "n1"
	other := pendingPod("c", "other", "")
	other.Spec.NodeName = "n2"
	w := newWorld(t, claim("default-a", "n1"), pendingPod("a", "b", ""), on, other)
	for path, want := range map[string]string{
		"/api/v1/nodes/n1/pods": "a/b promised, c/on bound", "/api/v1/nodes/default-a/pods": "a/b promised, c/on bound",
		"/api/v1/nodes/n1/pods?namespace=a": "a/b promised", "/api/v1/nodes/n2/pods": "c/other bound", "/api/v1/nodes/none/pods": "",
	} {
		_, body := w.get(t, "admin", path)
		var got []string
		for _, row := range body["pods"].([]any) {
			r := row.(map[string]any)
			got = append(got, fmt.Sprintf("%s/%s %s", r["namespace"], r["name"], r["state"]))
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

// A client that has the answer gets none, and an answer is computed once for all who ask within a second.
func TestAnswersAreKept(t *testing.T) {
	w := newWorld(t, claim("default-a", "n1"))
	first, _ := w.get(t, "admin", "/api/v1/nodes")
	tag := first.Header.Get("ETag")
	if tag == "" || first.Header.Get("Cache-Control") != "private, no-cache" {
		t.Errorf("headers %v", first.Header)
	}
	reads := w.reads
	if again, _ := w.get(t, "admin", "/api/v1/nodes", "If-None-Match", tag); again.StatusCode != http.StatusNotModified || w.reads != reads {
		t.Errorf("got %d after %d reads more, want %d after none", again.StatusCode, w.reads-reads, http.StatusNotModified)
	}
	w.put(t, claim("default-b", ""))
	later := w.now().Add(2 * fresh)
	w.now = func() time.Time { return later }
	if again, body := w.get(t, "admin", "/api/v1/nodes", "If-None-Match", tag); again.StatusCode != http.StatusOK || len(body["nodes"].([]any)) != 2 {
		t.Errorf("got %d %v, want both NodeClaims", again.StatusCode, body)
	}
}

// Images are in the timeline of a pod that has a node, for viewers who may list Events; others get the reason. They are read once a second at most.
func TestImagesOfPods(t *testing.T) {
	bound := pendingPod("a", "b", "")
	bound.Spec.NodeName = "n1"
	w := newWorld(t, bound, pendingPod("a", "waits", "no room"))
	w.events = []corev1.Event{{Reason: "Pulling", Message: `Pulling image "web"`, FirstTimestamp: metav1.NewTime(w.now()), ReportingController: "kubelet"}}
	for _, c := range []struct {
		viewer, name  string
		images, noted bool
	}{{"admin", "b", true, false}, {"admin", "b", true, false}, {"a", "b", false, true}, {"admin", "waits", false, false}, {"a", "waits", false, false}} {
		_, body := w.get(t, c.viewer, "/api/v1/namespaces/a/pods/"+c.name)
		if images := strings.Contains(fmt.Sprint(body["timeline"]), "pulling image"); images != c.images || (body["note"] != nil) != c.noted {
			t.Errorf("pod %s for %s: %v", c.name, c.viewer, body)
		}
	}
	if w.eventReads != 1 {
		t.Errorf("Events were read %d times", w.eventReads)
	}
}

// More requests at a time than the bound get 429.
func TestRequestsAreBounded(t *testing.T) {
	w := newWorld(t)
	if !w.running.TryAcquire(mostRequests) {
		t.Fatal("requests are being answered")
	}
	if answer, _ := w.get(t, "admin", "/api/v1/nodes"); answer.StatusCode != http.StatusTooManyRequests || answer.Header.Get("Retry-After") == "" {
		t.Errorf("got %d %v", answer.StatusCode, answer.Header)
	}
	if answer, _ := w.get(t, "", "/api/v1/nodes"); answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("a viewer who is not known gets %d, and took a place of those who are", answer.StatusCode)
	}
	w.running.Release(mostRequests)
	if !w.unknown.TryAcquire(mostUnknown) {
		t.Fatal("the API server is asked about viewers")
	}
	if answer, _ := w.get(t, "admin", "/api/v1/nodes"); answer.StatusCode != http.StatusTooManyRequests {
		t.Errorf("beside %d requests of unknown viewers: got %d", mostUnknown, answer.StatusCode)
	}
	w.unknown.Release(mostUnknown)
	if answer, _ := w.get(t, "admin", "/api/v1/nodes"); answer.StatusCode != http.StatusOK {
		t.Errorf("got %d", answer.StatusCode)
	}
}

// A replica that does not lead says so where it knows nothing.
func TestStandbySaysSo(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"/api/v1/faults", "/api/v1/prices", "/api/v1/consolidation"} {
		for _, standby := range []bool{false, true} {
			w.standby = standby
			at := w.now().Add(time.Hour)
			w.now = func() time.Time { return at }
			if _, body := w.get(t, "admin", path); (body["standby"] == true) != standby {
				t.Errorf("%s, standby %t: %v", path, standby, body)
			}
		}
	}
}
