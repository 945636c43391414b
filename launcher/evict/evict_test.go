package evict_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-k8s/slipway/launcher/evict"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// apiServer answers all requests with a refusal to be repeated later, and counts them.
func apiServer(t *testing.T, refusal *apierrors.StatusError, after string) (client.Client, *atomic.Int32) {
	t.Helper()
	requests := &atomic.Int32{}
	refusal.ErrStatus.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Retry-After", after)
		w.WriteHeader(int(refusal.ErrStatus.Code))
		if err := json.NewEncoder(w).Encode(refusal.ErrStatus); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	config := &rest.Config{Host: server.URL, QPS: -1}
	config.Wrap(evict.Transport)
	c, err := client.New(config, client.Options{Scheme: scheme.Scheme, Mapper: mapper})
	if err != nil {
		t.Fatal(err)
	}
	return c, requests
}

func pod() *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}
}

// An eviction that the API server refuses returns before the server would have it repeated, and is recognized as refused.
func TestEvictionsReturnAtOnce(t *testing.T) {
	const after = 10 * time.Second
	outdated := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", int(after.Seconds()))
	outdated.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: "The disruption budget a is still being processed by the server."}}
	for name, tc := range map[string]struct {
		refusal *apierrors.StatusError
		is      func(error) bool
	}{
		"a budget whose status is out of date": {outdated, func(err error) bool {
			return apierrors.IsTooManyRequests(err) && apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause)
		}},
		"conflicts of a budget's status": {apierrors.NewTimeoutError("couldn't update PodDisruptionBudget \"a\" due to conflicts", int(after.Seconds())), apierrors.IsTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			c, requests := apiServer(t, tc.refusal, "10")
			start := time.Now()
			err := c.SubResource("eviction").Create(t.Context(), pod(), &policyv1.Eviction{})
			if n := requests.Load(); n != 1 || time.Since(start) >= after {
				t.Errorf("%d requests in %s", n, time.Since(start))
			}
			if !tc.is(err) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// All other requests are repeated as the API server says.
func TestOthersAreRepeated(t *testing.T) {
	c, requests := apiServer(t, apierrors.NewTooManyRequests("too many requests", 0), "0")
	for what, call := range map[string]func() error{
		"creation of a pod":     func() error { return c.Create(t.Context(), pod()) },
		"creation of a binding": func() error { return c.SubResource("binding").Create(t.Context(), pod(), &corev1.Binding{}) },
		"read of a pod":         func() error { return c.Get(t.Context(), client.ObjectKeyFromObject(pod()), pod()) },
		"deletion of a pod":     func() error { return c.Delete(t.Context(), pod()) },
		"read of a subresource": func() error { return c.SubResource("eviction").Get(t.Context(), pod(), &policyv1.Eviction{}) },
		"another subresource":   func() error { return c.SubResource("evictions").Create(t.Context(), pod(), &policyv1.Eviction{}) },
	} {
		requests.Store(0)
		if err := call(); !apierrors.IsTooManyRequests(err) {
			t.Errorf("%s: %v", what, err)
		}
		if n := requests.Load(); n < 2 {
			t.Errorf("%s: %d requests", what, n)
		}
	}
}
