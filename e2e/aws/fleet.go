package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/slipway-k8s/slipway/e2e/aws/instancetypes"
	"github.com/slipway-k8s/slipway/e2e/aws/wire"
)

// override is a candidate with what launching from it and the response need.
type override struct {
	params   wire.Params
	template template
	config   wire.Params // the launch template's specification in the request
	subnet   Subnet
	info     instancetypes.Type
	launch   launch
	maxPrice float64
}

// fleet is a CreateFleet call that was read and validated.
type fleet struct {
	capacityType, strategy string
	// market is the market type of the reserved capacity that the fleet buys; empty for other capacity.
	market           string
	target, minimum  int
	overrides        []override
	candidates       []candidate
	tags, volumeTags map[string]string
	context          string
	// denied returns the authorization error of launching from an override; nil allows everything.
	denied func(o override, capacityType string) *wire.Error
}

func errNoAddresses(subnet string) *wire.Error {
	return wire.Errorf(codeNoAddresses, "There are not enough free addresses in subnet '%s' to satisfy the requested number of instances.", subnet)
}

func (s *Server) createFleet(ctx context.Context, r request) (any, error) {
	token := r.Params.Get("ClientToken")
	asked, err := r.Params.Int("TargetCapacitySpecification.TotalTargetCapacity", 0)
	if err != nil {
		return nil, err
	}
	r.note(func(c *Call) { c.ClientToken, c.Asked = token, asked })
	if err := s.cfg.Clock.Sleep(ctx, s.cfg.FleetTakes); err != nil {
		return nil, err
	}
	result, err := s.tokens.once(token, r.Params.String(), func() (any, error) { return s.launchFleet(r) })
	if err != nil {
		return nil, err
	}
	return result, nil
}

// launchFleet serves the call in these steps.
func (s *Server) launchFleet(r request) (any, error) {
	// 1. Read and validate the request.
	f, err := s.readFleet(r)
	if err != nil {
		return nil, err
	}
	if err := dryRun(r.Params); err != nil {
		return nil, err
	}
	out := fleetXML{ID: "fleet-" + s.dice.uuid()}
	if i, ok := f.deniedFirst(); ok {
		out.Errors.Items = []fleetErrorXML{f.refusal(i)}
		return out, nil
	}
	// 2. Choose pools among those with capacity.
	quota := math.MaxInt
	if f.market == "" {
		quota = s.quotaLeft(f.capacityType)
	}
	picks, failed := allocate(f.candidates, f.target, quota, f.strategy)
	total := 0
	for _, p := range picks {
		total += p.count
	}
	if total < f.minimum {
		picks = nil
	}
	// 3. Launch the instances.
	launched := 0
	for _, p := range picks {
		o := f.overrides[p.candidate]
		ids, err := s.launchPick(f, o, p.count, out.ID, r.Params.Get("ClientToken"))
		if err != nil {
			failed = append(failed, p.candidate)
			f.candidates[p.candidate].code, f.candidates[p.candidate].message = codeNoAddresses, err.Error()
			if refused, ok := errors.AsType[*wire.Error](err); ok {
				f.candidates[p.candidate].code, f.candidates[p.candidate].message = refused.Code, refused.Message
			}
		}
		if len(ids) > 0 {
			out.Instances.Items = append(out.Instances.Items, fleetInstanceXML{o.shape(), cmp.Or(f.market, f.capacityType), wire.NewSet(ids...), o.info.Name})
			launched += len(ids)
		}
	}
	r.note(func(c *Call) { c.Launched = launched })
	// 4. List the errors.
	for _, i := range failed {
		if c := &f.candidates[i]; c.code == codeQuota && f.capacityType == Spot {
			c.code, c.message = codeSpotQuota, "Max spot instance count exceeded"
		}
		out.Errors.Items = append(out.Errors.Items, f.refusal(i))
	}
	return out, nil
}

