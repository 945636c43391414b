package aws

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/slipway-k8s/slipway/e2e/aws/instancetypes"
	"github.com/slipway-k8s/slipway/e2e/aws/wire"
)

// override is a candidate with what is needed to launch from it and to tell of it.
type override struct {
	params   wire.Params
	template template
	config   wire.Params // the launch template's specification in the request
	subnet   Subnet
	info     instancetypes.Type
	launch   launch
	maxPrice float64
}

// fleet is a CreateFleet call that was read and checked.
type fleet struct {
	capacityType, strategy string
	target, minimum        int
	overrides              []override
	candidates             []candidate
	tags                   map[string]string
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

// launchFleet makes the call in these steps.
func (s *Server) launchFleet(r request) (any, error) {
	// 1. What is asked, checked as a whole.
	f, err := s.readFleet(r.Params)
	if err != nil {
		return nil, err
	}
	if err := dryRun(r.Params); err != nil {
		return nil, err
	}
	// 2. From which pools, of those that have capacity.
	picks, failed := allocate(f.candidates, f.target, f.strategy)
	total := 0
	for _, p := range picks {
		total += p.count
	}
	if total < f.minimum {
		picks = nil
	}
	// 3. The instances.
	out := fleetXML{ID: "fleet-" + s.dice.uuid()}
	launched := 0
	for _, p := range picks {
		o := f.overrides[p.candidate]
		ids, err := s.launchPick(f, o, p.count, out.ID, r.Params.Get("ClientToken"))
		if err != nil {
			failed = append(failed, p.candidate)
			f.candidates[p.candidate].code, f.candidates[p.candidate].message = codeNoAddresses, err.Error()
		}
		if len(ids) > 0 {
			out.Instances.Items = append(out.Instances.Items, fleetInstanceXML{o.shape(), f.capacityType, wire.NewSet(ids...), o.info.Name})
			launched += len(ids)
		}
	}
	r.note(func(c *Call) { c.Launched = launched })
	// 4. What failed on the way.
	for _, i := range failed {
		c := f.candidates[i]
		out.Errors.Items = append(out.Errors.Items, fleetErrorXML{f.overrides[i].shape(), f.capacityType, c.code, c.message})
	}
	return out, nil
}

func (s *Server) launchPick(f fleet, o override, count int, fleetID, token string) (ids []string, err error) {
	reservation := s.dice.id("r")
	for i := range count {
		l := o.launch
		l.reservation, l.index, l.token = reservation, i, token
		l.tags = maps.Clone(l.tags)
		maps.Copy(l.tags, f.tags)
		l.tags["aws:ec2:fleet-id"] = fleetID
		instance, err := s.start(l)
		if err != nil {
			return ids, err
		}
		ids = append(ids, instance.ID)
	}
	return ids, nil
}

// The shapes of the answer.
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

// shape tells an override as it was asked for.
func (o override) shape() overrideXML {
	return overrideXML{
		TemplateID: o.template.id, Version: "1", Type: o.params.Get("InstanceType"), SubnetID: o.params.Get("SubnetId"),
		Zone: cmp.Or(o.params.Get("AvailabilityZone"), o.subnet.Zone), MaxPrice: o.params.Get("MaxPrice"),
		Priority: o.params.Get("Priority"), ImageID: o.params.Get("ImageId"),
	}
}

func (s *Server) readFleet(p wire.Params) (fleet, error) {
	f := fleet{tags: specifiedTags(p, "instance")}
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
	options, absent := p.At("OnDemandOptions"), lowestPrice
	f.capacityType = p.Get("TargetCapacitySpecification.DefaultTargetCapacityType")
	switch f.capacityType {
	case "", OnDemand:
		f.capacityType = OnDemand
	case Spot:
		options = p.At("SpotOptions")
	default:
		return f, wire.Errorf("InvalidParameterValue", "The default target capacity type %q is not supported", f.capacityType)
	}
	if f.minimum, err = options.Int("MinTargetCapacity", 0); err != nil {
		return f, err
	}
	f.strategy = cmp.Or(options.Get("AllocationStrategy"), absent)
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
			c := s.candidate(&o, f.capacityType)
			c.order = len(f.candidates)
			f.overrides, f.candidates = append(f.overrides, o), append(f.candidates, c)
		}
	}
	const most = 300
	if len(f.candidates) > most {
		return wire.Errorf("InvalidFleetConfig", "A fleet can have %d overrides at most, here are %d.", most, len(f.candidates))
	}
	return nil
}

