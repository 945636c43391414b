package e2e_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/sandbox"
)

// karpentersClaim is named as Karpenter names NodeClaims.
const karpentersClaim = "takeover-x7k2p"

// karpenters is an instance that Karpenter 1.14 has launched and not brought in yet, with its NodeClaim: what a handover finds
// in the middle of a scale-up.
type karpenters struct {
	*world
	pool     *karpv1.NodePool
	class    *awsv1.EC2NodeClass
	ec2      *ec2.Client
	instance ec2types.Instance
	zone     string
}

// Karpenter goes, slipway comes: the node that Karpenter launched is brought in and used, it does not drift, nothing is
// launched instead of it, and at last it leaves as any other.
func TestTakesOverFromKarpenter(t *testing.T) {
	t.Parallel()
	k := &karpenters{world: newWorld(t, "takeover"), pool: &karpv1.NodePool{}, class: &awsv1.EC2NodeClass{}}
	k.world.pool("takeover", func(p *karpv1.NodePool) { require(p, corev1.LabelInstanceTypeStable, "m6i.large") })
	k.await(t, "NodePool and EC2NodeClass to be ready", func() bool {
		return k.current() && k.class.StatusConditions().Root().IsTrue() && k.pool.StatusConditions().Root().IsTrue()
	})
	k.ec2 = ec2.New(ec2.Options{
		Region: k.AWSRegion(), BaseEndpoint: aws.String(shared.AWS().URL()), Credentials: credentials.NewStaticCredentialsProvider("AKIAKARPENTER", "x", ""),
	})
	before := len(k.everClaimed("takeover"))
	k.launch()
	claim := k.record()

	k.await(t, "the node to be brought in", func() bool {
		return k.get(claim.Name, claim) && claim.StatusConditions().Get(karpv1.ConditionTypeInitialized).IsTrue()
	})
	k.broughtIn(claim)

	// A pod that fits lands on it.
	k.deployment("web", 1, k.podSpec("500m", "1Gi", nil))
	k.awaitRunning(1)
	k.alone(claim, before)
	k.driftless(claim)
}

// A Karpenter that lives in a namespace of any name, with a clock an hour late, keeps its NodePools until its Lease is gone.
func TestLiveKarpenterInAnyNamespaceAlone(t *testing.T) {
	w := newWorld(t, "platform")
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "platform", Name: "karpenter-leader-election"}}
	lease.Spec = coordinationv1.LeaseSpec{
		HolderIdentity: aws.String("karpenter-1"), LeaseDurationSeconds: aws.Int32(15),
		RenewTime: &metav1.MicroTime{Time: time.Now().Add(-time.Hour)},
	}
	// What Karpenter's chart installs.
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "platform-karpenter"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"karpenter.sh"}, Resources: []string{"nodeclaims", "nodeclaims/status"}, Verbs: []string{"create", "delete", "update", "patch"}},
	}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "platform", Name: "karpenter"}},
	}
	w.create(role, binding, lease)
	t.Cleanup(func() {
		ctx, cancel := cleanupContext()
		defer cancel()
		for _, o := range []client.Object{lease, binding, role} {
			if err := client.IgnoreNotFound(w.client.Delete(ctx, o)); err != nil {
				t.Error(err)
			}
		}
	})
	const live = "a live Karpenter holds Lease platform/karpenter-leader-election"
	w.await(t, "slipway to notice that Karpenter lives", func() bool {
		lease.Spec.RenewTime = &metav1.MicroTime{Time: lease.Spec.RenewTime.Add(time.Second)}
		if err := w.client.Update(t.Context(), lease); err != nil {
			t.Fatal(err)
		}
		log, err := os.ReadFile(w.LogFile(sandbox.Launcher))
		return err == nil && bytes.Contains(log, []byte(`"A Karpenter started or stopped`))
	})
	w.pool("platform", func(p *karpv1.NodePool) { onlyTypes(p, "m6i.large") })
	w.deployment("web", 1, w.podSpec("1", "1Gi", nil))
	w.await(t, "the pod to say that the NodePool is Karpenter's", func() bool {
		lease.Spec.RenewTime = &metav1.MicroTime{Time: lease.Spec.RenewTime.Add(time.Second)}
		if err := w.client.Update(t.Context(), lease); err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(w.events("FailedScheduling"), func(e corev1.Event) bool { return strings.Contains(e.Message, live) })
	})
	if n := len(w.everClaimed("platform")); n != 0 {
		t.Errorf("%d NodeClaims beside a live Karpenter", n)
	}
	if err := w.client.Delete(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	w.awaitRunning(1)
}

// current reads the NodePool and the EC2NodeClass anew.
func (k *karpenters) current() bool { return k.get("takeover", k.pool) && k.get("default", k.class) }

