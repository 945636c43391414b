package manifests_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"

	"github.com/slipway-k8s/slipway/manifests"
)

// need is one permission and the code that has it: a file of the repository and what in it asks for it.
type need struct{ resource, verbs, file, code string }

// watched are the kinds that the launcher's cache holds: asking it for one gets, lists and watches it.
const watched = "get list watch"

func launcherNeeds() []need {
	return []need{
		{"nodeclaims", watched, "launcher/server/record.go", "karpv1.NodeClaim"},
		{"nodeclaims", "create", "launcher/server/record.go", "Client.Create(ctx, claim)"},
		{"nodeclaims", "patch", "launcher/launch/assign.go", "Client.Patch(ctx, c, node.ClaimMetadata"},
		{"nodeclaims", "delete", "launcher/terminate/begin.go", "Client.Delete(ctx, claim"},
		{"nodeclaims/status", "patch", "launcher/launch/assign.go", "Status().Patch(ctx, c, node.ClaimStatus"},
		{"nodeclaims/finalizers", "update", "launcher/node/node.go", "BlockOwnerDeletion: new(true)"},
		{"nodepools", watched, "launcher/nodepool/nodepool.go", "karpv1.NodePool"},
		{"nodepools", "patch", "launcher/nodepool/nodepool.go", "Client.Patch(ctx, pool, patch)"},
		{"nodepools/status", "patch", "launcher/nodepool/nodepool.go", "Status().Patch(ctx, pool, patch)"},
		{"nodepools/finalizers", "update", "launcher/record/claim.go", "BlockOwnerDeletion: new(true)"},
		{"ec2nodeclasses", watched, "launcher/nodeclass/nodeclass.go", "EC2NodeClass"},
		{"ec2nodeclasses", "patch", "launcher/nodeclass/nodeclass.go", "Client.Patch(ctx, class, patch)"},
		{"ec2nodeclasses/status", "patch", "launcher/nodeclass/nodeclass.go", "Status().Patch(ctx, class, patch)"},
		{"capacitybuffers", watched, "launcher/buffer/buffer.go", "CapacityBufferList"},
		{"capacitybuffers/status", "patch", "launcher/buffer/status.go", "Status().Patch(ctx, cb, patch)"},
		{"podtemplates", watched, "launcher/buffer/resolve.go", "corev1.PodTemplate"},
		{"deployments", watched, "launcher/buffer/resolve.go", "appsv1.Deployment"},
		{"statefulsets", watched, "launcher/buffer/resolve.go", "appsv1.StatefulSet"},
		{"replicasets", watched, "launcher/buffer/resolve.go", "appsv1.ReplicaSet"},
		{"nodeoverlays", watched, "launcher/nodeoverlay/apply.go", "v1alpha1.NodeOverlayList"},
		{"nodeoverlays/status", "patch", "launcher/nodeoverlay/controller.go", "Status().Patch(ctx, o, patch)"},
		{"nodes", watched, "launcher/join/act.go", "corev1.Node"},
		{"nodes", "create", "launcher/join/act.go", "Client.Create(ctx, want)"},
		{"nodes", "patch", "launcher/node/difference.go", "c.Patch(ctx, want"},
		{"nodes", "delete", "launcher/terminate/claim.go", "Client.Delete(ctx, node"},
		{"pods", watched, "launcher/terminate/drain.go", "corev1.Pod"},
		{"pods", "delete", "launcher/terminate/drain.go", "Client.Delete(ctx, pod"},
		{"pods", "patch", "launcher/surge/surge.go", "Client.Patch(ctx, pod"},
		{"pods/binding", "create", "launcher/bind/binder.go", `SubResource("binding").Create(`},
		{"pods/eviction", "create", "launcher/terminate/drain.go", `SubResource("eviction").Create(`},
		{"namespaces", watched, "launcher/sleep/keeper.go", "corev1.NamespaceList"},
		{"pods/status", "patch", "launcher/terminate/cleanup.go", "Status().Patch(ctx, pod"},
		{"events", "create", "internal/announce/announce.go", "Sink.CreateWithEventNamespaceWithContext("},
		{"events", "patch", "internal/announce/announce.go", "Sink.PatchWithEventNamespaceWithContext("},
		{"events", "list", "launcher/webapi/source.go", "Events(pod.Namespace).List("},
		{"persistentvolumes", watched, "launcher/terminate/volumes.go", "corev1.PersistentVolume"},
		{"persistentvolumeclaims", watched, "launcher/terminate/volumes.go", "corev1.PersistentVolumeClaim"},
		{"daemonsets", watched, "launcher/join/observe.go", "appsv1.DaemonSet"},
		{"poddisruptionbudgets", watched, "launcher/terminate/drain.go", "policyv1.PodDisruptionBudget"},
		{"volumeattachments", watched, "launcher/terminate/volumes.go", "storagev1.VolumeAttachment"},
		{"tokenreviews", "create", "launcher/metricsserver.go", "filters.WithAuthenticationAndAuthorization"},
		{"subjectaccessreviews", "create", "launcher/metricsserver.go", "filters.WithAuthenticationAndAuthorization"},
		{"tokenreviews", "create", "launcher/webapi/access.go", "TokenAccessReviewClient"},
		{"subjectaccessreviews", "create", "launcher/webapi/access.go", "SubjectAccessReviewClient"},
		{"configmaps", watched, "launcher/webapi/access.go", "NewDynamicCAFromConfigMapController"},
		{"servicecidrs", "get", "launcher/cluster.go", "ServiceCIDRs().Get("},
		{"services", "get", "launcher/cluster.go", "Services(dnsNamespace).Get("},
		{"leases", "list", "launcher/karpenter.go", "karpenterLease"},
		{"clusterroles", "list", "launcher/karpenterrights.go", "rbacv1.ClusterRoleList"},
		{"clusterrolebindings", "list", "launcher/karpenterrights.go", "rbacv1.ClusterRoleBindingList"},
		{"resourceslices", watched, "launcher/join/devices.go", "resourcev1.ResourceSliceList"},
		{"leases", "get", "launcher/leadership/leadership.go", "coordinationv1.Lease"},
		{"configmaps", "get", "launcher/commitments/commitments.go", "corev1.ConfigMap"},
		{"configmaps", "create", "launcher/billing/store.go", "client.Create(ctx, want)"},
		{"configmaps", "update", "launcher/billing/store.go", "client.Update(ctx, want)"},
		{"leases", "list watch", "launcher/join/lease.go", "coordinationv1.Lease"},
		{"leases", "create", "launcher/join/lease.go", "client.Create(ctx, lease)"},
		{"leases", "patch", "launcher/join/lease.go", "client.Patch(ctx, lease"},
		{"leases", "delete", "launcher/terminate/cleanup.go", "Client.Delete(ctx, lease"},
	}
}

