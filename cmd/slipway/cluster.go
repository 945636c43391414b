package main

import (
	"context"
	"fmt"
	"slices"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	autoscalingv1beta1 "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/slipway-k8s/slipway/internal/provider"
)

// clusterObjects returns the objects that a simulation needs. Kinds that the cluster does not have are left out, and so are other providers' NodePools and
// NodeClaims.
func (o *options) clusterObjects(ctx context.Context) ([]runtime.Object, error) {
	c, _, err := o.client()
	if err != nil {
		return nil, err
	}
	var out []runtime.Object
	for _, list := range []client.ObjectList{
		&karpv1.NodePoolList{}, &karpv1.NodeClaimList{}, &awsv1.EC2NodeClassList{}, &v1alpha1.NodeOverlayList{}, &corev1.NamespaceList{}, &corev1.NodeList{}, &corev1.PodList{},
		&appsv1.DaemonSetList{}, &appsv1.DeploymentList{}, &appsv1.ReplicaSetList{}, &appsv1.StatefulSetList{}, &batchv1.JobList{},
		&corev1.PersistentVolumeList{}, &corev1.PersistentVolumeClaimList{}, &storagev1.StorageClassList{}, &storagev1.CSINodeList{},
		&storagev1.CSIDriverList{}, &schedulingv1.PriorityClassList{}, &nodev1.RuntimeClassList{}, &resourcev1.ResourceClaimList{},
		&policyv1.PodDisruptionBudgetList{}, &corev1.LimitRangeList{}, &corev1.ServiceList{}, &corev1.PodTemplateList{}, &autoscalingv1beta1.CapacityBufferList{},
	} {
		err := c.List(ctx, list)
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading the cluster: %w", err)
		}
		if err := meta.EachListItem(list, func(object runtime.Object) error { out = append(out, object); return nil }); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(out, others), nil
}

// others reports whether an object is another provider's.
func others(object runtime.Object) bool {
	switch o := object.(type) {
	case *karpv1.NodePool:
		return provider.OthersPool(o)
	case *karpv1.NodeClaim:
		return provider.OthersClaim(o)
	}
	return false
}
