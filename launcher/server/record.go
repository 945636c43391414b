package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// cacheWait is how long an answer waits for the cache to show the written objects: a stream read after the answer then includes them.
const cacheWait = 500 * time.Millisecond

// refusal is the reason why a claim or a placement was not recorded.
type refusal struct{ reason, message string }

// Error returns the message.
func (r *refusal) Error() string { return r.message }

// Launch implements api.LauncherServer:
//
//  1. refuse a scheduler of another major version, and wait for the previous Launch, whose scheduler may have ended;
//  2. refuse everything while not leading, the claims that would exceed a NodePool's limits, and the members of their groups;
//  3. remove the pods from other NodeClaims' promises;
//  4. write a NodeClaim for every claim, concurrently, and then the promises of every placement;
//  5. delete the NodeClaims of groups of which anything was refused;
//  6. enqueue the NodeClaims for launch;
//  7. wait until the cache has them, and answer, unless the API server left any write unanswered: then the request must be sent again.
func (s *Server) Launch(ctx context.Context, in *api.LaunchRequest) (*api.LaunchResponse, error) {
	effects, end, err := s.enter(ctx, in.GetVersion())
	if err != nil {
		return nil, err
	}
	defer end()
	over, err := s.admit(effects, in.GetClaims())
	if err != nil {
		return nil, err
	}
	if err := s.moveOut(effects, in, over); err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	s.spread(in.GetClaims(), over)
	// Other controllers see a NodeClaim as soon as it is written.
	stamp, release := s.config.Launcher.Hold(names(in.GetClaims()))
	defer release()
	out := &api.LaunchResponse{
		Claims: make([]*api.Result, len(in.GetClaims())), Placements: make([]*api.Result, len(in.GetPlacements())),
	}
	w := &writing{Server: s, in: in, out: out, over: over, stamp: stamp, recorded: make([]*karpv1.NodeClaim, len(in.GetClaims()))}
	w.claims(effects)
	s.takeBack(effects, in, out, w.recorded)
	w.placements(effects)
	s.takeBack(effects, in, out, w.recorded)
	s.hand(ctx, in, w.recorded, release)
	if w.open != nil {
		return nil, status.Error(codes.Unavailable, w.open.Error())
	}
	return out, nil
}

func names(claims []*api.Claim) []string {
	out := make([]string, 0, len(claims))
	for _, c := range claims {
		out = append(out, c.GetName())
	}
	return out
}

// enter refuses a scheduler of another major version, waits for its turn and returns a context for effects while we lead. The caller calls end.
func (s *Server) enter(ctx context.Context, of *api.Version) (effects context.Context, end func(), err error) {
	if err := s.config.Peer.check(ctx, of); err != nil {
		return nil, nil, err
	}
	done, err := s.takeTurn(ctx)
	if err != nil {
		return nil, nil, err
	}
	effects, cancel, err := leading(ctx, s.config.Leader)
	if err != nil {
		done()
		return nil, nil, err
	}
	return effects, func() {
		cancel()
		done()
	}, nil
}

// leading returns a context for effects, or the refusal that the contract requires.
func leading(ctx context.Context, leader Leader) (context.Context, context.CancelFunc, error) {
	effects, cancel, ok := leader.Context(ctx)
	if ok {
		return effects, cancel, nil
	}
	// The scheduler may have won its election a moment ago.
	if err := leader.Refresh(ctx); err != nil {
		return nil, nil, status.Errorf(codes.FailedPrecondition, "the Lease cannot be read: %v", err)
	}
	if effects, cancel, ok = leader.Context(ctx); ok {
		return effects, cancel, nil
	}
	return nil, nil, status.Error(codes.FailedPrecondition, "the Lease names another leader")
}

