package aws

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slipway-k8s/slipway/e2e/aws/instancetypes"
	"github.com/slipway-k8s/slipway/e2e/aws/placementgroup"
	"github.com/slipway-k8s/slipway/e2e/aws/wire"
)

// Server is an AWS. Its methods may be called concurrently, also before Run, which starts simulated time.
type Server struct {
	// Shifts are the zonal shifts of the cluster.
	Shifts *ZonalShifts
	// Commitments are what the account has committed to pay for.
	Commitments *Commitments
	// Scores are the spot placement scores.
	Scores *PlacementScores
	// Denied are the instance types that a policy denies.
	Denied Denied
	// Meter keeps the account's bill.
	Meter     *Meter
	cfg       Config
	listener  net.Listener
	started   time.Time
	epoch     time.Time // when simulated time began
	table     *instancetypes.Table
	resources Resources
	images    *images
	addresses *addresses
	instances *instances
	templates *templates
	tokens    *tokens
	iam       *iamStore
	queues    *queues
	cluster   *clusterStore
	faults    *faults
	drift     drift
	agenda    *agenda
	calls     *callLog
	contract  *contract
	policies  *policies
	limits    *limiter
	retagged  *retagged
	// reservations are those of capacity.
	reservations *reservations
	placements   *placementgroup.Groups
	dice         *dice
	services     map[string]map[string]action
}

// request is a call and its record.
type request struct {
	wire.Request
	// note changes the record of the call.
	note func(func(*Call))
}

// action serves one kind of request.
type action func(ctx context.Context, r request) (any, error)

// New returns a server that listens. It serves once Run is called. If the address is in use, the error names it.
func New(cfg Config) (*Server, error) {
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	table, err := instancetypes.New(cfg.Seed)
	if err != nil {
		return nil, fmt.Errorf("aws: %w", err)
	}
	amis, err := newImages(cfg.KubernetesVersion)
	if err != nil {
		return nil, err
	}
	resources := newResources(&cfg)
	free, err := newAddresses(resources.Subnets)
	if err != nil {
		return nil, fmt.Errorf("aws: %w", err)
	}
	random := newDice(cfg.Seed)
	s := &Server{
		cfg: cfg, started: time.Now(), epoch: time.Now().Add(-cfg.Clock.Scale(marketAge)), table: table, resources: resources, images: amis, addresses: free,
		instances: newInstances(), templates: newTemplates(random), tokens: newTokens(),
		iam: newIAMStore(&cfg), queues: newQueues(random), cluster: &clusterStore{}, faults: &faults{}, agenda: newAgenda(),
		calls: &callLog{}, contract: newContract(), policies: newPolicies(cfg.Policies), dice: random,
		limits: newLimiter(cfg.LimitedKeys, cfg.Clock.Speed()), reservations: newReservations(), placements: placementgroup.New(), retagged: &retagged{},
	}
	s.Shifts = &ZonalShifts{arn: s.arn("eks", "cluster/"+cfg.ClusterName)}
	for _, n := range resources.Subnets {
		s.Shifts.zones = append(s.Shifts.zones, n.ZoneID)
	}
	s.Commitments = &Commitments{region: cfg.Region, types: s.offeredTypes}
	s.Scores = &PlacementScores{region: cfg.Region, zones: map[string]string{}, known: func(name string) bool {
		_, ok := table.Get(name)
		return ok
	}}
	for _, n := range resources.Subnets {
		s.Scores.zones[n.ZoneID] = n.Zone
	}
	s.Meter = &Meter{
		started: s.started, table: table, drift: &s.drift, commitments: s.Commitments, instances: s.instances.histories,
		simulated: s.simulated, fromSimulated: s.fromSimulated,
	}
	if cfg.Bare {
		s.images.forgetParameters()
	} else {
		s.queues.create(cfg.QueueName, nil)
		s.cluster.create(cfg.ClusterName)
	}
	s.services = map[string]map[string]action{
		wire.EC2: s.ec2Actions(), wire.IAM: s.iamActions(), wire.STS: s.stsActions(), wire.SQS: s.sqsActions(),
		wire.SSM: s.ssmActions(), wire.Pricing: s.pricingActions(),
	}
	if s.listener, err = net.Listen("tcp", cfg.Listen); err != nil {
		return nil, fmt.Errorf("listening on %s: %w", cfg.Listen, err)
	}
	return s, nil
}

// URL returns the server's URL, without a trailing slash.
func (s *Server) URL() string { return "http://" + s.listener.Addr().String() }

// SetCluster sets the API server's URL and CA bundle, in PEM, that EKS returns.
func (s *Server) SetCluster(endpoint string, caPEM []byte) {
	s.cluster.set(endpoint, base64.StdEncoding.EncodeToString(caPEM))
}

