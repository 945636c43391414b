package podstatus

import (
	"context"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/plugin/explain"
)

const (
	// clearEvery is how often bound pods are searched for a condition NodeLaunchable, which the binding has left on them.
	clearEvery = 10 * time.Second
	// clearMost bounds the pods that one search clears, so that notes do not wait long.
	clearMost = 100
)

// Message returns the message of the pod's condition PodScheduled, empty if it has none.
func Message(pod *corev1.Pod) string {
	if c := conditions.Pod(pod, corev1.PodScheduled); c != nil {
		return c.Message
	}
	return ""
}

// reportedText returns what the pod's conditions report, without the scheduler's verdict.
func reportedText(pod *corev1.Pod) string {
	if r, ok := explain.Read(pod); ok {
		return r.Text()
	}
	return Message(pod)
}

// reason returns the reason of the condition PodScheduled. No autoscaler launches nodes for pods of reason SchedulingGated.
func (w *Writer) reason(m explain.Message) string {
	if m.Refusal.Code == explain.CodeAsleep {
		return corev1.PodReasonSchedulingGated
	}
	if w.beside.Load() && m.Refusal.Code == "" {
		return explain.ReasonNodeAwaited
	}
	return corev1.PodReasonUnschedulable
}

// Beside says whether a Karpenter runs beside slipway. It is safe for concurrent use.
func (w *Writer) Beside(karpenter bool) { w.beside.Store(karpenter) }

// hasConditions reports whether the pod's conditions are those of the message already.
func (w *Writer) hasConditions(pod *corev1.Pod, m explain.Message) bool {
	c := conditions.Pod(pod, corev1.PodScheduled)
	if c == nil || c.Status != corev1.ConditionFalse || c.Reason != w.reason(m) || c.Message != m.String() {
		return false
	}
	c = conditions.Pod(pod, explain.NodeLaunchable)
	if m.Refusal.Code == "" {
		return c == nil
	}
	reason, message, err := m.Refusal.Encode()
	return err == nil && c != nil && c.Status == corev1.ConditionFalse && c.Reason == reason && c.Message == message
}

// refreshes reports whether the pod's conditions already say why no node is launched, but for figures and texts.
func (w *Writer) refreshes(pod *corev1.Pod, m explain.Message) bool {
	c := conditions.Pod(pod, corev1.PodScheduled)
	if m.Refusal.Code == "" || c == nil || c.Status != corev1.ConditionFalse || c.Reason != w.reason(m) {
		return false
	}
	known, ok := explain.Read(pod)
	return ok && known.Alike(m.Refusal)
}

// patch writes the conditions if the pod has not changed since it was read: a pod that was bound meanwhile must get no condition
// that says it is unschedulable.
func (w *Writer) patch(ctx context.Context, pod *corev1.Pod, m explain.Message) error {
	list := []any{unmet(pod, corev1.PodScheduled, w.reason(m), m.String())}
	if m.Refusal.Code != "" {
		reason, message, err := m.Refusal.Encode()
		if err != nil {
			return err
		}
		list = append(list, unmet(pod, explain.NodeLaunchable, reason, message))
	} else if conditions.Pod(pod, explain.NodeLaunchable) != nil {
		list = append(list, removed(explain.NodeLaunchable))
	}
	return w.patchConditions(ctx, pod, list, pod.ResourceVersion)
}

// clear removes the condition NodeLaunchable from pods that are bound: the binding removes none, and the condition holds no more.
func (w *Writer) clear(ctx context.Context) {
	pods, err := w.Pods.List(labels.Everything())
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Pods were not listed", "err", err)
		return
	}
	most := clearMost
	for _, pod := range pods {
		if pod.Spec.NodeName == "" || conditions.Pod(pod, explain.NodeLaunchable) == nil {
			continue
		}
		if most--; most < 0 || w.limit.Wait(ctx) != nil {
			return
		}
		// Only a Writer writes the condition, and only on pods without a node: nothing can come between.
		err := w.patchConditions(ctx, pod, []any{removed(explain.NodeLaunchable)}, "")
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && ctx.Err() == nil {
			klog.FromContext(ctx).V(2).Info("Condition of the bound pod was not removed", "pod", klog.KObj(pod), "err", err)
		}
	}
}

// patchConditions patches the conditions of the pod with that UID, and with that resourceVersion unless it is empty.
func (w *Writer) patchConditions(ctx context.Context, pod *corev1.Pod, list []any, resourceVersion string) error {
	identity := map[string]any{"uid": pod.UID}
	if resourceVersion != "" {
		identity["resourceVersion"] = resourceVersion
	}
	body, err := json.Marshal(map[string]any{"metadata": identity, "status": map[string]any{"conditions": list}})
	if err != nil {
		return err
	}
	_, err = w.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, body, metav1.PatchOptions{}, "status")
	return err
}

// unmet returns a condition whose status is False, since when it is.
func unmet(pod *corev1.Pod, kind corev1.PodConditionType, reason, message string) corev1.PodCondition {
	since := metav1.NewTime(time.Now())
	if c := conditions.Pod(pod, kind); c != nil && c.Status == corev1.ConditionFalse {
		since = c.LastTransitionTime
	}
	return corev1.PodCondition{
		Type: kind, Status: corev1.ConditionFalse, Reason: reason, Message: message, LastTransitionTime: since, ObservedGeneration: pod.Generation,
	}
}

// removed is the entry of a strategic merge patch that removes the condition.
func removed(kind corev1.PodConditionType) map[string]any {
	return map[string]any{"type": kind, "$patch": "delete"}
}
