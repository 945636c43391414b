package provision

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/plugin/ondemand"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/provision/clusterview"
	"github.com/slipway-k8s/slipway/plugin/provision/devices"
	"github.com/slipway-k8s/slipway/plugin/verify"
)

// Settings are the options of all plans.
type Settings struct {
	// PreferenceShare is the additional cost that preferences may cause, as a share of what the pods that have them cost without
	// them: 0.1 for a tenth.
	PreferenceShare float64
	// MinValuesBestEffort keeps as many of a NodePool's minValues as possible, instead of launching nothing when not all can be
	// kept.
	MinValuesBestEffort bool
	// Plan are the planner's own options.
	Plan plan.Options
}

// Config is what a Provisioner needs.
type Config struct {
	// Verifier asks the scheduler's filters. The Provisioner is its only caller. Required.
	Verifier *verify.Verifier
	// Settings of all plans.
	Settings Settings
	// Devices plans for pods with ResourceClaims; nil if none is planned for.
	Devices *devices.Planner
	// Make makes a plan; nil for plan.Maker's Make. Tests replace it.
	Make func(context.Context, plan.Input) plan.Plan
}

// Provisioner makes verified plans. It keeps the catalog that was compiled for the last ones.
type Provisioner struct {
	verifier *verify.Verifier
	settings Settings
	devices  *devices.Planner
	make     func(context.Context, plan.Input) plan.Plan
}

// New returns a Provisioner.
func New(cfg Config) (*Provisioner, error) {
	if cfg.Verifier == nil {
		return nil, errors.New("provision: Verifier is required")
	}
	p := &Provisioner{verifier: cfg.Verifier, settings: cfg.Settings, devices: cfg.Devices, make: cfg.Make}
	if p.make == nil {
		p.make = new(plan.Maker).Make
	}
	return p, nil
}

// Request asks for nodes for some pods in a cluster.
type Request struct {
	// Now is when the plan is made; zero for a plan that takes each spot offering as settled.
	Now time.Time
	// Cluster has the snapshot and the catalog.
	Cluster clusterview.Source
	// Classes are the pods, in the order of each class's first pod in the queue.
	Classes []plan.Class
	// Namespaces are the labels of each namespace by its name; nil if they are not known.
	Namespaces map[string]map[string]string
	// NewNames returns a function that names the claims of one plan; nil numbers all claims. It is called for each plan. Only the
	// names in the last plan are used.
	NewNames func() func(nodePool string) string
	// Replaces are the names of the nodes that the pods run on and that terminate, sorted; empty for pending pods.
	Replaces []string
}

// Result is a plan that passed the filters, with how it was made.
type Result struct {
	// Plan to launch.
	Plan plan.Plan
	// Input of the first round.
	Input plan.Input
	// Rounds is how often the pods were planned.
	Rounds int
	// Rejected lists what the filters rejected before, oldest first.
	Rejected []plan.Rejection
	// PlanTime and VerifyTime are the durations of planning and of the filters, the sum of all rounds.
	PlanTime, VerifyTime time.Duration
}

// Provision plans the pods of the request until the plan passes the filters.
func (p *Provisioner) Provision(ctx context.Context, req Request) (Result, error) {
	classes, problems, err := keepShares(klog.FromContext(ctx), req.Cluster, req.Classes)
	if err != nil {
		return Result{}, err
	}
	req.Classes = classes
	var prepared *devices.Prepared
	if p.devices != nil {
		if prepared, err = p.devices.Prepare(ctx, req.Classes, req.Cluster.Catalog); err != nil {
			return Result{}, err
		}
	}
	if prepared != nil {
		req.Classes, req.Cluster.Catalog = prepared.Classes, prepared.Catalog
	}
	view, err := clusterview.New(klog.FromContext(ctx), req.Cluster)
	if err != nil {
		return Result{}, err
	}
	in := p.input(view, req)
	if prepared != nil {
		in.Rejected = prepared.Rejected
	}
	s := newRounds(p, view, req, in)
	if err := s.run(ctx); err != nil {
		return Result{}, err
	}
	s.Input = in
	s.Plan.Problems = slices.Concat(problems, s.Plan.Problems)
	sayShares(&s.Plan, in.Classes)
	if prepared != nil {
		prepared.Finish(&s.Plan, in.Catalog.NodePools)
	}
	return s.Result, nil
}

// input assembles the planner's input.
func (p *Provisioner) input(view *clusterview.View, req Request) plan.Input {
	return plan.Input{
		Now: req.Now, Catalog: req.Cluster.Catalog, Classes: slices.Clone(req.Classes), Nodes: view.PlanNodes(),
		DaemonSets: req.Cluster.DaemonSets, NewName: req.newNames(), Replaces: req.Replaces, Namespaces: req.Namespaces,
		PreferenceShare: p.settings.PreferenceShare, MinValuesBestEffort: p.settings.MinValuesBestEffort, Options: p.settings.Plan,
	}
}

func (r *Request) newNames() func(string) string {
	if r.NewNames == nil {
		return nil
	}
	return r.NewNames()
}

// codeOnDemandShare is the code of the reason that names the minimum on-demand share of a pod that got no node.
const codeOnDemandShare = "OnDemandShare"

// keepShares divides the classes by the minimum on-demand shares. Classes without any are not changed.
func keepShares(logger klog.Logger, cluster clusterview.Source, classes []plan.Class) ([]plan.Class, []plan.Problem, error) {
	src := ondemand.Source{Shares: ondemand.SharesOf(cluster.Catalog.NodePools), Classes: classes, Pod: cluster.Pod}
	if !src.Governed() {
		return classes, nil, nil
	}
	view, err := clusterview.New(logger, cluster)
	if err != nil {
		return nil, nil, err
	}
	src.Nodes = view.PlanNodes()
	kept, problems := ondemand.Split(src)
	return kept, problems, nil
}

// sayShares adds to the reasons of pods without a node that a share keeps them off spot nodes.
func sayShares(p *plan.Plan, classes []plan.Class) {
	for i := range p.Unplaced {
		u := &p.Unplaced[i]
		if why := classes[u.Class].OffSpot; why != "" {
			u.Reasons = append(slices.Clone(u.Reasons), plan.Reason{Code: codeOnDemandShare, Message: why})
		}
	}
}
