package kind_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// The names of the policies: those of Karpenter, those that hold an identity which the scheduler shares, and those that need two identities.
func sharedPolicies() []string {
	return []string{"slipway-handover-objects", "slipway-handover-pools", "slipway-launcher-nodes", "slipway-launcher-leases", "slipway-launcher-releases", "slipway-launcher-configmaps"}
}

func ownPolicies() []string {
	return append(sharedPolicies(), "slipway-launcher-bindings", "slipway-launcher-pods", "slipway-launcher-namespaces")
}

// bearing is a client with a token: what an attacker in the container could be.
func (c *cluster) bearing(t *testing.T, token, name string) client.Client {
	t.Helper()
	config := rest.AnonymousClientConfig(c.rest)
	config.BearerToken = token
	return c.named(t, config, name)
}

// withConfig is a client with the user of a kubeconfig of the control plane.
func (c *cluster) withConfig(t *testing.T, path, name string) client.Client {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(c.file(t, path))
	if err != nil {
		t.Fatal(err)
	}
	config.Host = c.rest.Host
	return c.named(t, config, name)
}

// named is a client of a user, who has to have the name of a service account of kube-system.
func (c *cluster) named(t *testing.T, config *rest.Config, name string) client.Client {
	t.Helper()
	out, err := client.New(config, client.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	var self authenticationv1.SelfSubjectReview
	// The API server answers 401 until its own cache has what the token is of.
	c.ready(t, "the identity "+name, func(ctx context.Context) (bool, error) {
		self = authenticationv1.SelfSubjectReview{}
		err := out.Create(ctx, &self)
		return err == nil, err
	})
	if got, want := self.Status.UserInfo.Username, "system:serviceaccount:kube-system:"+name; got != want {
		t.Errorf("the identity is %s, want %s", got, want)
	}
	return out
}

// policiesHold holds that these policies of slipway's, and no others, are in force, and that the control plane finds no fault in their expressions.
func (c *cluster) policiesHold(t *testing.T, want []string) {
	t.Helper()
	c.ready(t, "the policies to be checked", func(ctx context.Context) (bool, error) {
		var policies admissionv1.ValidatingAdmissionPolicyList
		var bindings admissionv1.ValidatingAdmissionPolicyBindingList
		if err := c.client.List(ctx, &policies); err != nil {
			return false, err
		}
		if err := c.client.List(ctx, &bindings); err != nil {
			return false, err
		}
		names, bound := map[string]bool{}, map[string]bool{}
		for _, p := range policies.Items {
			names[p.Name] = true
			if p.Status.TypeChecking == nil || p.Status.ObservedGeneration != p.Generation {
				return false, fmt.Errorf("policy %s: its expressions are not checked yet", p.Name)
			}
			if warnings := p.Status.TypeChecking.ExpressionWarnings; len(warnings) > 0 {
				return false, fmt.Errorf("policy %s: %v", p.Name, warnings)
			}
		}
		for _, b := range bindings.Items {
			bound[b.Spec.PolicyName] = slices.Equal(b.Spec.ValidationActions, []admissionv1.ValidationAction{admissionv1.Deny})
		}
		for _, name := range want {
			if !bound[name] {
				return false, fmt.Errorf("policy %s denies nothing", name)
			}
		}
		if len(names) != len(want) {
			return false, fmt.Errorf("the policies are %v, want %v", slices.Sorted(maps.Keys(names)), want)
		}
		return true, nil
	})
}

// attempt is something that an identity tries.
type attempt struct {
	what string
	// want is part of the API server's refusal.
	want string
	err  error
}

func refused(t *testing.T, attempts []attempt) {
	t.Helper()
	for _, a := range attempts {
		if !apierrors.IsForbidden(a.err) || !strings.Contains(a.err.Error(), a.want) {
			t.Errorf("%s is answered by %v, want %q", a.what, a.err, a.want)
		}
	}
}

func patch(t *testing.T, who client.Client, o client.Object, text string) error {
	t.Helper()
	return who.Patch(t.Context(), o, client.RawPatch("application/merge-patch+json", []byte(text)))
}

// holdsNodes holds that the launcher's identity reaches no Node and no Lease that is not slipway's.
func (c *cluster) holdsNodes(t *testing.T, launcher client.Client) {
	t.Helper()
	node := func() *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: c.controlPlane()}} }
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: c.controlPlane()}}
	refused(t, []attempt{
		{"creating a Node without the label", "slipway-launcher writes Nodes with the label", launcher.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "new"}})},
		{"tainting the control plane", "'slipway-launcher-nodes'", patch(t, launcher, node(), `{"spec":{"taints":[{"key":"a","effect":"NoExecute"}]}}`)},
		{"labeling the control plane", "that had the label", patch(t, launcher, node(), `{"metadata":{"labels":{"karpenter.sh/nodepool":"default"}}}`)},
		{"deleting the control plane", "that had the label", launcher.Delete(t.Context(), node())},
		{"renewing the control plane's Lease", "Leases of nodes with the label", patch(t, launcher, lease, `{"spec":{"leaseDurationSeconds":3600}}`)},
	})
}

