package walk_test

import (
	"fmt"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	autoscalingv1beta1 "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// asleep is how many instances the standby buffer has: one more than the pod of a flow needs.
const asleep = 2

// napping creates a NodePool of on-demand nodes that only the pods of app nap tolerate, and their Deployment without pods. Each needs a node for itself.
func (s *scene) napping() *appsv1.Deployment {
	s.t.Helper()
	taint := corev1.Taint{Key: "nap", Value: "true", Effect: corev1.TaintEffectNoSchedule}
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "nap"}}
	pool.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}
	pool.Spec.Template.Spec.Taints = []corev1.Taint{taint}
	pool.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
		{Key: karpv1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{"on-demand"}},
		{Key: awsv1.LabelInstanceCategory, Operator: corev1.NodeSelectorOpIn, Values: []string{"c", "m", "r"}},
		{Key: awsv1.LabelInstanceCPU, Operator: corev1.NodeSelectorOpIn, Values: []string{"2"}},
	}
	pool.Spec.Disruption.ConsolidationPolicy = karpv1.ConsolidationPolicyWhenEmpty
	pool.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("1s")
	pool.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "100%"}}
	s.Create(pool)
	return s.deployment("nap", "1100m", func(t *corev1.PodTemplateSpec) {
		t.Spec.NodeSelector = map[string]string{karpv1.NodePoolLabelKey: pool.Name}
		t.Spec.Tolerations = []corev1.Toleration{{Key: taint.Key, Operator: corev1.TolerationOpExists}}
	})
}

// keepAsleep creates the standby buffer of so many instances, or deletes it for none.
func (s *stage) keepAsleep(n int) {
	s.t.Helper()
	buffer := &autoscalingv1beta1.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "nap"}}
	switch {
	case n == 0 && s.buffered:
		if err := s.API.Delete(s.t.Context(), buffer); client.IgnoreNotFound(err) != nil {
			s.t.Fatal(err)
		}
	case n > 0 && !s.buffered:
		// A machine lists the images that it has every ten seconds of its time.
		buffer.Annotations = map[string]string{"slipway.dev/standby-prepare": "1s"}
		buffer.Spec.ScalableRef = &autoscalingv1beta1.ScalableRef{APIGroup: "apps", Kind: "Deployment", Name: s.naps.Name}
		buffer.Spec.Replicas, buffer.Spec.ProvisioningStrategy = new(int32(n)), new("buffer.slipway.dev/standby")
		s.Create(buffer)
	}
	s.buffered = n > 0
}

// sleepers are the NodeClaims whose instances are stopped.
func (s *scene) sleepers() []observe.Claim {
	var out []observe.Claim
	for _, c := range s.claims() {
		if conditions.ClaimIs(c.Object, record.ConditionStandby) && record.StandbyOf(c.Object).State == record.StandbyAsleep && !c.Terminating.Seen() {
			out = append(out, c)
		}
	}
	return out
}

// started is how often EC2 started stopped instances.
func (s *scene) started() int {
	n := 0
	for _, i := range s.AWS().Instances() {
		n += i.Starts
	}
	return n
}

// wake creates one pod that wakes an instance.
func (s *stage) wake() {
	s.starts = s.started()
	s.scale(s.naps, 1)
}

// wokenOnce returns an error unless the pod runs and at most one instance was started for it. None is where a stop lasted so long that it has a new node.
func (s *stage) wokenOnce() error {
	if n := s.started() - s.starts; n > 1 {
		return fmt.Errorf("%d instances were started for one pod", n)
	}
	if n := len(s.claims()); n != asleep+1 {
		return fmt.Errorf("there are %d NodeClaims, want the stopped ones and that of the pod", n)
	}
	return s.runs("nap", 1)
}
