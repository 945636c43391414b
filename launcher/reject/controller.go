package reject

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/announce"
	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/bind"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/fromec2"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/leadership"
	"github.com/slipway-k8s/slipway/launcher/record"
)

const (
	// workers is the number of rejections that are handled concurrently.
	workers = 4
	// unrecordedRetry is when a rejection is checked again whose pod the launcher may have bound before that was recorded.
	unrecordedRetry = time.Second
)

// Health records rejections; *health.Health is one.
type Health interface {
	// Rejected records that a kubelet rejected a pod that the launcher bound.
	Rejected(ctx context.Context, claim *karpv1.NodeClaim, reason, message string) error
}

// Config holds the dependencies of a Controller. Every field is required.
type Config struct {
	// Client reads from the cache, with the indexes of package index, and writes.
	Client client.Client
	// Guard allows effects only while this replica leads.
	Guard leadership.Guard
	// Events records slipway's own Events.
	Events announce.EventRecorder
	// Health of the NodePools.
	Health Health
	// Ours reports whether the launcher manages a claim.
	Ours func(claim *karpv1.NodeClaim) bool
}

// Controller handles rejected pods.
type Controller struct{ config Config }

// New returns a Controller; SetupWithManager starts it with the manager.
func New(c Config) (*Controller, error) {
	if c.Client == nil || c.Guard == nil || c.Events == nil || c.Health == nil || c.Ours == nil {
		return nil, errors.New("reject: every field of Config is required")
	}
	return &Controller{config: c}, nil
}

// SetupWithManager adds the reconciler to a manager.
func (c *Controller) SetupWithManager(mgr manager.Manager) error {
	rejected := predicate.NewPredicateFuncs(func(o client.Object) bool {
		pod, ok := o.(*corev1.Pod)
		return ok && Rejected(pod)
	})
	return builder.ControllerManagedBy(mgr).Named("pod.rejected").
		For(&corev1.Pod{}, builder.WithPredicates(rejected)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(leadership.Reconciler(c.config.Guard, c.Reconcile))
}

// Reconcile handles one pod. It first records what the rejection shows, and then deletes the pod if the launcher bound it, so that a crash
// in between loses nothing. ctx is an effect's.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	pod := &corev1.Pod{}
	if err := c.config.Client.Get(ctx, req.NamespacedName, pod); err != nil || !Rejected(pod) {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	node := &corev1.Node{}
	if err := c.config.Client.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, node); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err) // The pod is deleted with its node.
	}
	claims := &karpv1.NodeClaimList{}
	if err := c.config.Client.List(ctx, claims, client.MatchingFields{index.ClaimProviderID: node.Spec.ProviderID}); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing NodeClaims of node %s: %w", node.Name, err)
	}
	if node.Spec.ProviderID == "" || len(claims.Items) != 1 || !c.config.Ours(&claims.Items[0]) {
		return reconcile.Result{}, nil
	}
	claim := &claims.Items[0]
	if mayBeUnrecorded(claim, pod) {
		return reconcile.Result{RequeueAfter: unrecordedRetry}, nil
	}
	if err := c.learn(ctx, pod, node, claim); err != nil {
		return reconcile.Result{}, err
	}
	if !preBound(claim, pod) {
		return reconcile.Result{}, nil
	}
	klog.FromContext(ctx).Info("A kubelet rejected a pod that was bound ahead of the scheduler", "pod", klog.KObj(pod), "node", node.Name,
		"nodeClaim", klog.KObj(claim), "reason", pod.Status.Reason, "message", pod.Status.Message)
	if err := c.config.Health.Rejected(ctx, claim, pod.Status.Reason, pod.Status.Message); err != nil {
		return reconcile.Result{}, err
	}
	c.config.Events.Eventf(pod, corev1.EventTypeWarning, "PreBoundPodRejected", "It never ran and is replaced: kubelet of node %s: %s: %s",
		node.Name, pod.Status.Reason, pod.Status.Message)
	err := c.config.Client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("deleting rejected pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return reconcile.Result{}, nil
}

// promised reports whether the pod was promised to the claim's node.
func promised(claim *karpv1.NodeClaim, pod *corev1.Pod) bool {
	refs, err := record.Pods(claim)
	return err == nil && slices.ContainsFunc(refs, func(r catalog.PodRef) bool { return r.UID == string(pod.UID) })
}

// mayBeUnrecorded reports whether slipway may have bound the pod although the claim does not record it yet: the kubelet may
// reject the pod first. The record is complete when the claim is initialized.
func mayBeUnrecorded(claim *karpv1.NodeClaim, pod *corev1.Pod) bool {
	return promised(claim, pod) && !preBound(claim, pod) && metav1.GetControllerOfNoCopy(pod) != nil &&
		!conditions.ClaimIs(claim, karpv1.ConditionTypeInitialized)
}

// preBound reports whether the pod was promised to the claim's node, and slipway was to bind it.
func preBound(claim *karpv1.NodeClaim, pod *corev1.Pod) bool {
	if !promised(claim, pod) {
		return false
	}
	b, told, err := record.BindingOf(claim, pod.UID)
	return err == nil && told && b.At != string(bind.Scheduler) && metav1.GetControllerOfNoCopy(pod) != nil
}

// learn records in the class what the rejection shows.
func (c *Controller) learn(ctx context.Context, pod *corev1.Pod, node *corev1.Node, claim *karpv1.NodeClaim) error {
	var pods corev1.PodList
	if err := c.config.Client.List(ctx, &pods, client.MatchingFields{index.PodNodeName: node.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing pods of node %s: %w", node.Name, err)
	}
	facts := Facts{Pod: pod, Node: node, Promised: claim.Status.Allocatable, Ours: preBound(claim, pod)}
	for i := range pods.Items {
		facts.OnNode = append(facts.OnNode, &pods.Items[i])
	}
	lesson := Judge(facts)
	// The NodeClaim has EC2's value; the kubelet can change the Node's label.
	instanceType := claim.Labels[corev1.LabelInstanceTypeStable]
	if lesson.Resource == "" || claim.Spec.NodeClassRef == nil || claim.Status.ImageID == "" || instanceType == "" {
		return nil
	}
	class := &awsv1.EC2NodeClass{}
	if err := c.config.Client.Get(ctx, client.ObjectKey{Name: claim.Spec.NodeClassRef.Name}, class); err != nil || class.DeletionTimestamp != nil {
		return client.IgnoreNotFound(err)
	}
	before := class.DeepCopy()
	key := fromec2.SizesKey(instanceType, claim.Status.ImageID)
	news, _ := fromec2.Note(class, key, fromec2.Report{
		NodeClaim: claim.Name, Rejection: true, At: metav1.Now(), Class: claim.Annotations[awsv1.AnnotationEC2NodeClassHash],
		Allocatable: corev1.ResourceList{lesson.Resource: lesson.Room},
	})
	if !news {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.config.Client.Patch(ctx, class, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("recording the rejection of pod %s/%s in EC2NodeClass %s: %w", pod.Namespace, pod.Name, class.Name, err)
	}
	klog.FromContext(ctx).Info("learned from a rejection what nodes of an instance type and AMI have room for", "nodeClass", klog.KObj(class),
		"node", node.Name, "kind", key, "resource", lesson.Resource, "room", lesson.Room.String())
	return nil
}