// broughtIn holds that the claim's Node has the labels of one that is in use, and no taint but the world's.
func (k *karpenters) broughtIn(claim *karpv1.NodeClaim) {
	k.t.Helper()
	node := &corev1.Node{}
	if !k.get(claim.Status.NodeName, node) {
		k.t.Fatalf("Node %s is gone", claim.Status.NodeName)
	}
	for key, want := range map[string]string{
		karpv1.NodeRegisteredLabelKey: "true", karpv1.NodeInitializedLabelKey: "true", karpv1.NodePoolLabelKey: "takeover", worldKey: "takeover",
	} {
		if node.Labels[key] != want {
			k.t.Errorf("label %s of the Node is %q, want %q", key, node.Labels[key], want)
		}
	}
	for _, taint := range node.Spec.Taints {
		if taint.Key != worldKey {
			k.t.Errorf("the Node has taint %s", taint.ToString())
		}
	}
}

// alone holds that all pods run on the claim's Node, and that before and this claim are all there ever were.
func (k *karpenters) alone(claim *karpv1.NodeClaim, before int) {
	k.t.Helper()
	for _, p := range k.pods() {
		if on := p.Object.Spec.NodeName; !p.Deleted.Seen() && on != claim.Status.NodeName {
			k.t.Errorf("the pod runs on %s", on)
		}
	}
	if launched := len(k.everClaimed("takeover")) - before; launched != 1 {
		k.t.Errorf("%d NodeClaims: something was launched instead", launched)
	}
}

// driftless holds that the claim stays, and has the hashes of its NodePool and EC2NodeClass.
func (k *karpenters) driftless(claim *karpv1.NodeClaim) {
	k.t.Helper()
	if !k.get(claim.Name, claim) || !claim.DeletionTimestamp.IsZero() || claim.StatusConditions().Get(karpv1.ConditionTypeDrifted).IsTrue() {
		k.t.Errorf("the NodeClaim drifts: %+v", claim.Status.Conditions)
	}
	if !k.current() {
		k.t.Fatal("NodePool or EC2NodeClass is gone")
	}
	for key, current := range map[string]string{
		karpv1.NodePoolHashAnnotationKey: k.pool.Annotations[karpv1.NodePoolHashAnnotationKey],
		awsv1.AnnotationEC2NodeClassHash: k.class.Annotations[awsv1.AnnotationEC2NodeClassHash],
	} {
		if claim.Annotations[key] != current {
			k.t.Errorf("%s: the NodeClaim has %q, the pool or class %q", key, claim.Annotations[key], current)
		}
	}
}

func (k *karpenters) get(name string, o client.Object) bool {
	return k.client.Get(k.t.Context(), client.ObjectKey{Name: name}, o) == nil
}

// launch runs an instance with the tags and the user data that Karpenter gives it.
func (k *karpenters) launch() {
	k.t.Helper()
	// The image for an instance without accelerators.
	i := slices.IndexFunc(k.class.Status.AMIs, func(ami awsv1.AMI) bool {
		return slices.ContainsFunc(ami.Requirements, func(r corev1.NodeSelectorRequirement) bool {
			return r.Key == corev1.LabelArchStable && r.Values[0] == karpv1.ArchitectureAmd64
		}) && !slices.ContainsFunc(ami.Requirements, func(r corev1.NodeSelectorRequirement) bool { return r.Operator == corev1.NodeSelectorOpExists })
	})
	if i < 0 {
		k.t.Fatalf("no image for amd64: %+v", k.class.Status.AMIs)
	}
	spec := ec2types.TagSpecification{ResourceType: ec2types.ResourceTypeInstance}
	for key, value := range map[string]string{
		"karpenter.sh/nodepool": "takeover", "karpenter.k8s.aws/ec2nodeclass": "default", "karpenter.sh/nodeclaim": karpentersClaim,
		"eks:eks-cluster-name": sandbox.ClusterName, "kubernetes.io/cluster/" + sandbox.ClusterName: "owned",
	} {
		spec.Tags = append(spec.Tags, ec2types.Tag{Key: aws.String(key), Value: aws.String(value)})
	}
	out, err := k.ec2.RunInstances(k.t.Context(), &ec2.RunInstancesInput{
		ImageId: aws.String(k.class.Status.AMIs[i].ID), InstanceType: ec2types.InstanceTypeM6iLarge, MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
		SubnetId: aws.String(k.class.Status.Subnets[0].ID), SecurityGroupIds: []string{k.class.Status.SecurityGroups[0].ID},
		IamInstanceProfile: &ec2types.IamInstanceProfileSpecification{Name: aws.String(k.class.Status.InstanceProfile)},
		UserData:           aws.String(base64.StdEncoding.EncodeToString([]byte(k.userData()))),
		TagSpecifications:  []ec2types.TagSpecification{spec},
	})
	if err != nil {
		k.t.Fatal(err)
	}
	k.instance, k.zone = out.Instances[0], k.class.Status.Subnets[0].Zone
}