// holdsPods holds that the launcher's identity, which the scheduler does not share, binds no pod that slipway does not serve, binds none to
// and deletes none of a node that is not slipway's; and that it does bind those that are served, to slipway's node.
func (c *cluster) holdsPods(t *testing.T, launcher client.Client) {
	t.Helper()
	var nodes corev1.NodeList
	if err := c.client.List(t.Context(), &nodes, client.HasLabels{karpv1.NodePoolLabelKey}); err != nil || len(nodes.Items) == 0 {
		t.Fatalf("%d nodes of slipway's, %v", len(nodes.Items), err)
	}
	node := nodes.Items[0].Name
	for _, label := range []string{"true", "false"} {
		name := "labeled-" + label
		c.apply(t, fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s, labels: {slipway.dev/schedule: %q}}\n", name, label))
		defer c.kubectl(t, nil, "delete", "namespace", name, "--wait=false")
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "careless"}, Spec: corev1.PodSpec{
			SchedulerName: "careless", TerminationGracePeriodSeconds: new(int64),
			Containers: []corev1.Container{{Name: "web", Image: "registry.k8s.io/pause:3.10", ImagePullPolicy: corev1.PullIfNotPresent}},
		}}
		// A new namespace has no service account at first.
		c.ready(t, "pod careless of "+name, func(ctx context.Context) (bool, error) {
			err := client.IgnoreAlreadyExists(c.client.Create(ctx, pod.DeepCopy()))
			return err == nil, err
		})
	}
	bind := func(namespace, node string) error {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "careless"}}
		return launcher.SubResource("binding").Create(t.Context(), pod, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: node}})
	}
	var system corev1.PodList
	if err := c.client.List(t.Context(), &system, client.InNamespace("kube-system"), client.MatchingLabels{"component": "kube-apiserver"}); err != nil || len(system.Items) != 1 {
		t.Fatalf("%d API servers, %v", len(system.Items), err)
	}
	refused(t, []attempt{
		{"binding a pod of a namespace that is not served", "namespace labeled-false: slipway does not serve it", bind("labeled-false", node)},
		{"binding a pod to the control plane", "does not bind pods to Node " + c.controlPlane(), bind("labeled-true", c.controlPlane())},
		{"deleting a pod of the control plane", "does not delete pods of Node " + c.controlPlane(), launcher.Delete(t.Context(), &system.Items[0])},
	})
	if err := bind("labeled-true", node); err != nil {
		t.Errorf("binding a pod that is served to a node of slipway's: %v", err)
	}
}

// holdsScheduler holds that the scheduler's own identity has no right that is the launcher's alone.
func holdsScheduler(t *testing.T, scheduler client.Client) {
	t.Helper()
	refused(t, []attempt{
		{"creating a Node", "cannot create resource", scheduler.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "new"}})},
		{"creating a NodeClaim", "cannot create resource", scheduler.Create(t.Context(), &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "new"}})},
	})
}