// refusal returns the error of a candidate.
func (f *fleet) refusal(i int) fleetErrorXML {
	c := f.candidates[i]
	return fleetErrorXML{f.overrides[i].shape(), cmp.Or(f.market, f.capacityType), c.code, c.message}
}

// deniedFirst returns the candidate that a service control policy denies, if the fleet comes to it first.
func (f *fleet) deniedFirst() (int, bool) {
	for _, i := range rank(f.candidates, f.strategy) {
		if c := f.candidates[i]; c.denied || c.code == "" {
			return i, c.denied
		}
	}
	return 0, false
}

func (s *Server) launchPick(f fleet, o override, count int, fleetID, token string) (ids []string, err error) {
	reservation := s.dice.id("r")
	for i := range count {
		l := o.launch
		l.reservation, l.index, l.token = reservation, i, token
		l.tags = maps.Clone(l.tags)
		maps.Copy(l.tags, f.tags)
		l.tags["aws:ec2:fleet-id"] = fleetID
		l.volumeTags, l.context = maps.Clone(l.volumeTags), f.context
		maps.Copy(l.volumeTags, f.volumeTags)
		instance, err := s.start(l)
		if err != nil {
			return ids, err
		}
		ids = append(ids, instance.ID)
	}
	return ids, nil
}

// The XML of the response.
type (
	fleetXML struct {
		ID        string                     `xml:"fleetId"`
		Errors    wire.Set[fleetErrorXML]    `xml:"errorSet"`
		Instances wire.Set[fleetInstanceXML] `xml:"fleetInstanceSet"`
	}
	fleetErrorXML struct {
		Override  overrideXML `xml:"launchTemplateAndOverrides"`
		Lifecycle string      `xml:"lifecycle"`
		Code      string      `xml:"errorCode"`
		Message   string      `xml:"errorMessage"`
	}
	fleetInstanceXML struct {
		Override  overrideXML      `xml:"launchTemplateAndOverrides"`
		Lifecycle string           `xml:"lifecycle"`
		IDs       wire.Set[string] `xml:"instanceIds"`
		Type      string           `xml:"instanceType"`
	}
	overrideXML struct {
		TemplateID string `xml:"launchTemplateSpecification>launchTemplateId"`
		Version    string `xml:"launchTemplateSpecification>version"`
		Type       string `xml:"overrides>instanceType,omitempty"`
		SubnetID   string `xml:"overrides>subnetId,omitempty"`
		Zone       string `xml:"overrides>availabilityZone,omitempty"`
		MaxPrice   string `xml:"overrides>maxPrice,omitempty"`
		Priority   string `xml:"overrides>priority,omitempty"`
		ImageID    string `xml:"overrides>imageId,omitempty"`
	}
)

// shape returns the override as requested.
func (o override) shape() overrideXML {
	return overrideXML{
		TemplateID: o.template.id, Version: "1", Type: o.params.Get("InstanceType"), SubnetID: o.params.Get("SubnetId"),
		Zone: cmp.Or(o.params.Get("AvailabilityZone"), o.subnet.Zone), MaxPrice: o.params.Get("MaxPrice"),
		Priority: o.params.Get("Priority"), ImageID: o.params.Get("ImageId"),
	}
}

