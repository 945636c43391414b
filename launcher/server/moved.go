package server

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/leadership"
	nodeobj "github.com/slipway-k8s/slipway/launcher/node"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// moveOut removes the pods of a request from the promises of all other NodeClaims, before they are promised again: the scheduler's last
// decision counts, and no pod is promised to two nodes. This comes first: after a crash, a pod without a promise is planned again, while one
// with two promises costs a node.
//
// A pod that is bound by now keeps the promise that it was bound for, and is left out of the request; a claim for such pods only is refused
// in over.
func (s *Server) moveOut(ctx context.Context, in *api.LaunchRequest, over []error) error {
	leaving := map[string]sets.Set[string]{}
	// Pods of terminating nodes are bound: to those nodes.
	bound := in.GetPurpose() == api.Purpose_PURPOSE_TERMINATION || in.GetPurpose() == api.Purpose_PURPOSE_MOVE
	for i, c := range in.GetClaims() {
		had := len(c.GetPods())
		kept, err := s.leave(ctx, leaving, c.GetName(), bound, c.GetPods())
		if err != nil {
			return err
		}
		if c.Pods = kept; had > 0 && len(kept) == 0 && over[i] == nil {
			over[i] = &refusal{api.ReasonPodsBound, fmt.Sprintf("claim %s: each of its pods is bound by now", c.GetName())}
		}
	}
	for _, p := range in.GetPlacements() {
		kept, err := s.leave(ctx, leaving, p.GetNodeClaim(), bound, p.GetPods())
		if err != nil {
			return err
		}
		p.Pods = kept
	}
	for from, uids := range leaving {
		if err := s.strike(ctx, from, uids); err != nil {
			return err
		}
	}
	return nil
}

// leave records the NodeClaims from which pods are moved by new promises, and returns the moved pods. bound means that the pods run on
// terminating nodes.
func (s *Server) leave(ctx context.Context, leaving map[string]sets.Set[string], to string, bound bool, pods []*api.PodRef) ([]*api.PodRef, error) {
	var kept []*api.PodRef
	for _, p := range pods {
		var list karpv1.NodeClaimList
		if err := s.config.Client.List(ctx, &list, client.MatchingFields{index.ClaimPromised: p.GetUid()}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing the NodeClaims that promise room to pod %s/%s: %w", p.GetNamespace(), p.GetName(), err)
		}
		list.Items = slices.DeleteFunc(slices.Clone(list.Items), func(c karpv1.NodeClaim) bool { return c.Name == to || !c.DeletionTimestamp.IsZero() })
		if len(list.Items) > 0 && !bound {
			pod := &corev1.Pod{}
			err := s.config.Reader.Get(ctx, types.NamespacedName{Namespace: p.GetNamespace(), Name: p.GetName()}, pod)
			if client.IgnoreNotFound(err) != nil {
				return nil, fmt.Errorf("reading pod %s/%s: %w", p.GetNamespace(), p.GetName(), err)
			}
			if err == nil && string(pod.UID) == p.GetUid() && pod.Spec.NodeName != "" {
				continue
			}
		}
		kept = append(kept, p)
		for _, from := range list.Items {
			if leaving[from.Name] == nil {
				leaving[from.Name] = sets.New[string]()
			}
			leaving[from.Name].Insert(p.GetUid())
		}
	}
	return kept, nil
}

// strike removes pods from a NodeClaim's promises. One that is deleted, or is being deleted, promises nothing.
func (s *Server) strike(ctx context.Context, name string, uids sets.Set[string]) error {
	err := s.promise(ctx, name, func(claim *karpv1.NodeClaim) (string, error) {
		if !claim.DeletionTimestamp.IsZero() {
			return claim.Annotations[catalog.PodsAnnotation], nil
		}
		return record.RemovePods(claim, uids.Has)
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		klog.FromContext(ctx).V(2).Info("Pods are promised elsewhere", "nodeClaim", name, "pods", sets.List(uids))
	}
	return err
}

// promise writes a NodeClaim's promises, as change computes them from the current ones, until the answer is definite.
func (s *Server) promise(ctx context.Context, name string, change func(*karpv1.NodeClaim) (string, error)) error {
	return definite(ctx, func() error {
		return leadership.RetryOnConflict(func() error {
			claim := &karpv1.NodeClaim{}
			if err := s.config.Reader.Get(ctx, types.NamespacedName{Name: name}, claim); err != nil {
				return err
			}
			text, err := change(claim)
			if err != nil || text == claim.Annotations[catalog.PodsAnnotation] {
				return err
			}
			before := claim.DeepCopy()
			if claim.Annotations == nil {
				claim.Annotations = map[string]string{}
			}
			claim.Annotations[catalog.PodsAnnotation] = text
			return s.config.Client.Patch(ctx, claim, nodeobj.ClaimMetadata(before))
		})
	})
}

// caughtUpIn is how long a stream waits for the cache to reach the state of the API server.
const caughtUpIn = 10 * time.Second

// caughtUp waits until the cache shows every NodeClaim of the API server: a client treats what is missing from a full state as deleted. The
// cache may lag behind the writes of a request whose scheduler, or launcher, ended before the answer.
func (s *Server) caughtUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, caughtUpIn)
	defer cancel()
	var live karpv1.NodeClaimList
	if err := s.config.Reader.List(ctx, &live); err != nil {
		return fmt.Errorf("listing NodeClaims: %w", err)
	}
	for i := range live.Items {
		for !s.shows(ctx, &live.Items[i]) {
			select {
			case <-ctx.Done():
				return fmt.Errorf("the cache does not show NodeClaim %s: %w", live.Items[i].Name, ctx.Err())
			case <-time.After(firstWait):
			}
		}
	}
	return nil
}

