package buffer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	autoscalingv1beta1 "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/buffersize"
	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/record"
)

const (
	// prepareWithin is how long a ready node waits at most for its images before it is stopped, where the buffer does not say.
	prepareWithin = 2 * time.Minute
	// prepareAtMost is what a buffer may ask for: the instance is paid for meanwhile.
	prepareAtMost = time.Hour
)

// holdAtLeast and holdAtMost bound how long nothing is launched for a standby buffer after one of its instances was kept. Each kept instance is paid for as long
// as its node stays: beyond the first hours that is four in a day.
const holdAtLeast, holdAtMost = time.Minute, 6 * time.Hour

// disk is what the instances of a standby buffer have on their disk.
type disk struct {
	// pod has the images.
	pod *corev1.Pod
	// within is how long at most a node that is ready waits for them.
	within time.Duration
}

// Disk returns a pod of the standby buffer with that UID, whose images its instances have before they are stopped, and how long they wait for them at
// most; nil where there is no such buffer, or none is known yet.
func (c *Controller) Disk(uid string) (*corev1.Pod, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.disks[uid]
	return d.pod, d.within
}

// standby makes the pods of a standby buffer select capacity whose instances can be stopped, and returns what they need of the disk.
func (t *template) standby(cb *autoscalingv1beta1.CapacityBuffer) (disk, *buffersize.Failure) {
	out := disk{pod: &corev1.Pod{Spec: t.pod.Spec}, within: prepareWithin}
	if text, ok := cb.Annotations[catalog.StandbyPrepareAnnotation]; ok {
		within, err := time.ParseDuration(text)
		if err != nil || within < 0 || within > prepareAtMost {
			return disk{}, failed("annotation %s: %q, want a duration of at most %s, such as 2m", catalog.StandbyPrepareAnnotation, text, prepareAtMost)
		}
		out.within = within
	}
	for _, of := range catalog.CapacityTypes() {
		if !of.Stops {
			continue
		}
		if have, ok := t.pod.Spec.NodeSelector[karpv1.CapacityTypeLabelKey]; ok && have != of.Name {
			return disk{}, failed("the pods select %s capacity, whose instances cannot be stopped; want %s", have, of.Name)
		}
		selector := map[string]string{karpv1.CapacityTypeLabelKey: of.Name}
		maps.Copy(selector, t.pod.Spec.NodeSelector)
		t.pod.Spec.NodeSelector = selector
		return out, nil
	}
	return disk{}, failed("no capacity type has instances that can be stopped")
}

// asleep reports whether all instances of the NodeClaims are stopped.
func (c *Controller) asleep(ctx context.Context, names []string) (bool, error) {
	return c.each(ctx, names, isAsleep)
}

func isAsleep(claim *karpv1.NodeClaim) bool {
	return record.StandbyOf(claim).State == record.StandbyAsleep
}

// waits reports whether a pod that comes finds the instance of a claim ready: it is stopped, or it runs on since EC2 does not stop it.
func waits(claim *karpv1.NodeClaim) bool {
	refused := conditions.Claim(claim, record.ConditionStandby).IsFalse()
	return isAsleep(claim) || refused && record.StandbyOf(claim).State == record.StandbyPreparing
}

// each reports whether there are NodeClaims of these names, and all of them are so.
func (c *Controller) each(ctx context.Context, names []string, so func(*karpv1.NodeClaim) bool) (bool, error) {
	for _, name := range names {
		claim := &karpv1.NodeClaim{}
		// One that does not exist is not so.
		if err := client.IgnoreNotFound(c.config.Client.Get(ctx, client.ObjectKey{Name: name}, claim)); err != nil {
			return false, fmt.Errorf("getting NodeClaim %s of a standby buffer: %w", name, err)
		}
		if !so(claim) {
			return false, nil
		}
	}
	return len(names) > 0, nil
}

// waitingBuffers returns the standby buffers whose pods do not all have room on instances that wait for them, by UID, with their names. Instances that are to be
// replaced stay meanwhile: a replacement may never come, such as where a limit is reached.
func (c *Controller) waitingBuffers(ctx context.Context, items map[string][]*item) (map[string]string, error) {
	out := map[string]string{}
	var errs []error
	for name, of := range items {
		for _, it := range of {
			if !it.wanted.GetStandby() {
				continue
			}
			p := c.namespaces[name].placesOf(it)
			there, err := c.each(ctx, p.GetNodeClaims(), waits)
			if !there || p.GetExisting()+p.GetInFlight() < it.wanted.GetPods() {
				out[it.wanted.GetUid()] = name + "/" + it.stored.Name
			}
			errs = append(errs, err)
		}
	}
	return out, errors.Join(errs...)
}

// kept are the instances of a standby buffer that were launched since one was stopped last, and were not stopped themselves: pods that were not promised their nodes
// are there.
type kept struct {
	// first and last are when that was found out of them.
	first, last time.Time
	// claim and why are of the last.
	claim, why string
}

// keptOf returns what NodeClaims record of that, by the UID of their buffer.
func keptOf(claims []*karpv1.NodeClaim) map[string]kept {
	stopped := map[string]time.Time{}
	for _, claim := range claims {
		s := record.StandbyOf(claim)
		was := s.State == record.StandbyAsleep || s.State == record.StandbyStarting || record.Woken(claim)
		if was && s.Since.After(stopped[s.Buffer]) {
			stopped[s.Buffer] = s.Since
		}
	}
	out := map[string]kept{}
	for _, claim := range claims {
		s := record.StandbyOf(claim)
		if s.Kept == "" || !s.Since.After(stopped[s.Buffer]) {
			continue
		}
		k := out[s.Buffer]
		if k.first.IsZero() || s.Since.Before(k.first) {
			k.first = s.Since
		}
		if s.Since.After(k.last) {
			k.last, k.claim, k.why = s.Since, claim.Name, s.Kept
		}
		out[s.Buffer] = k
	}
	return out
}

// until returns when the next instance may be launched. The times between launches double, since each wait is as long as all before it took, and instances that
// are kept together count as one.
func (k kept) until() time.Time {
	return k.last.Add(min(max(k.last.Sub(k.first), holdAtLeast), holdAtMost))
}

// hold has nothing launched for standby buffers whose instances were not stopped lately: the next one would not be either, and each is paid for.
func (c *Controller) hold(ctx context.Context, items map[string][]*item) error {
	var by map[string]kept
	for _, of := range items {
		for _, it := range of {
			if !it.wanted.GetStandby() {
				continue
			}
			if by == nil {
				claims, err := c.config.Cache.Claims.All(ctx)
				if err != nil {
					return err
				}
				by = keptOf(claims)
			}
			k, has := by[it.wanted.GetUid()]
			if until := k.until(); has && time.Now().Before(until) {
				it.wanted.NoLaunch = true
				it.held = fmt.Sprintf("the instance of NodeClaim %s was not stopped: %s. The next one is launched after %s", k.claim, k.why, until.UTC().Format(time.RFC3339))
			}
		}
	}
	return nil
}
