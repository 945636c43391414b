package buffer

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	autoscalingv1beta1 "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/buffersize"
	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// publish makes known which nodes have room for pods of buffers, and which standby buffers wait for theirs. Nodes stay where the last answer had room, also
// if it was one to another question.
func (c *Controller) publish(items map[string][]*item, waiting map[string]string) {
	wanted, existing, inFlight := 0, 0, 0
	nodes, claims, disks := map[string]string{}, map[string]string{}, map[string]disk{}
	for name, of := range items {
		for _, it := range of {
			if it.wanted.GetStandby() {
				disks[it.wanted.GetUid()] = it.disk
			}
			wanted += int(it.wanted.GetPods())
			p := c.namespaces[name].lastPlaces(it)
			if p == nil {
				continue
			}
			existing, inFlight = existing+int(p.GetExisting()), inFlight+int(p.GetInFlight())
			for _, node := range p.GetNodeNames() {
				nodes[node] = name + "/" + it.stored.Name
			}
			for _, claim := range p.GetNodeClaims() {
				claims[claim] = name + "/" + it.stored.Name
			}
		}
	}
	c.metrics.set(wanted, existing, inFlight)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes, c.claims, c.disks, c.waiting = nodes, claims, disks, waiting
}

// know notes that what is published is complete, by the answers of the scheduler that had the stream.
func (c *Controller) know(stream uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known, c.stream = time.Now(), stream
}

// placesOf returns where the pods of a buffer have room; nil where that is not known: an answer to another question does not say it.
func (n *namespace) placesOf(it *item) *api.BufferPlaces {
	if !n.answered() {
		return nil
	}
	return n.lastPlaces(it)
}

// lastPlaces returns where the pods of a buffer had room by the last answer; nil where there is none.
func (n *namespace) lastPlaces(it *item) *api.BufferPlaces {
	if n == nil || it.wanted == nil {
		return nil
	}
	return n.places[it.stored.UID]
}

// placesIn returns what the status says of where the pods have room. On instances that sleep it counts as there.
func (c *Controller) placesIn(ctx context.Context, name string, it *item) (*buffersize.Places, error) {
	p := c.namespaces[name].placesOf(it)
	if p == nil {
		return nil, nil
	}
	out := &buffersize.Places{Existing: int(p.GetExisting()), InFlight: int(p.GetInFlight()), NoRoom: p.GetNoRoom(), Reason: p.GetNoRoomReason()}
	if !it.wanted.GetStandby() {
		return out, nil
	}
	asleep, err := c.asleep(ctx, p.GetNodeClaims())
	if asleep {
		out.Existing, out.InFlight = out.Existing+out.InFlight, 0
	}
	return out, err
}

// write writes the status of the buffers that differ from it.
func (c *Controller) write(ctx context.Context, items map[string][]*item) []error {
	var errs []error
	for name, of := range items {
		for _, it := range of {
			if it.settled {
				continue
			}
			places, err := c.placesIn(ctx, name, it)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			// Most differ in nothing. All but the status is the cache's.
			shared := *it.stored
			cb := &shared
			it.stored.Status.DeepCopyInto(&cb.Status)
			buffersize.SetResolution(cb, it.resolution)
			if it.booking != nil {
				buffersize.SetBooking(cb, *it.booking, it.resolution, places, time.Now())
			} else {
				buffersize.SetPlaces(cb, it.resolution, places)
			}
			if equality.Semantic.DeepEqual(it.stored.Status, cb.Status) {
				continue
			}
			cb = cb.DeepCopy()
			patch := client.MergeFromWithOptions(it.stored.DeepCopy(), client.MergeFromWithOptimisticLock{})
			err = c.config.Client.Status().Patch(ctx, cb, patch)
			// The cache is behind, or the buffer is gone: the next pass writes it.
			if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
				errs = append(errs, fmt.Errorf("writing the status of CapacityBuffer %s/%s: %w", cb.Namespace, cb.Name, err))
			}
		}
	}
	return errs
}