// shows reports whether the cache has the NodeClaim as it was read, or a later version; one deleted since counts as shown.
func (s *Server) shows(ctx context.Context, read *karpv1.NodeClaim) bool {
	key, have := client.ObjectKeyFromObject(read), &karpv1.NodeClaim{}
	if err := s.config.Client.Get(ctx, key, have); err == nil && have.UID == read.UID {
		order, err := resourceversion.CompareResourceVersion(have.ResourceVersion, read.ResourceVersion)
		return err != nil || order >= 0 // If versions cannot be compared, the cached one is accepted.
	}
	now := &karpv1.NodeClaim{}
	err := s.config.Reader.Get(ctx, key, now)
	return apierrors.IsNotFound(err) || err == nil && now.UID != read.UID
}

// withdrawing is the Server with Withdraw.
type withdrawing struct {
	api.LauncherServer

	server *Server
}

// Withdraw implements api.LauncherServer:
//
//  1. refuse a scheduler of another major version, wait for a Launch in progress, and refuse everything while not leading;
//  2. remove the pods from the promises of their NodeClaims;
//  3. delete the NodeClaims that were launched for pods, promise nothing any more and whose nodes are not initialized: no pod waits for their
//     instances. Those of CapacityBuffers, of static NodePools and of users stay.
func (w withdrawing) Withdraw(ctx context.Context, in *api.WithdrawRequest) (*api.WithdrawResponse, error) {
	s := w.server
	effects, end, err := s.enter(ctx, in.GetVersion())
	if err != nil {
		return nil, err
	}
	defer end()
	out := &api.WithdrawResponse{}
	for _, p := range in.GetPromises() {
		deleted, err := w.giveBack(effects, p, in.GetMessage())
		if err != nil {
			return nil, status.Error(codes.Unavailable, err.Error())
		}
		if deleted {
			out.Deleted = append(out.Deleted, p.GetNodeClaim())
		}
	}
	return out, nil
}

// giveBack takes the promises back, and reports whether the NodeClaim is deleted. One that is gone is.
func (w withdrawing) giveBack(ctx context.Context, p *api.InFlightPlacement, why string) (deleted bool, err error) {
	s := w.server
	uids := sets.New[string]()
	for _, pod := range p.GetPods() {
		uids.Insert(pod.GetUid())
	}
	if err := s.strike(ctx, p.GetNodeClaim(), uids); err != nil {
		return false, fmt.Errorf("taking promises of NodeClaim %s back: %w", p.GetNodeClaim(), err)
	}
	claim := &karpv1.NodeClaim{}
	if err := s.config.Reader.Get(ctx, types.NamespacedName{Name: p.GetNodeClaim()}, claim); err != nil {
		return client.IgnoreNotFound(err) == nil, client.IgnoreNotFound(err)
	}
	left, err := record.Pods(claim)
	switch {
	case err != nil:
		return false, err
	case !claim.DeletionTimestamp.IsZero():
		return true, nil
	case len(left) > 0 || claim.Annotations[catalog.ForPodsAnnotation] == "" || claim.StatusConditions().Get(karpv1.ConditionTypeInitialized).IsTrue():
		return false, nil
	}
	err = s.config.Client.Delete(ctx, claim, client.Preconditions{UID: &claim.UID, ResourceVersion: &claim.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("deleting NodeClaim %s: %w", claim.Name, err)
	}
	klog.FromContext(ctx).Info("NodeClaim is given back, no pod waits for it", "nodeClaim", klog.KObj(claim), "why", why)
	return true, nil
}