// candidate completes an override and says whether it could be launched now.
func (s *Server) candidate(o *override, capacityType string) candidate {
	var c candidate
	if err := s.complete(o, capacityType); err != nil {
		c.code, c.message = err.Code, err.Message
		return c
	}
	c.subnet, c.room, c.price = o.subnet.ID, s.addresses.free(o.subnet.ID), o.launch.price
	c.depth = s.table.Depth(o.info.Name, o.subnet.Zone)
	c.priority = lastPriority
	if text := o.params.Get("Priority"); text != "" {
		if n, err := strconv.ParseFloat(text, 64); err == nil {
			c.priority = n
		}
	}
	switch {
	case !s.faults.hasCapacity(o.info.Name, o.subnet.Zone, capacityType):
		err := s.noCapacity(o.info.Name, o.subnet.Zone, capacityType)
		c.code, c.message = err.Code, err.Message
	case capacityType == Spot && o.maxPrice > 0 && o.maxPrice < c.price:
		c.code = "SpotMaxPriceTooLow"
		c.message = fmt.Sprintf("Your Spot request price of %g is lower than the minimum required Spot request fulfillment price of %g.", o.maxPrice, c.price)
	}
	return c
}

// lastPriority is behind all that are given.
const lastPriority = 1e9

func (s *Server) noCapacity(instanceType, zone, capacityType string) *wire.Error {
	const code = "InsufficientInstanceCapacity"
	if capacityType == Spot {
		return wire.Errorf(code, "There is no Spot capacity available that matches your request.")
	}
	return wire.Errorf(code, "We currently do not have sufficient %s capacity in the Availability Zone you requested (%s). Our system will be working on provisioning additional capacity.", instanceType, zone)
}

// complete finds what an override and its launch template name.
func (s *Server) complete(o *override, capacityType string) *wire.Error {
	data := o.template.data
	name := cmp.Or(o.params.Get("InstanceType"), data.Get("InstanceType"))
	info, ok := s.table.Get(name)
	if !ok {
		return wire.Errorf("InvalidParameterValue", "The instance type '%s' does not exist", name)
	}
	o.info = info
	zone := cmp.Or(o.params.Get("AvailabilityZone"), data.Get("Placement.AvailabilityZone"))
	nics := data.Each("NetworkInterface")
	id := o.params.Get("SubnetId")
	if id == "" && len(nics) > 0 {
		id = nics[0].Get("SubnetId")
	}
	switch {
	case id != "":
		if o.subnet, ok = s.resources.subnet(id); !ok {
			return wire.Errorf("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", id)
		}
		if zone != "" && zone != o.subnet.Zone {
			return wire.Errorf("InvalidParameterCombination", "The subnet ID '%s' is not in the Availability Zone %s", id, zone)
		}
	case zone != "":
		if o.subnet, ok = s.resources.subnetIn(zone); !ok {
			return wire.Errorf("InvalidParameterValue", "Invalid availability zone: [%s]", zone)
		}
	default:
		o.subnet = s.resources.Subnets[0]
	}
	if !s.table.Offered(name, o.subnet.Zone) {
		return wire.Errorf("InvalidFleetConfiguration", "Your requested instance type (%s) is not supported in your requested Availability Zone (%s).", name, o.subnet.Zone)
	}
	if text := o.params.Get("MaxPrice"); text != "" {
		price, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return wire.Errorf("InvalidParameterValue", "The maximum price '%s' is not a number", text)
		}
		o.maxPrice = price
	}
	l, err := s.launchOf(data, info, o.subnet, cmp.Or(o.params.Get("ImageId"), data.Get("ImageId")))
	if err != nil {
		return err
	}
	l.capacityType, l.template, l.price = capacityType, o.template.name, s.price(info, o.subnet.Zone, capacityType)
	l.tags = specifiedTags(data, "instance")
	l.tags["aws:ec2launchtemplate:id"], l.tags["aws:ec2launchtemplate:version"] = o.template.id, "1"
	o.launch = l
	return nil
}

