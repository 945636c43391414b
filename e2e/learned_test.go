package e2e_test

import (
	"strings"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog/fromec2"
)

// tenant is a user who may edit the test's namespace and nothing else.
func (w *world) tenant() client.Client {
	w.t.Helper()
	user := "tenant-of-" + w.name
	w.create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "edit"},
		Subjects:   []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: user}},
		RoleRef:    rbacv1.RoleRef{Kind: "ClusterRole", APIGroup: rbacv1.GroupName, Name: "edit"},
	})
	config := rest.CopyConfig(w.RESTConfig())
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	c, err := client.New(config, client.Options{Scheme: w.client.Scheme()})
	if err != nil {
		w.t.Fatal(err)
	}
	// The API server takes a new RoleBinding from its watch, which is late on a busy machine.
	w.await(w.t, "the tenant's rights to be in force", func() bool {
		review := &authorizationv1.SelfSubjectAccessReview{}
		review.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{Namespace: w.name, Verb: "create", Resource: "pods"}
		return c.Create(w.t.Context(), review) == nil && review.Status.Allowed
	})
	return c
}

// A tenant makes a pod look like one that the node's kubelet runs from a file, and has another rejected beside it: the next node of the
// kind is planned as if neither had been there.
func TestTenantTeachesNothing(t *testing.T) {
	t.Parallel()
	const kind = "m6i.xlarge"
	w := newWorld(t, "lesson")
	class := w.ownClass("al2023@latest")
	w.pool("lesson", func(p *karpv1.NodePool) {
		p.Spec.Template.Spec.NodeClassRef.Name = class.Name
		onlyTypes(p, kind)
		require(p, karpv1.CapacityTypeLabelKey, "on-demand")
	})
	w.deployment("web", 1, w.podSpec("100m", "64Mi", nil))
	w.awaitRunning(1)
	claim := w.claimsOf("lesson")[0].Object
	tenant := w.tenant()
	onNode := func(name, cpu string, annotations map[string]string) *corev1.Pod {
		spec := w.podSpec(cpu, "64Mi", nil)
		spec.NodeName, spec.AutomountServiceAccountToken = claim.Status.NodeName, new(false)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name, Annotations: annotations}, Spec: spec}
		if err := persist(t.Context(), func() error { return tenant.Create(t.Context(), pod) }); err != nil {
			t.Fatal(err)
		}
		return pod
	}
	onNode("faked", "3", map[string]string{corev1.MirrorPodAnnotationKey: "faked"})
	rejected := onNode("rejected", "64", nil)
	w.await(t, "the kubelet to reject a pod", func() bool {
		return strings.HasPrefix(w.history(rejected.UID).Object.Status.Reason, "OutOf")
	})
	w.deployment("big", 1, w.podSpec("3", "64Mi", nil))
	w.await(t, "the large pod to run on a node of its own", func() bool {
		claims := w.claimsOf("lesson")
		return len(claims) == 2 && w.ready() >= 2
	})
	got := &awsv1.EC2NodeClass{}
	if err := w.client.Get(t.Context(), keyOf(class.Name), got); err != nil {
		t.Fatal(err)
	}
	reports := fromec2.SizesOf(got)[fromec2.SizesKey(kind, claim.Status.ImageID)]
	if len(reports) == 0 {
		t.Error("the node's own report is not there")
	}
	shared.measured(t, "%d reports of the instance type, all of nodes", len(reports))
	for _, r := range reports {
		if cpu := r.Allocatable[corev1.ResourceCPU]; r.Rejection || cpu.Cmp(resource.MustParse("3")) < 0 {
			t.Errorf("learned from a tenant's pods: %+v", r)
		}
	}
}