// announce records Events on the buffers of an answer.
func (c *Controller) announce(items []*item, is *namespace) {
	c.forgetRecorded()
	for _, it := range items {
		if it.resolution.Limited != "" {
			c.record(it.stored, "CapacityBufferLimited", it.resolution.Limited)
		}
		p := is.places[it.stored.UID]
		if len(p.GetLaunched()) > 0 {
			c.config.Events.Eventf(it.stored, corev1.EventTypeNormal, "CapacityBufferLaunched", "Launched NodeClaims for %d of %d pods: %s",
				p.GetInFlight(), it.resolution.Replicas, listed(p.GetLaunched()))
		}
		if p.GetNoRoom() != "" {
			c.record(it.stored, "CapacityBufferUnplaced", p.GetNoRoom())
		}
	}
}

// forgetRecorded lets Events that were recorded long ago be recorded again.
func (c *Controller) forgetRecorded() {
	now := time.Now()
	maps.DeleteFunc(c.recorded, func(_ string, at time.Time) bool { return now.Sub(at) > eventEvery })
}

// record records a warning, unless one with the same reason was recorded recently.
func (c *Controller) record(cb *autoscalingv1beta1.CapacityBuffer, reason, message string) {
	key := reason + "/" + string(cb.UID)
	if _, recent := c.recorded[key]; recent {
		return
	}
	c.recorded[key] = time.Now()
	c.config.Events.Eventf(cb, corev1.EventTypeWarning, reason, "%s", message)
}

// mostListed is how many NodeClaims an Event names.
const mostListed = 5

func listed(names []string) string {
	if len(names) <= mostListed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:mostListed], ", "), len(names)-mostListed)
}

// sumOf returns a hash of what an answer about the buffers depends on, beside what changes with time.
func sumOf(items []*item, cluster uint64) uint64 {
	h := fnv.New64a()
	_ = binary.Write(h, binary.LittleEndian, cluster)
	for _, it := range items {
		if it.wanted != nil {
			fmt.Fprintln(h, it.wanted.GetUid(), it.wanted.GetPods(), it.wanted.GetTakers().GetSelector(), it.wanted.GetTakers().GetPriority(),
				it.wanted.GetWhole(), it.wanted.GetNoLaunch(), it.wanted.GetStandby(), len(it.wanted.GetTemplate()))
			_, _ = h.Write(it.wanted.GetTemplate())
		}
	}
	return h.Sum64()
}

// clusterSum returns a hash of the nodes, of the pods on them and of the NodePools, whatever their order. The pods of a node are read when one of them changes.
func (c *Controller) clusterSum(ctx context.Context) (uint64, error) {
	claims, nodes, err := c.config.Cache.Fleet(ctx)
	if err != nil {
		return 0, err
	}
	pools := &karpv1.NodePoolList{}
	if err := c.config.Client.List(ctx, pools, client.UnsafeDisableDeepCopy); err != nil {
		return 0, fmt.Errorf("listing NodePools: %w", err)
	}
	var sum uint64
	c.onNode.Look()
	for _, n := range nodes {
		pods, err := c.onNode.On(ctx, c.config.Cache.Pods, n.Name, sumOfPods)
		if err != nil {
			return 0, err
		}
		sum += pods + hashOf("node", n.UID, n.Spec.Unschedulable, n.Spec.Taints, conditions.NodeReady(n))
	}
	for _, n := range claims {
		// Pods that are promised a node in flight may take reserved room on it.
		sum += hashOf("claim", n.UID, n.DeletionTimestamp != nil, conditions.ClaimIs(n, karpv1.ConditionTypeInitialized), n.Annotations[catalog.PodsAnnotation],
			record.Outdated(n))
	}
	for i := range pools.Items {
		p := &pools.Items[i]
		sum += hashOf("pool", p.UID, p.Generation, conditions.PoolReady(p))
	}
	return sum, nil
}

// sumOfPods returns a hash of which pods are on a node.
func sumOfPods(pods []*corev1.Pod) (sum uint64) {
	for _, p := range pods {
		if !disruption.Terminal(p) {
			sum += hashOf("pod", p.UID, p.Spec.NodeName)
		}
	}
	return sum
}

func hashOf(parts ...any) uint64 {
	h := fnv.New64a()
	fmt.Fprintln(h, parts...)
	return h.Sum64()
}