// launchOf reads what a launch template's data, or the same parameters of RunInstances, say of an instance.
func (s *Server) launchOf(data wire.Params, info instancetypes.Type, subnet Subnet, imageID string) (launch, *wire.Error) {
	l := launch{info: info}
	l.subnet, l.keyName = subnet, data.Get("KeyName")
	ami, ok := s.images.byID[imageID]
	switch {
	case imageID == "":
		return l, wire.Errorf("MissingParameter", "The request must contain the parameter ImageId")
	case !ok:
		return l, wire.Errorf("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", imageID)
	case ami.Arch != info.Arch:
		return l, wire.Errorf("InvalidParameterValue", "The architecture '%s' of the specified instance type does not match the architecture '%s' of the specified AMI. Specify an instance type and an AMI that have matching architectures, and try again. You can use 'describe-instance-types' or 'describe-images' to discover the architecture of the instance type or AMI.", info.Arch, ami.Arch)
	}
	l.image, l.rootDevice, l.rootGiB = ami, ami.RootDevice, ami.RootGiB
	groups := data.Strings("SecurityGroupId")
	groups = append(groups, data.Strings("SecurityGroup")...)
	for _, nic := range data.Each("NetworkInterface") {
		groups = append(groups, nic.Strings("SecurityGroupId")...)
	}
	for _, id := range slices.Compact(groups) {
		g, ok := s.resources.group(id)
		if !ok {
			return l, wire.Errorf("InvalidGroup.NotFound", "The security group '%s' does not exist", id)
		}
		l.groups = append(l.groups, g)
	}
	if len(l.groups) == 0 {
		l.groups = s.resources.SecurityGroups[1:2]
	}
	if name := data.Get("IamInstanceProfile.Name"); name != "" {
		if !s.iam.hasProfile(name) {
			return l, wire.Errorf("InvalidParameterValue", "Value (%s) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name", name)
		}
		l.profileARN = s.iamARN("instance-profile/" + name)
	}
	for _, device := range data.Each("BlockDeviceMapping") {
		if gib, err := device.Int("Ebs.VolumeSize", 0); err == nil {
			l.rootGiB = max(l.rootGiB, int64(gib))
		}
	}
	text, err := base64.StdEncoding.DecodeString(data.Get("UserData"))
	if err != nil {
		return l, wire.Errorf("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.")
	}
	l.userData = string(text)
	return l, nil
}

// runInstances launches instances of one type in one subnet, with or without a launch template.
func (s *Server) runInstances(ctx context.Context, r request) (any, error) {
	p := r.Params
	most, err := p.Int("MaxCount", 0)
	if err != nil {
		return nil, err
	}
	least, err := p.Int("MinCount", 0)
	if err != nil {
		return nil, err
	}
	r.note(func(c *Call) { c.ClientToken, c.Asked = p.Get("ClientToken"), most })
	if least < 1 || most < least {
		return nil, wire.Errorf("InvalidParameterValue", "Value (%d) for parameter MinCount or (%d) for MaxCount is invalid", least, most)
	}
	if err := s.cfg.Clock.Sleep(ctx, s.cfg.FleetTakes); err != nil {
		return nil, err
	}
	return s.tokens.once(p.Get("ClientToken"), p.String(), func() (any, error) { return s.launchCount(r, least, most) })
}

func (s *Server) launchCount(r request, least, most int) (any, error) {
	p := r.Params
	o := override{params: p, template: template{data: p}}
	if spec := p.At("LaunchTemplate"); spec.Given() {
		t, err := s.templates.find(spec)
		if err != nil {
			return nil, err
		}
		o.template = t
	}
	capacityType := OnDemand
	if p.Get("InstanceMarketOptions.MarketType") == Spot {
		capacityType = Spot
	}
	if err := s.complete(&o, capacityType); err != nil {
		if err.Code == "InvalidFleetConfiguration" {
			err.Code = "Unsupported"
		}
		return nil, err
	}
	if !s.faults.hasCapacity(o.info.Name, o.subnet.Zone, capacityType) {
		return nil, s.noCapacity(o.info.Name, o.subnet.Zone, capacityType).WithStatus(500)
	}
	if s.addresses.free(o.subnet.ID) < least {
		return nil, errNoAddresses(o.subnet.ID)
	}
	if err := dryRun(p); err != nil {
		return nil, err
	}
	out := reservationXML{ID: s.dice.id("r"), OwnerID: s.cfg.AccountID}
	for i := range most {
		l := o.launch
		l.reservation, l.index, l.token, l.tags = out.ID, i, p.Get("ClientToken"), specifiedTags(p, "instance")
		started, err := s.start(l)
		if err != nil {
			break
		}
		m, _ := s.instances.get(started.ID)
		out.Instances.Items = append(out.Instances.Items, s.instanceShape(m))
	}
	r.note(func(c *Call) { c.Launched = len(out.Instances.Items) })
	return out, nil
}