// Run serves until ctx ends. A Server runs once.
func (s *Server) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server := &http.Server{
		Handler:           http.HandlerFunc(s.serve),
		ReadHeaderTimeout: 10 * time.Second,
		// Long polls end with Run.
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { s.agenda.run(ctx) })
	wg.Go(func() {
		<-ctx.Done()
		// Pending responses are no longer needed.
		_ = server.Close()
	})
	s.interruptAtRandom()
	defer cancel()
	if err := server.Serve(s.listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving AWS on %s: %w", s.URL(), err)
	}
	return nil
}

// Close closes the listener of a server that does not run.
func (s *Server) Close() error { return s.listener.Close() }

// serve serves one HTTP request in these steps.
func (s *Server) serve(w http.ResponseWriter, in *http.Request) {
	// 0. Serve the control API.
	if strings.HasPrefix(in.URL.Path, controlPath) {
		s.serveControl(w, in)
		return
	}
	arrived := time.Now()
	// 1. Read the request, in its protocol.
	r, err := wire.ReadRequest(in, s.dice.uuid())
	call := s.calls.add(Call{At: arrived, Service: r.Service, Action: r.Action, AccessKey: r.AccessKey})
	note := func(change func(*Call)) { s.calls.update(call, change) }
	// 2. Fail while the services are down.
	if down, hangUp := s.faults.isDown(); down {
		note(func(c *Call) { c.Error = "ServiceUnavailable" })
		if hangUp {
			panic(http.ErrAbortHandler)
		}
		wire.WriteError(w, r, wire.Down(r.Service))
		return
	}
	var result any
	if err == nil {
		result, err = s.answer(in.Context(), request{r, note})
	}
	// 3. Respond after AnswerAfter at the earliest.
	time.Sleep(time.Until(arrived.Add(s.cfg.AnswerAfter)))
	if err != nil {
		note(func(c *Call) { c.Error = errorCode(err) })
		s.cfg.Logger.V(4).Info("Refused", "service", r.Service, "action", r.Action, "err", err.Error())
		wire.WriteError(w, r, err)
		return
	}
	wire.WriteResult(w, r, result)
}

// answer does what all services do before and after the action.
func (s *Server) answer(ctx context.Context, r request) (any, error) {
	if r.Service == "" {
		return nil, wire.Errorf("UnknownService", "The request is for none of the services here").WithStatus(http.StatusNotFound)
	}
	if !r.Signed {
		return nil, wire.Unsigned(r.Protocol)
	}
	if slices.Contains(s.cfg.Lacks, r.Service) {
		return nil, wire.Errorf("InternalFailure", "The API of service %s is not implemented", r.Service).WithStatus(http.StatusNotImplemented)
	}
	if s.faults.isThrottled() {
		return nil, wire.Throttled(r.Service)
	}
	if err := s.limits.check(r, time.Now()); err != nil {
		return nil, err
	}
	if err := s.contract.check(r); err != nil {
		return nil, err
	}
	if err := s.authorize(r); err != nil {
		return nil, err
	}
	if r.Service == wire.EKS {
		return s.eks(r)
	}
	if r.Service == wire.ZonalShift {
		return s.Shifts.serve(r.Request)
	}
	if r.Service == wire.SavingsPlans {
		return s.Commitments.serve(r.Request)
	}
	do, ok := s.services[r.Service][r.Action]
	if !ok {
		return nil, wire.UnknownAction(r.Request)
	}
	result, err := do(ctx, r)
	if err == nil && r.Service == wire.EC2 && strings.HasPrefix(r.Action, "Describe") {
		err = dryRun(r.Params)
	}
	return result, err
}

// dryRun returns the error that ends a dry run after its checks.
func dryRun(p wire.Params) error {
	if !p.Bool("DryRun") {
		return nil
	}
	return wire.Errorf("DryRunOperation", "Request would have succeeded, but DryRun flag is set.").
		WithStatus(http.StatusPreconditionFailed)
}

func errorCode(err error) string {
	if known, ok := errors.AsType[*wire.Error](err); ok {
		return known.Code
	}
	return "InternalError"
}

// marketAge is the age of the spot market at the start of the server, so that prices do not change at that moment.
const marketAge = 10 * time.Minute

// simulated returns the simulated time at a real time. fromSimulated is its inverse.
func (s *Server) simulated(at time.Time) time.Duration { return s.cfg.Clock.Elapsed(at.Sub(s.epoch)) }

func (s *Server) fromSimulated(at time.Duration) time.Time { return s.epoch.Add(s.cfg.Clock.Scale(at)) }