// schedulerNeeds are those beyond kube-scheduler's own roles.
func schedulerNeeds() []need {
	return []need{
		{"daemonsets", watched, "plugin/daemonsets.go", "DaemonSets()"},
		{"limitranges", watched, "plugin/rules.go", "LimitRanges()"},
		{"runtimeclasses", watched, "plugin/rules.go", "RuntimeClasses()"},
		{"priorityclasses", watched, "plugin/rules.go", "PriorityClasses()"},
		{"jobs", watched, "plugin/intake/owners.go", "Jobs()"},
		// k8s.io/apiserver reads which users may read its metrics (authentication-reader, of kube-system).
		{"configmaps", watched, "", ""},
		// kube-scheduler's own too, where the cluster has their feature gates on.
		{"podgroups", watched, "", ""},
		{"podgroups/status", "patch update", "", ""},
		{"devicetaintrules", watched, "", ""},
	}
}

// Every rule is used: each verb on each resource is needed by code that still exists.
func TestEveryRuleOfTheLauncherIsUsed(t *testing.T) {
	t.Parallel()
	used(t, "launcher", granted(t, "slipway-launcher"), launcherNeeds())
}

// The scheduler may do what a kube-scheduler may, and what is listed.
func TestEveryRuleOfTheSchedulerIsUsed(t *testing.T) {
	t.Parallel()
	own := map[string]bool{}
	for _, role := range bootstrappolicy.ClusterRoles() {
		if role.Name == "system:kube-scheduler" || role.Name == "system:volume-scheduler" {
			expand(role.Rules, own)
		}
	}
	rest := map[string]bool{}
	for permission := range granted(t, "slipway-scheduler") {
		if !own[permission] {
			rest[permission] = true
		}
	}
	used(t, "scheduler", rest, schedulerNeeds())
}

// granted returns the permissions of the roles whose names have this prefix, as "verb resource".
func granted(t *testing.T, name string) map[string]bool {
	t.Helper()
	rules, err := manifests.RBAC()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, role := range rules.ClusterRoles {
		if strings.HasPrefix(role.Name, name) {
			expand(role.Rules, out)
		}
	}
	for _, role := range rules.Roles {
		if strings.HasPrefix(role.Name, name) {
			expand(role.Rules, out)
		}
	}
	return out
}

func expand(rules []rbacv1.PolicyRule, into map[string]bool) {
	for _, rule := range rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				into[verb+" "+resource] = true
			}
		}
	}
}

func used(t *testing.T, who string, granted map[string]bool, needs []need) {
	t.Helper()
	needed := map[string]bool{}
	for _, n := range needs {
		if n.file != "" {
			data, err := os.ReadFile(filepath.Join("..", n.file))
			if err != nil || !strings.Contains(string(data), n.code) {
				t.Errorf("%s: %s does not say %q any more (%v): does anything else need %s %s?", who, n.file, n.code, err, n.verbs, n.resource)
			}
		}
		for verb := range strings.FieldsSeq(n.verbs) {
			needed[verb+" "+n.resource] = true
		}
	}
	var problems []string
	for permission := range granted {
		if !needed[permission] {
			problems = append(problems, fmt.Sprintf("%s may %s, which nothing needs", who, permission))
		}
	}
	for permission := range needed {
		if !granted[permission] {
			problems = append(problems, fmt.Sprintf("%s needs to %s and may not", who, permission))
		}
	}
	slices.Sort(problems)
	for _, problem := range problems {
		t.Error(problem)
	}
}