func (s *Server) readFleet(r request) (fleet, error) {
	p := r.Params
	f := fleet{tags: specifiedTags(p, "instance"), volumeTags: specifiedTags(p, "volume"), context: p.Get("Context"), denied: s.denials(r)}
	if err := p.Require("LaunchTemplateConfigs", "TargetCapacitySpecification"); err != nil {
		return f, err
	}
	if kind := p.Get("Type"); kind != "instant" {
		return f, wire.Errorf("InvalidParameterValue", "The fleet type %q is not supported here: only instant fleets are", cmp.Or(kind, "maintain"))
	}
	var err error
	if f.target, err = p.Int("TargetCapacitySpecification.TotalTargetCapacity", 0); err != nil {
		return f, err
	}
	if f.target < 1 {
		return f, wire.Errorf("InvalidTargetCapacitySpecification", "TotalTargetCapacity should be greater than or equal to 1.")
	}
	options, err := f.readTarget(p)
	if err != nil {
		return f, err
	}
	if f.minimum, err = options.Int("MinTargetCapacity", 0); err != nil {
		return f, err
	}
	f.strategy = cmp.Or(options.Get("AllocationStrategy"), lowestPrice)
	known := []string{lowestPrice, lowestPriceOld, prioritized}
	if f.capacityType == Spot {
		known = []string{lowestPrice, lowestPriceOld, diversified, capacityOptimized, capacityOptimizedPrio, priceCapacityOptimized}
	}
	if !slices.Contains(known, f.strategy) {
		return f, wire.Errorf("InvalidParameterValue", "The allocation strategy %q is not valid for %s capacity", f.strategy, f.capacityType)
	}
	return f, s.readConfigs(p, &f)
}

// readConfigs reads launch templates and overrides. A template that does not exist fails the whole call.
func (s *Server) readConfigs(p wire.Params, f *fleet) error {
	for _, config := range p.Each("LaunchTemplateConfigs") {
		spec := config.At("LaunchTemplateSpecification")
		t, err := s.templates.find(spec)
		if err != nil {
			return err
		}
		if err := checkVersion(t, spec.Get("Version")); err != nil {
			return err
		}
		overrides := config.Each("Overrides")
		if len(overrides) == 0 {
			overrides = []wire.Params{{}}
		}
		for _, params := range overrides {
			o := override{params: params, template: t, config: spec}
			c := s.candidate(&o, f)
			c.order = len(f.candidates)
			f.overrides, f.candidates = append(f.overrides, o), append(f.candidates, c)
		}
	}
	const most = 300
	if len(f.candidates) > most {
		return wire.Errorf("InvalidFleetConfig", "A fleet can have %d overrides at most, here are %d.", most, len(f.candidates))
	}
	if err := f.checkMarket(); err != nil {
		return err
	}
	return f.checkPools()
}

// candidate completes an override and returns whether it could be launched now.
func (s *Server) candidate(o *override, f *fleet) candidate {
	capacityType := f.capacityType
	var c candidate
	if err := s.complete(o, capacityType); err != nil {
		c.code, c.message = err.Code, err.Message
		return c
	}
	if f.denied != nil {
		if err := f.denied(*o, capacityType); err != nil {
			c.code, c.message = err.Code, err.Message
			return c
		}
	}
	c.vcpus = o.info.VCPUs
	c.subnet, c.room, c.price = o.subnet.ID, s.addresses.free(o.subnet.ID), o.launch.price
	c.depth = s.table.Depth(o.info.Name, o.subnet.Zone)
	c.priority = lastPriority
	if text := o.params.Get("Priority"); text != "" {
		if n, err := strconv.ParseFloat(text, 64); err == nil {
			c.priority = n
		}
	}
	full := s.placements.Check(o.launch.place, o.subnet.Zone)
	switch {
	case full != nil:
		c.code, c.message = full.Code, full.Message
	case s.Denied.has(o.info.Name):
		c.denied, c.code, c.message = true, "UnauthorizedOperation", "You are not authorized to perform this operation. User: "+s.iamARN("user/sandbox")+
			" is not authorized to perform: ec2:RunInstances on resource: "+s.arn(wire.EC2, "instance/*")+" with an explicit deny in a service control policy."
	case capacityType == Spot && s.faults.noSpotRole():
		c.code, c.message = codeNoSpotRole, "The provided credentials do not have permission to create the service-linked role for EC2 Spot Instances."
	case o.launch.reserved == "" && !s.faults.hasCapacity(o.info.Name, o.subnet.Zone, capacityType):
		err := s.noCapacity(o.info.Name, o.subnet.Zone, capacityType)
		c.code, c.message = err.Code, err.Message
	case capacityType == Spot && o.maxPrice > 0 && o.maxPrice < c.price:
		c.code = "SpotMaxPriceTooLow"
		c.message = fmt.Sprintf("Your Spot request price of %g is lower than the minimum required Spot request fulfillment price of %g.", o.maxPrice, c.price)
	}
	return c
}

