// Package pause pauses and resumes the voluntary disruption of all nodes for the page of `slipway ui`: it sets the annotation
// slipway.dev/disruption-paused of NodePools with the credentials of the user's kubeconfig. The API server decides whether they may, and is asked
// before the page offers it.
//
// A Server is safe for concurrent use and starts no goroutine.
package pause

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpapis "sigs.k8s.io/karpenter/pkg/apis"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/internal/provider"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/ui/reply"
)

const (
	// Path is where it is served.
	Path = "/local/v1/disruption"
	// within bounds a request, and mostBody the size of one, in bytes.
	within   = 30 * time.Second
	mostBody = 1 << 10
)

// Server answers for Path.
type Server struct{ client client.Client }

// New returns a Server that uses the user's client.
func New(c client.Client) (*Server, error) {
	if c == nil {
		return nil, errors.New("pause: a client is required")
	}
	return &Server{c}, nil
}

// NodePool is one whose nodes are disrupted, or not.
type NodePool struct {
	// Name of the NodePool.
	Name string `json:"name"`
	// Paused means that its nodes are not disrupted.
	Paused bool `json:"paused"`
}

// Disruption is the answer of Path.
type Disruption struct {
	// NodePools of the cluster, by name.
	NodePools []NodePool `json:"nodePools"`
	// MayChange means that the user may patch NodePools.
	MayChange bool `json:"mayChange"`
}

// Question is what Path is asked to do.
type Question struct {
	// Paused is what all NodePools become.
	Paused *bool `json:"paused"`
}

// Register adds the path to a mux.
func (s *Server) Register(mux *http.ServeMux) {
	mux.Handle("GET "+Path, answering(func(ctx context.Context, _ *http.Request) (Disruption, error) { return s.standing(ctx) }))
	mux.Handle("POST "+Path, answering(s.change))
}

func answering(answer func(context.Context, *http.Request) (Disruption, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, mostBody)
		ctx, cancel := context.WithTimeout(r.Context(), within)
		defer cancel()
		out, err := answer(ctx, r)
		if err != nil {
			reply.Refuse(w, err)
			return
		}
		reply.JSON(w, r, out)
	})
}

// standing returns which NodePools are paused, and whether the user may change that.
func (s *Server) standing(ctx context.Context) (Disruption, error) {
	pools, err := s.pools(ctx)
	if err != nil {
		return Disruption{}, err
	}
	out := Disruption{NodePools: []NodePool{}}
	for _, pool := range pools {
		out.NodePools = append(out.NodePools, NodePool{Name: pool.Name, Paused: disruption.Paused(pool)})
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "patch", Group: karpapis.Group, Resource: "nodepools"},
	}}
	if err := s.client.Create(ctx, review); err != nil {
		return Disruption{}, fmt.Errorf("asking whether you may patch NodePools: %w", err)
	}
	out.MayChange = review.Status.Allowed
	return out, nil
}

// pools returns the NodePools but those of other providers.
func (s *Server) pools(ctx context.Context) ([]*karpv1.NodePool, error) {
	list := &karpv1.NodePoolList{}
	if err := s.client.List(ctx, list); err != nil {
		return nil, err
	}
	var out []*karpv1.NodePool
	for i := range list.Items {
		if pool := &list.Items[i]; !provider.OthersPool(pool) {
			out = append(out, pool)
		}
	}
	return out, nil
}

// change pauses or resumes all NodePools that are not as asked, and returns how they are then. What fails is named; the others are changed.
func (s *Server) change(ctx context.Context, r *http.Request) (Disruption, error) {
	var q Question
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&q); err != nil || q.Paused == nil {
		return Disruption{}, apierrors.NewBadRequest("reading the question: {\"paused\": true} or {\"paused\": false} is expected")
	}
	pools, err := s.pools(ctx)
	if err != nil {
		return Disruption{}, err
	}
	value := any(nil) // The annotation is removed.
	if *q.Paused {
		value = "true"
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{catalog.PausedAnnotation: value}}})
	if err != nil {
		return Disruption{}, err
	}
	var failed []error
	for _, pool := range pools {
		if disruption.Paused(pool) == *q.Paused {
			continue
		}
		if err := s.client.Patch(ctx, pool, client.RawPatch(types.MergePatchType, patch)); client.IgnoreNotFound(err) != nil {
			failed = append(failed, fmt.Errorf("patching NodePool %s: %w", pool.Name, err))
		}
	}
	if len(failed) > 0 {
		return Disruption{}, errors.Join(failed...)
	}
	return s.standing(ctx)
}
