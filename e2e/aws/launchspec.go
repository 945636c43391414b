package aws

import (
	"cmp"
	"context"
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"

	"github.com/slipway-k8s/slipway/e2e/aws/hardware"
	"github.com/slipway-k8s/slipway/e2e/aws/instancetypes"
	"github.com/slipway-k8s/slipway/e2e/aws/wire"
)

// defaultTenancy is the tenancy of instances that share their hardware.
const defaultTenancy = "default"

// complete looks up what an override and its launch template name.
func (s *Server) complete(o *override, capacityType string) *wire.Error {
	data := o.template.data
	name := cmp.Or(o.params.Get("InstanceType"), data.Get("InstanceType"))
	info, ok := s.table.Get(name)
	if !ok {
		return wire.Errorf("InvalidParameterValue", "The instance type '%s' does not exist", name)
	}
	o.info = info
	var err *wire.Error
	if o.subnet, err = s.resources.subnetOf(o); err != nil {
		return err
	}
	if !s.table.Offered(name, o.subnet.Zone) {
		return wire.Errorf("InvalidFleetConfiguration", "Your requested instance type (%s) is not supported in your requested Availability Zone (%s).", name, o.subnet.Zone)
	}
	if text := o.params.Get("MaxPrice"); text != "" {
		price, failure := strconv.ParseFloat(text, 64)
		if failure != nil {
			return wire.Errorf("InvalidParameterValue", "The maximum price '%s' is not a number", text)
		}
		o.maxPrice = price
	}
	l, err := s.launchOf(data, info, o.subnet, cmp.Or(o.params.Get("ImageId"), data.Get("ImageId")))
	if err == nil {
		l.nics, err = s.resources.interfacesIn(o.subnet, o.interfaces(), info)
	}
	if err != nil {
		return err
	}
	l.capacityType, l.template, l.price = capacityType, o.template.name, s.price(info, o.subnet.Zone, capacityType)
	l.tags = specifiedTags(data, "instance")
	l.tags["aws:ec2launchtemplate:id"], l.tags["aws:ec2launchtemplate:version"] = o.template.id, "1"
	o.launch = l
	return nil
}

// subnetOf returns the subnet that the request or the template names, that of the zone that one of them names, or the default one.
func (r Resources) subnetOf(o *override) (Subnet, *wire.Error) {
	data := o.template.data
	zone := cmp.Or(o.params.Get("AvailabilityZone"), data.Get("Placement.AvailabilityZone"))
	id := o.params.Get("SubnetId")
	if nics := o.interfaces().Each("NetworkInterface"); id == "" && len(nics) > 0 {
		id = nics[0].Get("SubnetId")
	}
	switch {
	case id != "":
		subnet, ok := r.subnet(id)
		if !ok {
			return subnet, wire.Errorf("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", id)
		}
		if zone != "" && zone != subnet.Zone {
			return subnet, wire.Errorf("InvalidParameterCombination", "The subnet ID '%s' is not in the Availability Zone %s", id, zone)
		}
		return subnet, nil
	case zone != "":
		subnet, ok := r.subnetIn(zone)
		if !ok {
			return subnet, wire.Errorf("InvalidParameterValue", "Invalid availability zone: [%s]", zone)
		}
		return subnet, nil
	default:
		return r.Subnets[0], nil
	}
}

// interfaces returns the parameters that have the network interfaces: those of the request replace those of the template.
func (o *override) interfaces() wire.Params {
	if len(o.params.Each("NetworkInterface")) > 0 {
		return o.params
	}
	return o.template.data
}

