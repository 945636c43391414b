package terminate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/launcher/index"
)

// waitVolumes waits until the volumes of the evicted pods are detached: terminating an instance with an attached volume delays the volume's
// next node for minutes.
func (t *Terminator) waitVolumes(ctx context.Context, s *scope) (time.Duration, error) {
	conditions := s.claim.StatusConditions()
	switch {
	case s.died || conditions.IsTrue(karpv1.ConditionTypeVolumesDetached):
		conditions.SetTrue(karpv1.ConditionTypeVolumesDetached)
		return 0, nil
	case !s.deadline.IsZero() && !s.now.Before(s.deadline):
		conditions.SetFalse(karpv1.ConditionTypeVolumesDetached, "TerminationGracePeriodElapsed", "the termination grace period ended before the volumes were detached")
		return 0, nil
	}
	attached, err := t.attachments(ctx, s)
	if err != nil {
		return 0, err
	}
	if len(attached) == 0 {
		conditions.SetTrue(karpv1.ConditionTypeVolumesDetached)
		return 0, nil
	}
	list := strings.Join(attached, ", ")
	if c := conditions.Get(karpv1.ConditionTypeVolumesDetached); c == nil || c.Message != "attached: "+list {
		t.progress.event(s, corev1.EventTypeNormal, "AwaitingVolumeDetachment", "Awaiting deletion of bound volumeattachments (%s)", list)
	}
	conditions.SetUnknownWithReason(karpv1.ConditionTypeVolumesDetached, "AwaitingVolumeDetachment", "attached: "+list)
	return volumePeriod, nil
}

// attachments returns the VolumeAttachments to wait for, by name: those of the nodes' PersistentVolumes without those of pods that
// stay until the end. As in Karpenter, inline volumes are not waited for: an attachment does not say whose they are.
func (t *Terminator) attachments(ctx context.Context, s *scope) ([]string, error) {
	var found []storagev1.VolumeAttachment
	for _, node := range s.nodes {
		list := &storagev1.VolumeAttachmentList{}
		if err := t.config.Client.List(ctx, list, client.MatchingFields{index.AttachmentNodeName: node.Name}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing VolumeAttachments of Node %s: %w", node.Name, err)
		}
		found = append(found, list.Items...)
	}
	if len(found) == 0 {
		return nil, nil
	}
	staying, err := t.stayingVolumes(ctx, s)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, va := range found {
		if pv := va.Spec.Source.PersistentVolumeName; pv != nil && !staying[*pv] {
			out = append(out, va.Name)
		}
	}
	slices.Sort(out)
	return out, nil
}

// stayingVolumes returns the PersistentVolumes of pods that a drain does not evict.
func (t *Terminator) stayingVolumes(ctx context.Context, s *scope) (map[string]bool, error) {
	pods, err := podsOn(ctx, t.config.Client, s.nodes)
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for _, pod := range pods {
		if disruption.Drainable(pod, s.now) {
			continue
		}
		for _, v := range pod.Spec.Volumes {
			if name := claimName(pod, v); name != "" {
				pvc := &corev1.PersistentVolumeClaim{}
				err := t.config.Client.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: name}, pvc)
				if client.IgnoreNotFound(err) != nil {
					return nil, fmt.Errorf("getting PersistentVolumeClaim %s/%s: %w", pod.Namespace, name, err)
				}
				out[pvc.Spec.VolumeName] = true
			}
		}
	}
	return out, nil
}

func claimName(pod *corev1.Pod, v corev1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		return pod.Name + "-" + v.Name
	}
	return ""
}