// userData is AL2023's as Karpenter writes it: the taint that its registration lifts, its labels and the NodePool's.
func (k *karpenters) userData() string {
	config := k.RESTConfig()
	return fmt.Sprintf(`MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: application/node.eks.aws

# Karpenter Generated NodeConfig
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
metadata:
  creationTimestamp: null
spec:
  cluster:
    apiServerEndpoint: %s
    certificateAuthority: %s
    cidr: 10.100.0.0/16
    name: %s
  instance:
    localStorage: {}
  kubelet:
    config:
      clusterDNS:
      - 10.100.0.10
      maxPods: 29
      registerWithTaints:
      - effect: NoExecute
        key: karpenter.sh/unregistered
      - effect: NoSchedule
        key: %s
        value: takeover
    flags:
    - --node-labels="karpenter.k8s.aws/ec2nodeclass=default,karpenter.sh/capacity-type=on-demand,karpenter.sh/nodepool=takeover,%s=takeover"

--//--
`, config.Host, base64.StdEncoding.EncodeToString(config.CAData), sandbox.ClusterName, worldKey, worldKey)
}

// record writes the NodeClaim as Karpenter has it between launch and registration. Slipway stands still meanwhile: it never
// sees the NodeClaim without its instance, as it would not with Karpenter's.
func (k *karpenters) record() *karpv1.NodeClaim {
	k.t.Helper()
	id := aws.ToString(k.instance.InstanceId)
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: karpentersClaim, Finalizers: []string{karpv1.TerminationFinalizer},
		Labels: map[string]string{
			karpv1.NodePoolLabelKey: "takeover", karpv1.CapacityTypeLabelKey: karpv1.CapacityTypeOnDemand, worldKey: "takeover",
			"karpenter.k8s.aws/ec2nodeclass": "default", corev1.LabelInstanceTypeStable: "m6i.large", corev1.LabelArchStable: "amd64",
			corev1.LabelOSStable: "linux", corev1.LabelTopologyZone: k.zone, corev1.LabelTopologyRegion: k.AWSRegion(),
			awsv1.LabelInstanceFamily: "m6i", awsv1.LabelInstanceCategory: "m", awsv1.LabelInstanceGeneration: "6", awsv1.LabelInstanceSize: "large",
			awsv1.LabelInstanceCPU: "2", awsv1.LabelInstanceMemory: "8192", awsv1.LabelInstanceHypervisor: "nitro",
		},
		Annotations: map[string]string{
			karpv1.NodePoolHashAnnotationKey: k.pool.Hash(), karpv1.NodePoolHashVersionAnnotationKey: karpv1.NodePoolHashVersion,
			awsv1.AnnotationEC2NodeClassHash: k.class.Hash(aws.String(base64.StdEncoding.EncodeToString(k.RESTConfig().CAData))), awsv1.AnnotationEC2NodeClassHashVersion: awsv1.EC2NodeClassHashVersion,
		},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "karpenter.sh/v1", Kind: "NodePool", Name: k.pool.Name, UID: k.pool.UID, BlockOwnerDeletion: new(true),
		}},
	}}
	claim.Spec = karpv1.NodeClaimSpec{
		NodeClassRef: k.pool.Spec.Template.Spec.NodeClassRef, Taints: k.pool.Spec.Template.Spec.Taints, ExpireAfter: k.pool.Spec.Template.Spec.ExpireAfter,
		Requirements: []karpv1.NodeSelectorRequirementWithMinValues{
			{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"m6i.large"}},
			{Key: karpv1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{karpv1.CapacityTypeOnDemand}},
			{Key: karpv1.NodePoolLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{"takeover"}},
		},
		Resources: karpv1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("650m"), corev1.ResourceMemory: resource.MustParse("1Gi"), corev1.ResourcePods: resource.MustParse("4"),
		}},
	}
	status := karpv1.NodeClaimStatus{
		ProviderID: fmt.Sprintf("aws:///%s/%s", k.zone, id), ImageID: aws.ToString(k.instance.ImageId),
		Capacity: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("7577Mi"), corev1.ResourcePods: resource.MustParse("29"),
			corev1.ResourceEphemeralStorage: resource.MustParse("20Gi"),
		},
		Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("1930m"), corev1.ResourceMemory: resource.MustParse("6903Mi"), corev1.ResourcePods: resource.MustParse("29"),
			corev1.ResourceEphemeralStorage: resource.MustParse("17Gi"),
		},
	}
	k.still(func() {
		k.create(claim)
		claim.Status = status
		claim.StatusConditions().SetTrue(karpv1.ConditionTypeLaunched)
		if err := k.client.Status().Update(k.t.Context(), claim); err != nil {
			k.t.Error(err)
		}
	})
	return claim
}

// still has the launcher stand still while f runs: it goes on where it was.
func (k *karpenters) still(f func()) {
	k.t.Helper()
	pid := shared.PID(sandbox.Launcher)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		k.t.Fatal(err)
	}
	defer func() {
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
			k.t.Error(err)
		}
	}()
	f()
}
