package index_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/slipway-k8s/slipway/launcher/index"
)

// A look at the cluster lists all budgets once; a step about some pods those of each of their namespaces once, and no others.
func TestPodBudgetsOfPodsAreThoseOfTheirNamespaces(t *testing.T) {
	var lists []string
	builder := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			all := (&client.ListOptions{}).ApplyOptions(opts)
			lists = append(lists, all.Namespace)
			return c.List(ctx, list, opts...)
		},
	})
	for i, namespace := range []string{"a", "a", "b", "c"} {
		builder.WithObjects(&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint(i)}})
	}
	api, budgets := builder.Build(), &index.Budgets{}
	var pods []*corev1.Pod
	for _, namespace := range []string{"a", "b", "a", "none"} {
		pods = append(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}})
	}
	of, err := budgets.Of(t.Context(), api, pods...)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"a", "b", "none"}; !slices.Equal(lists, want) || len(of["a"]) != 2 || len(of["b"]) != 1 || len(of["c"]) != 0 {
		t.Errorf("lists of namespaces %q, want %q; budgets %v", lists, want, of)
	}
	lists = nil
	all, err := budgets.All(t.Context(), api)
	if err != nil {
		t.Fatal(err)
	}
	if len(lists) != 1 || len(all["a"]) != 2 || len(all["b"]) != 1 || len(all["c"]) != 1 {
		t.Errorf("%d lists of all, budgets %v", len(lists), all)
	}
}