// hand enqueues the recorded claims for launch, and waits for the cache to show them.
func (s *Server) hand(ctx context.Context, in *api.LaunchRequest, recorded []*karpv1.NodeClaim, release func()) {
	var fresh []*karpv1.NodeClaim
	for _, c := range recorded {
		if c != nil {
			fresh = append(fresh, c)
		}
	}
	klog.FromContext(ctx).V(2).Info("Recorded a batch", "batch", in.GetBatch(), "nodeClaims", len(fresh), "placements", len(in.GetPlacements()))
	s.config.Launcher.Enqueue(fresh...)
	release()
	deadline := time.Now().Add(cacheWait)
	for _, c := range fresh {
		for time.Now().Before(deadline) && ctx.Err() == nil {
			if s.config.Client.Get(ctx, types.NamespacedName{Name: c.Name}, &karpv1.NodeClaim{}) == nil {
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
}

// unwritten reports whether a claim was refused before anything was written. After any other error it may exist.
func unwritten(err error) bool {
	_, refused := errors.AsType[*refusal](err)
	_, invalid := record.AsInvalid(err)
	return refused || invalid
}

func result(name string, err error) *api.Result {
	if err == nil {
		return &api.Result{Name: name, Recorded: true}
	}
	out := &api.Result{Name: name, Reason: "NotRecorded", Message: err.Error()}
	if r, ok := errors.AsType[*refusal](err); ok {
		out.Reason = r.reason
	}
	if invalid, ok := record.AsInvalid(err); ok {
		out.Reason = invalid.Reason
	}
	return out
}

// record writes the NodeClaim of a claim. An existing one of the same name was written by an earlier try.
func (w *writing) record(ctx context.Context, in *api.Claim) (*karpv1.NodeClaim, error) {
	pool := &karpv1.NodePool{}
	if err := w.config.Client.Get(ctx, types.NamespacedName{Name: in.GetNodePool()}, pool); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, &refusal{"NodePoolNotFound", fmt.Sprintf("claim %s: NodePool %s does not exist", in.GetName(), in.GetNodePool())}
		}
		return nil, err
	}
	class := &awsv1.EC2NodeClass{}
	if err := w.config.Client.Get(ctx, types.NamespacedName{Name: className(pool)}, class); err != nil {
		return nil, &refusal{"NodeClassNotFound", fmt.Sprintf("claim %s: NodePool %s: EC2NodeClass %s: %v", in.GetName(), pool.Name, className(pool), err)}
	}
	if ok, why := w.config.Manages(pool); !ok {
		return nil, &refusal{"NotManaged", fmt.Sprintf("claim %s: NodePool %s: %s", in.GetName(), pool.Name, why)}
	}
	why := notReady(pool, w.types.get().of(pool))
	if gate := w.config.Gate(pool); why == "" && gate.Held {
		why = gate.Why
	}
	if why != "" {
		return nil, &refusal{"NodePoolNotReady", fmt.Sprintf("claim %s: NodePool %s: %s", in.GetName(), pool.Name, why)}
	}
	claim, err := record.NewNodeClaim(in, pool, class)
	if err != nil {
		return nil, err
	}
	w.config.Own(claim)
	if in.GetGroup() == "" { // A group's claims may be taken back.
		w.stamp(claim)
	}
	err = definite(ctx, func() error { return w.config.Client.Create(ctx, claim) })
	if apierrors.IsAlreadyExists(err) {
		return w.stored(ctx, in, claim.Annotations[catalog.LaunchAnnotation], err)
	}
	if err != nil {
		return nil, fmt.Errorf("creating NodeClaim %s: %w", claim.Name, err)
	}
	klog.FromContext(ctx).Info("created nodeclaim", "nodeClaim", klog.KObj(claim), "nodePool", pool.Name,
		"instanceTypes", len(in.GetInstanceTypes()), "pods", len(in.GetPods()), "expected", claim.Annotations[catalog.ExpectedAnnotation])
	return claim, nil
}

// stored returns the existing NodeClaim of that name if this request has written it, without an answer: it is to be launched with the others. One
// without its launch ID is left to whatever wrote it.
func (w *writing) stored(ctx context.Context, claim *api.Claim, id string, exists error) (*karpv1.NodeClaim, error) {
	have, err := w.surely(ctx, claim, exists)
	if err != nil || id == "" || have.Annotations[catalog.LaunchAnnotation] != id {
		return nil, err
	}
	return have, nil
}

// recordedBefore returns an error unless the existing NodeClaim of that name can be what an earlier try has written.
func (s *Server) recordedBefore(ctx context.Context, claim *api.Claim) error {
	have := &karpv1.NodeClaim{}
	err := s.config.Client.Get(ctx, types.NamespacedName{Name: claim.GetName()}, have)
	switch {
	case apierrors.IsNotFound(err):
		return nil // The cache has not seen it yet: it is new.
	case err != nil:
		return err
	}
	return sameClaim(have, claim)
}

// place promises room on an in-flight node to more pods, before the answer.
func (s *Server) place(ctx context.Context, in *api.InFlightPlacement) error {
	err := s.promise(ctx, in.GetNodeClaim(), func(claim *karpv1.NodeClaim) (string, error) {
		if !claim.DeletionTimestamp.IsZero() {
			return "", &refusal{"NodeClaimLeaving", fmt.Sprintf("NodeClaim %s is being deleted", claim.Name)}
		}
		if claim.StatusConditions().Get(karpv1.ConditionTypeInitialized).IsTrue() {
			return "", &refusal{"NodeInitialized", fmt.Sprintf("the node of NodeClaim %s is initialized: an ordinary node by now", claim.Name)}
		}
		if record.StandbyOf(claim).State == record.StandbyStopping && len(in.GetPods()) > 0 {
			return "", &refusal{"InstanceStopping", fmt.Sprintf("the instance of NodeClaim %s is being stopped", claim.Name)}
		}
		return record.AddPods(claim, in.GetPods(), func(uid string) bool {
			pod, err := s.config.Pods.Of(ctx, uid)
			return err == nil && pod == nil
		})
	})
	if apierrors.IsNotFound(err) {
		return &refusal{"NodeClaimNotFound", fmt.Sprintf("NodeClaim %s does not exist", in.GetNodeClaim())}
	}
	return err
}

func className(pool *karpv1.NodePool) string {
	if pool.Spec.Template.Spec.NodeClassRef == nil {
		return ""
	}
	return pool.Spec.Template.Spec.NodeClassRef.Name
}