// launchOf reads an instance's properties, but for its network interfaces, from a launch template's data, or from the same parameters of RunInstances.
func (s *Server) launchOf(data wire.Params, info instancetypes.Type, subnet Subnet, imageID string) (launch, *wire.Error) {
	l := launch{info: info}
	l.subnet, l.keyName, l.tenancy = subnet, data.Get("KeyName"), cmp.Or(data.Get("Placement.Tenancy"), defaultTenancy)
	ami, ok := s.images.get(imageID)
	switch {
	case imageID == "":
		return l, wire.Errorf("MissingParameter", "The request must contain the parameter ImageId")
	case !ok:
		return l, wire.Errorf("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", imageID)
	case ami.Arch != info.Arch:
		return l, wire.Errorf("InvalidParameterValue", "The architecture '%s' of the specified instance type does not match the architecture '%s' of the specified AMI. Specify an instance type and an AMI that have matching architectures, and try again. You can use 'describe-instance-types' or 'describe-images' to discover the architecture of the instance type or AMI.", info.Arch, ami.Arch)
	}
	l.image, l.rootDevice, l.rootGiB = ami, ami.RootDevice, ami.RootGiB
	if !slices.Contains([]string{defaultTenancy, "dedicated", "host"}, l.tenancy) {
		return l, wire.Errorf("InvalidParameterValue", "Value (%s) for parameter placement.tenancy is invalid. Valid values are: [default, dedicated, host]", l.tenancy)
	}
	var err *wire.Error
	if l.place, err = s.placements.Read(data.At("Placement"), info.Name, strategies(info)); err != nil {
		return l, err
	}
	if l.reserved, l.market, err = s.reservations.read(data, info, subnet.Zone); err != nil {
		return l, err
	}
	l.open = l.reserved == "" && slices.Contains([]string{"", "open"}, data.Get("CapacityReservationSpecification.CapacityReservationPreference"))
	if name := data.Get("IamInstanceProfile.Name"); name != "" {
		if !s.iam.hasProfile(name) {
			return l, wire.Errorf("InvalidParameterValue", "Value (%s) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name", name)
		}
		l.profileARN = s.iamARN("instance-profile/" + name)
	}
	if l.volumes, err = hardware.Volumes(data, ami.RootDevice, int(ami.RootGiB)); err != nil {
		return l, err
	}
	for _, v := range l.volumes {
		l.rootGiB = max(l.rootGiB, int64(v.GiB))
	}
	if l.metadata, err = hardware.MetadataOf(data.At("MetadataOptions")); err != nil {
		return l, err
	}
	l.hibernates = data.Bool("HibernationOptions.Configured")
	if err = noHibernation(l); err != nil {
		return l, err
	}
	l.monitoring, l.volumeTags = data.Bool("Monitoring.Enabled"), specifiedTags(data, "volume")
	text, failure := base64.StdEncoding.DecodeString(data.Get("UserData"))
	if failure != nil {
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

// readRun reads a RunInstances call.
func (s *Server) readRun(p wire.Params) (o override, capacityType string, err error) {
	o, capacityType = override{params: p, template: template{data: p}}, OnDemand
	if spec := p.At("LaunchTemplate"); spec.Given() {
		if o.template, err = s.templates.find(spec); err != nil {
			return o, capacityType, err
		}
	}
	if p.Get("InstanceMarketOptions.MarketType") == Spot {
		capacityType = Spot
	}
	if refused := s.complete(&o, capacityType); refused != nil {
		if refused.Code == "InvalidFleetConfiguration" {
			refused.Code = "Unsupported"
		}
		return o, capacityType, refused
	}
	return o, capacityType, nil
}

func (s *Server) launchCount(r request, least, most int) (any, error) {
	p := r.Params
	o, capacityType, err := s.readRun(p)
	if err != nil {
		return nil, err
	}
	// A dry run asks for permissions, not for capacity.
	if err := dryRun(p); err != nil {
		return nil, err
	}
	if !s.faults.hasCapacity(o.info.Name, o.subnet.Zone, capacityType) {
		return nil, s.noCapacity(o.info.Name, o.subnet.Zone, capacityType).WithStatus(http.StatusInternalServerError)
	}
	if s.addresses.free(o.subnet.ID) < least {
		return nil, errNoAddresses(o.subnet.ID)
	}
	out := reservationXML{ID: s.dice.id("r"), OwnerID: s.cfg.AccountID}
	for i := range min(most, s.addresses.free(o.subnet.ID)) {
		l := o.launch
		l.reservation, l.index, l.token, l.tags = out.ID, i, p.Get("ClientToken"), specifiedTags(p, "instance")
		started, err := s.start(l)
		if err != nil {
			// Other calls took the addresses meanwhile. Instances that the response does not list must not run.
			for _, launched := range out.Instances.Items {
				s.end(launched.ID, userShutdown())
			}
			return nil, err
		}
		m, _ := s.instances.get(started.ID)
		out.Instances.Items = append(out.Instances.Items, s.instanceShape(m))
	}
	r.note(func(c *Call) { c.Launched = len(out.Instances.Items) })
	return out, nil
}
