package pause

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// served returns the path of a cluster with two NodePools, of which one is paused, and one of another provider. may is the user's right to patch them.
func served(t *testing.T, may *bool) (http.Handler, client.Client) {
	t.Helper()
	theirs := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "c"}}
	theirs.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "eks.amazonaws.com", Kind: "NodeClass", Name: "default"}
	cluster := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(
		&karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "a", Annotations: map[string]string{"of": "others"}}},
		theirs, &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "b", Annotations: map[string]string{catalog.PausedAnnotation: "true"}}},
	).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			review, ok := o.(*authorizationv1.SelfSubjectAccessReview)
			if !ok || review.Spec.ResourceAttributes.Verb != "patch" || review.Spec.ResourceAttributes.Resource != "nodepools" {
				return errors.New("another question is asked")
			}
			review.Status.Allowed = *may
			return nil
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if !*may {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "nodepools"}, o.GetName(), errors.New("no right"))
			}
			return c.Patch(ctx, o, p, opts...)
		},
	}).Build()
	s, err := New(cluster)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	s.Register(mux)
	return mux, cluster
}

func asked(t *testing.T, h http.Handler, question string) (int, string) {
	t.Helper()
	method := http.MethodPost
	if question == "" {
		method = http.MethodGet
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, Path, strings.NewReader(question)))
	return w.Code, strings.TrimSpace(w.Body.String())
}

// All NodePools are paused and resumed, and keep their other annotations.
func TestPauseAndResume(t *testing.T) {
	may := true
	h, cluster := served(t, &may)
	for _, step := range []struct{ question, want string }{
		{"", `{"nodePools":[{"name":"a","paused":false},{"name":"b","paused":true}],"mayChange":true}`},
		{`{"paused": true}`, `{"nodePools":[{"name":"a","paused":true},{"name":"b","paused":true}],"mayChange":true}`},
		{`{"paused": false}`, `{"nodePools":[{"name":"a","paused":false},{"name":"b","paused":false}],"mayChange":true}`},
	} {
		if code, got := asked(t, h, step.question); code != http.StatusOK || got != step.want {
			t.Errorf("%s: %d %s, want %s", step.question, code, got, step.want)
		}
	}
	pool := &karpv1.NodePool{}
	if err := cluster.Get(t.Context(), client.ObjectKey{Name: "a"}, pool); err != nil || pool.Annotations["of"] != "others" || disruption.Paused(pool) {
		t.Errorf("the NodePool has %v (%v)", pool.Annotations, err)
	}
	for _, bad := range []string{"{}", "{", `{"paused": "true"}`, `{"paused": true, "other": 1}`} {
		if code, got := asked(t, h, bad); code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", bad, code, got)
		}
	}
}

// Who may not patch NodePools is offered nothing, and changes nothing.
func TestWithoutTheRight(t *testing.T) {
	may := false
	h, cluster := served(t, &may)
	if code, got := asked(t, h, ""); code != http.StatusOK || !strings.Contains(got, `"mayChange":false`) {
		t.Errorf("%d %s", code, got)
	}
	code, got := asked(t, h, `{"paused": true}`)
	status := metav1.Status{}
	if err := json.Unmarshal([]byte(got), &status); err != nil || code != http.StatusForbidden || status.Code != http.StatusForbidden {
		t.Errorf("%d %s (%v)", code, got, err)
	}
	pool := &karpv1.NodePool{}
	if err := cluster.Get(t.Context(), client.ObjectKey{Name: "a"}, pool); err != nil || disruption.Paused(pool) {
		t.Errorf("the NodePool has %v (%v)", pool.Annotations, err)
	}
	if _, err := New(nil); err == nil {
		t.Error("a server without a client is made")
	}
}