// lastPriority is the priority of overrides without one, after all others.
const lastPriority = 1e9

func (s *Server) noCapacity(instanceType, zone, capacityType string) *wire.Error {
	const code = "InsufficientInstanceCapacity"
	if capacityType == Spot {
		return wire.Errorf(code, "There is no Spot capacity available that matches your request.")
	}
	return wire.Errorf(code, "We currently do not have sufficient %s capacity in the Availability Zone you requested (%s). Our system will be working on provisioning additional capacity.", instanceType, zone)
}

// readTarget reads what a fleet buys, and returns the options for it.
func (f *fleet) readTarget(p wire.Params) (options wire.Params, err error) {
	options, reserved := p.At("OnDemandOptions"), p.At("ReservedCapacityOptions")
	target := p.Get("TargetCapacitySpecification.DefaultTargetCapacityType")
	f.capacityType = OnDemand
	switch target {
	case "", OnDemand:
	case Spot:
		f.capacityType, options = Spot, p.At("SpotOptions")
	case marketBlock:
		f.market = marketBlock
	case "reserved-capacity":
		f.market = marketInterruptible
		if types := reserved.Strings("ReservationType"); !slices.Equal(types, []string{marketInterruptible}) {
			return options, wire.Errorf("InvalidParameterValue", "ReservedCapacityOptions.ReservationTypes %q is not supported here: only %s is", types, marketInterruptible)
		}
	default:
		return options, wire.Errorf("InvalidParameterValue", "The default target capacity type %q is not supported", target)
	}
	if reserved.Given() && f.market != marketInterruptible {
		return options, wire.Errorf("InvalidParameterCombination", "ReservedCapacityOptions requires the default target capacity type reserved-capacity.")
	}
	if f.market != "" && (p.At("OnDemandOptions").Given() || p.At("SpotOptions").Given()) {
		return options, wire.Errorf("InvalidParameterCombination", "OnDemandOptions and SpotOptions cannot be used with the default target capacity type %s.", target)
	}
	return options, nil
}

// checkMarket returns why the launch templates of a fleet are not of its market, or are of several Capacity Blocks (EC2 user guide, "Launch
// instances into Capacity Blocks").
func (f *fleet) checkMarket() error {
	blocks := map[string]bool{}
	for _, o := range f.overrides {
		market := o.template.data.Get("InstanceMarketOptions.MarketType")
		if market == Spot {
			market = ""
		}
		if market != f.market {
			return wire.Errorf("InvalidFleetConfig", "The market type '%s' of launch template %s does not match the default target capacity type.", market, o.template.name)
		}
		if market == marketBlock {
			blocks[o.template.data.Get("CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId")] = true
		}
	}
	if len(blocks) > 1 {
		return wire.Errorf("InvalidFleetConfig", "A fleet can launch into one Capacity Block, here are %d.", len(blocks))
	}
	return nil
}

// checkPools returns the error of a fleet with an instance type and zone that two overrides name. EC2 does not look at what else differs, such as their
// subnets or launch templates (github.com/aws/karpenter-provider-aws, designs/odcr.md).
func (f *fleet) checkPools() error {
	seen := map[[2]string]bool{}
	for _, o := range f.overrides {
		pool := [2]string{o.info.Name, o.subnet.Zone}
		if pool[0] == "" || pool[1] == "" {
			continue // The error of the override says what does not exist.
		}
		if seen[pool] {
			return wire.Errorf("InvalidFleetConfig", "The fleet configuration contains duplicate instance pools.")
		}
		seen[pool] = true
	}
	return nil
}
