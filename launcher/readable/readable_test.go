package readable_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/readable"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// nodePool is what an API server stores: its schema lets any number of hours through.
func nodePool(name, version, consolidateAfter string) string {
	return fmt.Sprintf(`{"apiVersion":"karpenter.sh/v1","kind":"NodePool","metadata":{"name":%q,"resourceVersion":%q,"generation":3},
"spec":{"weight":7,"disruption":{"consolidateAfter":%q,"budgets":[{"nodes":"0"}]},"limits":{"cpu":"10"},
"template":{"spec":{"expireAfter":"720h","requirements":[],"nodeClassRef":{"group":"karpenter.k8s.aws","kind":"EC2NodeClass","name":"default"}}}},
"status":{"nodes":2}}`, name, version, consolidateAfter)
}

const overflow = "99999999999999999999h"

// apiServer lists an unreadable pool among others, and sends another one in its watch.
func apiServer(t *testing.T, stop <-chan struct{}) *rest.Config {
	t.Helper()
	pools := []string{nodePool("a", "1", "1m"), nodePool("b", "2", overflow), nodePool("c", "3", "Never")}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("watch") == "" {
			fmt.Fprintf(w, `{"apiVersion":"karpenter.sh/v1","kind":"NodePoolList","metadata":{"resourceVersion":"3"},"items":[%s]}`, strings.Join(pools, ","))
			return
		}
		if r.URL.Query().Get("sendInitialEvents") == "true" {
			for _, p := range pools {
				fmt.Fprintf(w, `{"type":"ADDED","object":%s}`+"\n", p)
			}
			fmt.Fprintln(w, `{"type":"BOOKMARK","object":{"apiVersion":"karpenter.sh/v1","kind":"NodePool","metadata":{"resourceVersion":"3","annotations":{"k8s.io/initial-events-end":"true"}}}}`)
		}
		fmt.Fprintf(w, `{"type":"ADDED","object":%s}`+"\n", nodePool("d", "4", overflow))
		fmt.Fprintf(w, `{"type":"ADDED","object":%s}`+"\n", nodePool("e", "5", "5m"))
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
		case <-stop:
		}
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

// names waits until a cache shows so many NodePools.
func names(t *testing.T, config *rest.Config, n int, patience time.Duration) map[string]karpv1.NodePool {
	t.Helper()
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodePool"}, meta.RESTScopeRoot)
	c, err := cache.New(config, cache.Options{Scheme: scheme.Scheme, Mapper: mapper})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	done := make(chan error, 1)
	go func() { done <- c.Start(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	out := map[string]karpv1.NodePool{}
	for ctx.Err() == nil && len(out) < n {
		var list karpv1.NodePoolList
		if err := c.List(ctx, &list); err == nil {
			for _, p := range list.Items {
				out[p.Name] = p
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	return out
}

// One NodePool that cannot be read hides no other, neither in a list nor in a watch.
func TestOneBadObject(t *testing.T) {
	stop := make(chan struct{})
	defer close(stop)
	config := apiServer(t, stop)
	if got := names(t, config, 5, 500*time.Millisecond); len(got) > 1 {
		t.Errorf("this test proves nothing: a plain client reads %d NodePools", len(got))
	}
	config.Wrap(readable.Transport)
	got := names(t, config, 5, 2*time.Minute)
	if len(got) != 5 {
		t.Fatalf("NodePools %v", got)
	}
	for name, p := range got {
		why := p.Annotations[catalog.UnreadableAnnotation]
		bad := name == "b" || name == "d"
		if bad != strings.HasPrefix(why, "spec.disruption.consolidateAfter: "+overflow+" cannot be read: ") {
			t.Errorf("%s: unreadable %q", name, why)
		}
		// All else is there: limits above all.
		if *p.Spec.Weight != 7 || len(p.Spec.Limits) != 1 || p.Spec.Template.Spec.NodeClassRef.Name != "default" || *p.Status.Nodes != 2 || p.Generation != 3 {
			t.Errorf("%s: %+v", name, p)
		}
		if bad && (p.Spec.Disruption.ConsolidateAfter.Duration != nil || len(p.Spec.Disruption.Budgets) != 0) {
			t.Errorf("%s may be disrupted: %+v", name, p.Spec.Disruption)
		}
	}
}

// Single objects of every kind, as a read or a patch returns them; a readable object is returned byte by byte unchanged.
func TestObjects(t *testing.T) {
	class := `{"kind":"EC2NodeClass","metadata":{"name":"default"},"spec":{"role":"r","kubelet":{"maxPods":9,"evictionSoftGracePeriod":{"memory.available":%q}}}}`
	claim := `{"kind":"NodeClaim","metadata":{"name":"default-1","annotations":{"a":"b"}},"spec":{"terminationGracePeriod":%q,"taints":[{"key":"x","effect":"NoSchedule"}]},"status":{"providerID":"i-1"}}`
	buffer := `{"kind":"CapacityBuffer","metadata":{"name":"spare"},"spec":{"replicas":2,"limits":{"cpu":%q}}}`
	for _, c := range []struct{ path, text, good, bad, problem string }{
		{"/apis/karpenter.sh/v1/nodepools/default", strings.ReplaceAll(nodePool("default", "1", "%q"), `"%q"`, "%q"), "1m", overflow, "spec.disruption.consolidateAfter"},
		{"/apis/karpenter.sh/v1/nodeclaims/default-1", claim, "1m", overflow, "spec.terminationGracePeriod"},
		{"/apis/autoscaling.x-k8s.io/v1beta1/namespaces/a/capacitybuffers/spare", buffer, "1", "1e99999999999999999999", "spec.limits.cpu"},
		{"/prefix/apis/karpenter.k8s.aws/v1/ec2nodeclasses/default", class, "1m", "a while", "spec.kubelet.evictionSoftGracePeriod.memory.available"},
	} {
		if got := get(t, c.path, fmt.Sprintf(c.text, c.good)); got != fmt.Sprintf(c.text, c.good) {
			t.Errorf("%s was changed: %s", c.path, got)
		}
		got := get(t, c.path, fmt.Sprintf(c.text, c.bad))
		if !strings.Contains(got, `"slipway.dev/unreadable":"`+c.problem+": "+c.bad) || strings.Contains(got, fmt.Sprintf(":%q}", c.bad)) {
			t.Errorf("%s: %s", c.path, got)
		}
	}
	got := get(t, "/apis/karpenter.sh/v1/nodeclaims/default-1", fmt.Sprintf(claim, overflow))
	for _, kept := range []string{`"a":"b"`, `"key":"x"`, `"providerID":"i-1"`} {
		if !strings.Contains(got, kept) {
			t.Errorf("%s is not in %s", kept, got)
		}
	}
	// Other kinds and answers that are not objects are not changed.
	for path, text := range map[string]string{"/api/v1/nodes/n": nodePool("x", "1", overflow), "/apis/karpenter.sh/v1/nodepools": "upstream failed"} {
		if got := get(t, path, text); got != text {
			t.Errorf("%s was changed: %s", path, got)
		}
	}
}

func get(t *testing.T, path, body string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, body)
	}))
	defer server.Close()
	config := rest.Config{Host: server.URL}
	config.Wrap(readable.Transport)
	config.GroupVersion, config.NegotiatedSerializer = &schema.GroupVersion{}, scheme.Codecs.WithoutConversion()
	c, err := rest.UnversionedRESTClientFor(&config)
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.Get().AbsPath(path).DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
