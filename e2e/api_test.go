package e2e_test

import (
	"crypto/tls"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-k8s/slipway/launcher/decisions"
	"github.com/slipway-k8s/slipway/launcher/view"
	"github.com/slipway-k8s/slipway/launcher/webapi"
)

// asked is the status with which the API answers a path, and its answer in out. A nil transport has no identity but the token's.
func (w *world) asked(transport http.RoundTripper, token, path string, out any) int {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.LauncherURL(path), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if transport == nil {
		// The launcher makes its certificate at each start.
		plain := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
		defer plain.CloseIdleConnections()
		transport = plain
	}
	answer, err := (&http.Client{Timeout: time.Minute, Transport: transport}).Do(r)
	if err != nil {
		w.t.Logf("asking for %s: %v", path, err)
		return 0
	}
	defer func() { _ = answer.Body.Close() }()
	if out != nil && answer.StatusCode == http.StatusOK {
		if err := json.NewDecoder(answer.Body).Decode(out); err != nil {
			w.t.Errorf("reading the answer to %s: %v", path, err)
		}
	}
	return answer.StatusCode
}

// admin returns a transport with the administrator's client certificate.
func (w *world) admin() http.RoundTripper {
	w.t.Helper()
	config := rest.CopyConfig(w.RESTConfig())
	config.CAData, config.Insecure = nil, true
	transport, err := rest.TransportFor(config)
	if err != nil {
		w.t.Fatal(err)
	}
	return transport
}

// The API shows an administrator, known by a client certificate, the nodes and what they cost, and a tenant, known by a token, the pods that the
// cluster's RBAC lets it see.
func TestAPI(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "api")
	w.pool("api", nil)
	// Images that need a secret are not pulled ahead, so that there is a pull to see.
	w.deployment("web", 2, w.podSpec("100m", "64Mi", func(s *corev1.PodSpec) { s.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}} }))
	w.awaitRunning(2)
	pod := w.pods()[0].Object
	one := "/api/v1/namespaces/" + w.name + "/pods/" + pod.Name
	w.tenantSees(one)

	admin := w.admin()
	var nodes webapi.Nodes
	if got := w.asked(admin, "", "/api/v1/nodes", &nodes); got != http.StatusOK {
		t.Fatalf("the administrator gets %d", got)
	}
	var found webapi.Pod
	if got := w.asked(admin, "", one, &found); got != http.StatusOK || found.Node != pod.Spec.NodeName || len(found.Timeline) < 4 {
		t.Errorf("the pod is %+v (%d)", found, got)
	}
	w.imagesSeen(admin, one)
	if !slices.ContainsFunc(nodes.Nodes, func(n view.NodeRow) bool {
		return n.Node == found.Node && n.Price > 0 && n.NodeClaim == found.NodeClaim && n.Pods > 0
	}) {
		t.Errorf("the node %s of the pod is not among %+v", found.Node, nodes.Nodes)
	}
	w.decisionsSeen(admin, found)
}

// imagesSeen checks that the way of a pod has its image and its containers, by the Events of its kubelet, and that slipway explain has them too.
func (w *world) imagesSeen(admin http.RoundTripper, one string) {
	w.t.Helper()
	w.await(w.t, "the API to show when the image was pulled", func() bool {
		var found webapi.Pod
		if w.asked(admin, "", one, &found) != http.StatusOK || found.Note != "" {
			return false
		}
		var steps []string
		for _, m := range found.Timeline {
			if slices.Contains([]string{"created", "bound", "pulling image", "image there", "containers started"}, m.What) {
				steps = append(steps, m.What)
			}
		}
		return strings.Join(steps, ", ") == "created, bound, pulling image, image there, containers started"
	})
	pod := strings.Split(strings.TrimPrefix(one, "/api/v1/namespaces/"), "/pods/")
	if printed := w.slipway("explain", "pod", pod[0]+"/"+pod[1]); !containsAll(printed, "  pulling image: ", "  image there: ", "  containers started") {
		w.t.Errorf("explain lacks the image:\n%s", printed)
	}
}

// tenantSees checks that a tenant, who may list the pods of the test's namespace, gets those and nothing else. one is the path of a pod of the
// namespace.
func (w *world) tenantSees(one string) {
	w.t.Helper()
	token := w.tokenOf("tenant")
	w.create(
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "pods"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list"}}}},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "pods"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "pods"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: w.name, Name: "tenant"}},
		},
	)
	for path, want := range map[string]int{
		"/api/v1/nodes": http.StatusForbidden, "/api/v1/pods": http.StatusForbidden, "/api/v1/pods?namespace=kube-system": http.StatusForbidden,
		"/api/v1/pods?namespace=" + w.name: http.StatusOK, one: http.StatusOK, "/api/v1/openapi.json": http.StatusOK,
		"/api/v1/faults": http.StatusForbidden, "/api/v1/decisions": http.StatusForbidden, "/api/v1/consolidation": http.StatusForbidden,
	} {
		w.await(w.t, "a tenant to be answered as RBAC says for "+path, func() bool { return w.asked(nil, token, path, nil) == want })
		if got := w.asked(nil, "", path, nil); got != http.StatusUnauthorized {
			w.t.Errorf("%s: nobody gets %d", path, got)
		}
	}
	var found webapi.Pod
	if got := w.asked(nil, token, one, &found); got != http.StatusOK || !strings.Contains(found.Note, "may list Events") {
		w.t.Errorf("a tenant who may not list Events gets %+v (%d)", found, got)
	}
}

// decisionsSeen checks that the API has the launch of the pod's node, with its price, and why the node stays, and that decisions are written.
func (w *world) decisionsSeen(admin http.RoundTripper, of webapi.Pod) {
	w.t.Helper()
	var decided webapi.Decisions
	if got := w.asked(admin, "", "/api/v1/decisions", &decided); got != http.StatusOK || !slices.ContainsFunc(decided.Decisions, func(d view.Decision) bool {
		return d.What == view.Launched && slices.Contains(d.NodeClaims, of.NodeClaim) && d.Price > 0 && d.Why != ""
	}) {
		w.t.Errorf("the launch of NodeClaim %s is not among %+v (%d)", of.NodeClaim, decided.Decisions, got)
	}
	w.await(w.t, "the decisions to be written", func() bool {
		var kept corev1.ConfigMap
		return w.client.Get(w.t.Context(), client.ObjectKey{Namespace: "kube-system", Name: decisions.Name}, &kept) == nil && len(kept.BinaryData) > 0
	})
	w.await(w.t, "the API to show why the node stays", func() bool {
		var decided view.Consolidation
		return w.asked(admin, "", "/api/v1/consolidation", &decided) == http.StatusOK && slices.ContainsFunc(decided.Stays, func(s view.Stay) bool {
			return s.Node == of.Node && s.Why != ""
		})
	})
}
