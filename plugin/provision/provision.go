package provision

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/ondemand"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/provision/clusterview"
	"github.com/slipway-k8s/slipway/plugin/provision/devices"
	"github.com/slipway-k8s/slipway/plugin/verify"
)

const (
	// mostExpected is how many pods are expected beside those of one request.
	mostExpected = 200
	// expectedTimes bounds the expected pods of a Deployment by those of it that are planned.
	expectedTimes = 4
	// mostBeside is up to how many pods of a request others are expected beside: those of more are planned alone.
	mostBeside = 1000
	// expectingPart is the part of the time in which a plan with expected pods is made.
	expectingPart = 0.5
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
	// Finished are how many pods of a gang have had their node and are not replaced, by the gang's name; nil for none.
	Finished map[string]int
	// NewNames returns a function that names the claims of one plan; nil numbers all claims. It is called for each plan. Only the
	// names in the last plan are used.
	NewNames func() func(nodePool string) string
	// Replaces are the names of the nodes that the pods run on and that terminate, sorted; empty for pending pods.
	Replaces []string
	// Expected returns the Deployment of a pod, as namespace/name, and how many pods it is expected to add; nil if no pods are expected.
	Expected func(catalog.PodRef) (workload string, pods int)
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
	// Postponed means that the plan launches nodes, and that pods with other ResourceClaims have their turn in the next one.
	Postponed bool
	// PlanTime and VerifyTime are the durations of planning and of the filters, the sum of all rounds.
	PlanTime, VerifyTime time.Duration
}

// Provision plans the pods of the request until the plan passes the filters. Where a Deployment of theirs is expected to add pods, nodes are planned that
// have room for some of these.
func (p *Provisioner) Provision(ctx context.Context, req Request) (Result, error) {
	var err error
	if req.Cluster, err = req.Cluster.LimitsOfMove(); err != nil {
		return Result{}, err
	}
	req.Cluster.Now = req.Now
	if out, ok, err := p.expecting(ctx, req); ok || err != nil {
		return out, err
	}
	return p.provision(ctx, req)
}

// provision plans the pods of the request alone.
func (p *Provisioner) provision(ctx context.Context, req Request) (Result, error) {
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
	req.Classes = view.WithUsers(req.Classes)
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
		// Where nothing was launched, those behind may still find something else: until each has had its turn.
		s.Postponed = prepared.Postponed && (prepared.Untried || len(s.Plan.Claims) > 0)
	}
	return s.Result, nil
}

// input assembles the planner's input.
func (p *Provisioner) input(view *clusterview.View, req Request) plan.Input {
	return plan.Input{
		Now: req.Now, Catalog: req.Cluster.Catalog, Classes: slices.Clone(req.Classes), Nodes: view.PlanNodes(),
		DaemonSets: req.Cluster.DaemonSets, NewName: req.newNames(), Replaces: req.Replaces, Namespaces: req.Namespaces, Finished: req.Finished,
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

// expecting plans the pods of the request together with those that are expected, and takes these out of the plan. It reports false if nothing is expected,
// or if the plan does not serve all pods that are there: then they are planned alone.
func (p *Provisioner) expecting(ctx context.Context, req Request) (Result, bool, error) {
	classes, workloads := expected(&req)
	if len(workloads) == 0 {
		return Result{}, false, nil
	}
	within, cancel := partOf(ctx, expectingPart)
	defer cancel()
	both := req
	both.Classes = classes
	out, err := p.provision(within, both)
	if err != nil || out.Plan.CutShort {
		return Result{}, false, err
	}
	there := make([]int, len(req.Classes))
	for i := range req.Classes {
		there[i] = len(req.Classes[i].Pods)
	}
	ok := false
	if out.Plan, ok = plan.WithoutExpected(out.Plan, req.Classes, there, workloads); !ok {
		return Result{}, false, nil
	}
	view, err := clusterview.New(klog.FromContext(ctx), req.Cluster)
	if err != nil {
		return Result{}, false, err
	}
	start := time.Now()
	found, err := p.verifier.Check(within, view, req.Classes, out.Plan, req.Cluster.Catalog)
	out.VerifyTime += time.Since(start)
	if err != nil || over(within) || len(found.Verdicts)+len(found.Bad) > 0 || found.Unchecked != nil {
		return Result{}, false, err
	}
	out.Input.Classes = req.Classes
	return out, true, nil
}

// expected returns the classes with the pods that are expected behind those that are there, and the Deployments by class; none if no pod is expected.
func expected(req *Request) ([]plan.Class, map[int]string) {
	if req.Expected == nil {
		return nil, nil
	}
	shares, total := ondemand.SharesOf(req.Cluster.Catalog.NodePools), 0
	there, class, expects := map[string]int{}, map[string]int{}, map[string]int{}
	var order []string
	for i := range req.Classes {
		c := &req.Classes[i]
		if total += len(c.Pods); total > mostBeside || shares.Governs(c.Pod) || len(c.Pod.Spec.ResourceClaims) > 0 || plan.GangOf(c.Pod).Name != "" {
			return nil, nil // Nothing more is planned beside pods whose number matters, and beside very many.
		}
		if !Plain(c) {
			continue
		}
		for _, ref := range c.Pods {
			w, n := req.Expected(ref)
			if w == "" || n <= 0 {
				continue
			}
			if there[w]++; there[w] == 1 {
				class[w], expects[w] = i, n
				order = append(order, w)
			}
		}
	}
	classes, workloads, left := slices.Clone(req.Classes), map[int]string{}, mostExpected
	for _, w := range order {
		i := class[w]
		n := min(expects[w], expectedTimes*there[w], left)
		if n <= 0 || workloads[i] != "" {
			continue
		}
		left -= n
		workloads[i] = w
		classes[i].Pods = slices.Concat(classes[i].Pods, plan.ExpectedPods(w, n))
	}
	return classes, workloads
}

// Plain reports whether pods of the class may be exchanged and left out without a thought of others: none has volumes of its own, or has to be
// near to other pods, or away from them.
func Plain(c *plan.Class) bool {
	spec := &c.Pod.Spec
	if len(c.Volumes) > 0 || c.Claims != nil || c.OffSpot != "" {
		return false
	}
	if a := spec.Affinity; a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil) {
		return false
	}
	return !slices.ContainsFunc(spec.TopologySpreadConstraints, func(t corev1.TopologySpreadConstraint) bool { return t.WhenUnsatisfiable == corev1.DoNotSchedule }) &&
		!slices.ContainsFunc(c.DefaultSpread, func(t corev1.TopologySpreadConstraint) bool { return t.WhenUnsatisfiable == corev1.DoNotSchedule })
}
