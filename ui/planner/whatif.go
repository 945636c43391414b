package planner

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/slipway-k8s/slipway/plugin/simulate"
	"github.com/slipway-k8s/slipway/plugin/simulate/edits"
	"github.com/slipway-k8s/slipway/plugin/simulate/input"
)

const (
	// mostRemoved bounds the nodes of a question, mostNodes the nodes of an answer, mostClasses its classes of pods without a node, and mostPods the
	// pods that are named of each.
	mostRemoved, mostNodes, mostClasses, mostPods = 200, 200, 100, 20
)

// Question is what /local/v1/whatif is asked.
type Question struct {
	// Objects are YAML documents. Each takes the place of the cluster's object of its kind and name, or is added.
	Objects string `json:"objects"`
	// Remove are the names of nodes, at most 200. Their pods are planned.
	Remove []string `json:"remove"`
}

// WhatIf is the answer of /local/v1/whatif.
type WhatIf struct {
	// Before is what slipway would do now, and After with the question's objects.
	Before Side `json:"before"`
	// After is described at Before.
	After Side `json:"after"`
	// Removed are the nodes that were removed.
	Removed []string `json:"removed"`
	// Problems are those of objects that were left out, or read differently from what they say.
	Problems []string `json:"problems"`
	// Notes are sentences about what was assumed.
	Notes []string `json:"notes"`
}

// Side is one of the two plans.
type Side struct {
	// Price of all nodes of NodePools, those to launch included, in USD per hour.
	Price float64 `json:"usdPerHour"`
	// Unpriced is how many of them have no known price, such as those in capacity reservations: they do not count in Price.
	Unpriced int `json:"unpriced,omitempty"`
	// Nodes is their number.
	Nodes int `json:"nodes"`
	// Launched are the nodes to launch, at most 200.
	Launched []simulate.Node `json:"launched"`
	// LaunchedCount is their number.
	LaunchedCount int `json:"launchedCount"`
	// Existing is how many pods would be placed on nodes that exist or boot.
	Existing int `json:"placedOnExisting"`
	// Unschedulable are the pods without a place by reason, the largest first, at most 100.
	Unschedulable []Class `json:"unschedulable"`
	// UnschedulableCount is the number of their pods.
	UnschedulableCount int `json:"unschedulableCount"`
}

// Class is pods without a place for the same reasons.
type Class struct {
	// Pods as namespace/name, at most 20.
	Pods []string `json:"pods"`
	// Count is the number of pods.
	Count int `json:"count"`
	// Reasons by NodePool.
	Reasons []simulate.Reason `json:"reasons"`
}

func (s *Server) whatIf(ctx context.Context, r *http.Request) (any, error) {
	var q Question
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&q); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("reading the question: objects and remove are expected, %d bytes at most: %v", mostBody, err))
	}
	if len(q.Remove) > mostRemoved {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("remove: %d nodes, %d at most are expected", len(q.Remove), mostRemoved))
	}
	slices.Sort(q.Remove)
	q.Remove = slices.Compact(q.Remove)
	in, err := s.inputs(ctx)
	if err != nil {
		return nil, err
	}
	now, err := in.world(s.config.Options, "")
	if err != nil {
		return nil, err
	}
	before, err := simulate.Run(ctx, now.Objects, now.Market, now.Options)
	if err != nil {
		return nil, err
	}
	then, err := in.world(s.config.Options, q.Objects)
	if err != nil {
		return nil, err
	}
	after, err := answer(ctx, then, q)
	if err != nil {
		return nil, err
	}
	out := WhatIf{Before: sideOf(ctx, before), After: sideOf(ctx, after), Removed: append([]string{}, q.Remove...), Problems: []string{}, Notes: notes(after)}
	known := map[input.Problem]bool{}
	for _, p := range before.Problems {
		known[p] = true
	}
	for _, p := range after.Problems {
		if !known[p] {
			out.Problems = append(out.Problems, p.String())
		}
	}
	return out, nil
}

// answer plans the world with the nodes removed.
func answer(ctx context.Context, w edits.World, q Question) (*simulate.Outcome, error) {
	objects, err := simulate.Without(w.Objects, q.Remove)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return simulate.Run(ctx, objects, w.Market, w.Options)
}

func sideOf(ctx context.Context, o *simulate.Outcome) Side {
	result := o.Result(ctx)
	out := Side{Launched: result.Nodes[:min(len(result.Nodes), mostNodes)], LaunchedCount: len(result.Nodes), Unschedulable: []Class{}, UnschedulableCount: len(result.Unschedulable)}
	_, nodes := o.Nodes(ctx)
	out.Price, out.Unpriced = priceOf(nodes)
	out.Nodes = len(nodes)
	for _, e := range result.Existing {
		out.Existing += len(e.Pods)
	}
	classes := simulate.ReasonClasses(result.Unschedulable)
	slices.SortStableFunc(classes, func(a, b simulate.ReasonClass) int { return len(b.Pods) - len(a.Pods) })
	for _, c := range classes[:min(len(classes), mostClasses)] {
		out.Unschedulable = append(out.Unschedulable, Class{Pods: c.Pods[:min(len(c.Pods), mostPods)], Count: len(c.Pods), Reasons: c.Reasons})
	}
	return out
}
