package aws

import (
	"context"
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-k8s/slipway/e2e/aws/hardware"
	"github.com/slipway-k8s/slipway/e2e/aws/wire"
)

// The XML of an instance in a response.
type (
	instanceXML struct {
		ID          string                          `xml:"instanceId"`
		ImageID     string                          `xml:"imageId"`
		State       stateXML                        `xml:"instanceState"`
		PrivateDNS  string                          `xml:"privateDnsName"`
		PublicDNS   string                          `xml:"dnsName"`
		Reason      string                          `xml:"reason"`
		KeyName     string                          `xml:"keyName,omitempty"`
		Index       int                             `xml:"amiLaunchIndex"`
		Type        string                          `xml:"instanceType"`
		Launched    string                          `xml:"launchTime"`
		Placement   placementXML                    `xml:"placement"`
		Monitoring  string                          `xml:"monitoring>state"`
		SubnetID    string                          `xml:"subnetId,omitempty"`
		VPCID       string                          `xml:"vpcId,omitempty"`
		PrivateIP   string                          `xml:"privateIpAddress,omitempty"`
		PublicIP    string                          `xml:"ipAddress,omitempty"`
		IPv6        string                          `xml:"ipv6Address,omitempty"`
		Check       bool                            `xml:"sourceDestCheck"`
		Groups      wire.Set[hardware.Group]        `xml:"groupSet"`
		StateReason *reasonXML                      `xml:"stateReason"`
		Arch        string                          `xml:"architecture"`
		RootType    string                          `xml:"rootDeviceType"`
		RootName    string                          `xml:"rootDeviceName"`
		Devices     wire.Set[volumeXML]             `xml:"blockDeviceMapping"`
		Virtual     string                          `xml:"virtualizationType"`
		Lifecycle   string                          `xml:"instanceLifecycle,omitempty"`
		SpotRequest string                          `xml:"spotInstanceRequestId,omitempty"`
		Token       string                          `xml:"clientToken"`
		Tags        wire.Set[tagXML]                `xml:"tagSet"`
		Hypervisor  string                          `xml:"hypervisor"`
		Interfaces  wire.Set[hardware.InterfaceXML] `xml:"networkInterfaceSet"`
		Profile     *profileRefXML                  `xml:"iamInstanceProfile"`
		EBS         bool                            `xml:"ebsOptimized"`
		ENA         bool                            `xml:"enaSupport"`
		CPU         cpuXML                          `xml:"cpuOptions"`
		Metadata    hardware.Metadata               `xml:"metadataOptions"`
		Hibernates  bool                            `xml:"hibernationOptions>configured"`
		Platform    string                          `xml:"platformDetails"`
		PlatformOf  string                          `xml:"platform,omitempty"`
		Reservation string                          `xml:"capacityReservationId,omitempty"`
		Wanted      *reservationWantXML             `xml:"capacityReservationSpecification"`
	}
	stateXML struct {
		Code int    `xml:"code"`
		Name string `xml:"name"`
	}
	placementXML struct {
		Zone      string `xml:"availabilityZone"`
		ZoneID    string `xml:"availabilityZoneId"`
		Group     string `xml:"groupName"`
		GroupID   string `xml:"groupId,omitempty"`
		Partition int    `xml:"partitionNumber,omitempty"`
		Tenancy   string `xml:"tenancy"`
	}
	reasonXML struct {
		Code    string `xml:"code"`
		Message string `xml:"message"`
	}
	volumeXML struct {
		Name string        `xml:"deviceName"`
		EBS  attachmentXML `xml:"ebs"`
	}
	attachmentXML struct {
		VolumeID string `xml:"volumeId"`
		Status   string `xml:"status"`
		Time     string `xml:"attachTime"`
		Delete   bool   `xml:"deleteOnTermination"`
	}
	profileRefXML struct {
		ARN string `xml:"arn"`
		ID  string `xml:"id"`
	}
	cpuXML struct {
		Cores   int `xml:"coreCount"`
		Threads int `xml:"threadsPerCore"`
	}
	reservationXML struct {
		ID        string                   `xml:"reservationId"`
		OwnerID   string                   `xml:"ownerId"`
		Groups    wire.Set[hardware.Group] `xml:"groupSet"`
		Instances wire.Set[instanceXML]    `xml:"instancesSet"`
	}
)

// stateCode returns the number of a state (EC2 API reference, InstanceState).
func stateCode(name string) stateXML {
	codes := map[string]int{StatePending: 0, StateRunning: 16, StateShuttingDown: 32, StateTerminated: 48, StateStopping: 64, StateStopped: 80}
	return stateXML{codes[name], name}
}

// instanceShape returns the XML of an instance. A terminated one has no network any more, as in EC2.
func (s *Server) instanceShape(m machine) instanceXML {
	info, _ := s.table.Get(m.Type)
	out := instanceXML{
		ID: m.ID, ImageID: m.ImageID, State: stateCode(m.State), Index: m.launchIndex, Type: m.Type, KeyName: m.keyName,
		Launched: wire.Timestamp(m.LaunchTime), Placement: placementXML{Zone: m.Zone, ZoneID: m.ZoneID, Tenancy: m.tenancy},
		Monitoring: "disabled", Arch: m.Architecture, RootType: "ebs", RootName: m.rootDevice, Virtual: "hvm",
		SpotRequest: m.spotRequest, Token: m.token, Tags: tagSet(m.tagsNow(time.Now())), Hypervisor: "xen", EBS: true, ENA: true,
		CPU: cpuXML{info.Cores, info.VCPUs / max(1, info.Cores)}, Metadata: m.metadata, Hibernates: m.Hibernates,
		Platform: image{Windows: m.Windows}.details(), PlatformOf: image{Windows: m.Windows}.platform(),
	}
	if m.monitoring {
		out.Monitoring = "enabled"
	}
	if m.CapacityType == Spot {
		out.Lifecycle = "spot"
	}
	if m.market != "" {
		out.Lifecycle = m.market
	}
	place, group := s.placements.Of(m.ID)
	out.Placement.Group, out.Placement.GroupID, out.Placement.Partition = group, place.Group, place.Partition
	out.Reservation, out.Wanted = s.reservations.of(m.ID, m.reserved)
	if m.reason.code != "" {
		out.StateReason = &reasonXML{m.reason.code, m.reason.message}
		out.Reason = m.reason.message
	}
	if m.State == StateTerminated {
		return out
	}
	out.Groups = wire.NewSet(m.nics[0].Groups...)
	out.PrivateDNS, out.PrivateIP, out.SubnetID, out.VPCID = m.PrivateDNSName, m.PrivateIP, m.subnet.ID, s.resources.VPC.ID
	out.Check, out.IPv6 = true, m.IPv6
	if m.nics[0].Public && m.Live() { // A stopped instance loses it.
		out.PublicIP = publicIP(m.PrivateIP)
		out.PublicDNS = publicDNSName(s.cfg.Region, out.PublicIP)
	}
	for _, n := range m.nics {
		in := hardware.InterfaceXML{SubnetID: m.subnet.ID, VPCID: s.resources.VPC.ID, OwnerID: s.cfg.AccountID}
		if n.IP != "" {
			in.DNS = privateDNSName(s.cfg.Region, n.IP)
		}
		out.Interfaces.Items = append(out.Interfaces.Items, n.Described(in))
	}
	for _, v := range m.volumes {
		out.Devices.Items = append(out.Devices.Items, volumeXML{v.Device, attachmentXML{v.ID, "attached", wire.Timestamp(m.LaunchTime), v.Delete}})
	}
	if m.profileARN != "" {
		out.Profile = &profileRefXML{m.profileARN, "AIPA" + strings.ToUpper(fixedID("x", m.profileARN)[3:19])}
	}
	return out
}

// visibleInstances returns copies of the instances that EC2 lists: those of the IDs, or all if there are none. A launcher asks about a few of thousands.
func (s *Server) visibleInstances(ids ...string) []machine {
	now, forgotten := time.Now(), s.cfg.Clock.Scale(s.cfg.ForgottenAfter)
	wanted := make(map[string]bool, len(ids))
	for _, id := range ids {
		wanted[id] = true
	}
	return s.instances.list(func(m *machine) bool { return (len(ids) == 0 || wanted[m.ID]) && m.visible(now, forgotten) })
}

func noInstance(ids ...string) error {
	if len(ids) > 1 {
		return wire.Errorf("InvalidInstanceID.NotFound", "The instance IDs '%s' do not exist", strings.Join(ids, ", "))
	}
	if !strings.HasPrefix(ids[0], "i-") || len(strings.Trim(ids[0][2:], "0123456789abcdef")) > 0 {
		return wire.Errorf("InvalidInstanceID.Malformed", "Invalid id: \"%s\"", ids[0])
	}
	return wire.Errorf("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", ids[0])
}

func (s *Server) instanceAttributes(m machine) wire.Attribute {
	return wire.Tagged(m.tagsNow(time.Now()), func(name string) ([]string, bool) {
		switch name {
		case "instance.group-id", "instance.group-name", "group-id", "group-name":
			var out []string
			for _, g := range m.nics[0].Groups {
				if strings.HasSuffix(name, "-id") {
					out = append(out, g.ID)
				} else {
					out = append(out, g.Name)
				}
			}
			return out, true
		// These filters are frequent, and are evaluated for thousands of instances.
		case "instance-id":
			return []string{m.ID}, true
		case "instance-state-name":
			return []string{m.State}, true
		case "private-dns-name":
			return []string{m.PrivateDNSName}, true
		}
		lifecycle := map[string]string{Spot: "spot"}[m.CapacityType]
		return fixed(map[string]string{
			"architecture": m.Architecture, "availability-zone": m.Zone, "availability-zone-id": m.ZoneID, "client-token": m.token,
			"iam-instance-profile.arn": m.profileARN, "image-id": m.ImageID,
			"instance-lifecycle": lifecycle, "instance-state-code": strconv.Itoa(stateCode(m.State).Code),
			"instance-type": m.Type, "key-name": m.keyName, "launch-time": wire.Timestamp(m.LaunchTime), "owner-id": s.cfg.AccountID,
			"network-interface.subnet-id": m.subnet.ID, "private-ip-address": m.PrivateIP,
			"network-interface.private-dns-name": m.PrivateDNSName, "reservation-id": m.reservation, "root-device-type": "ebs",
			"spot-instance-request-id": m.spotRequest, "state-reason-code": m.reason.code, "subnet-id": m.subnet.ID, "tenancy": m.tenancy,
			"virtualization-type": "hvm", "vpc-id": s.resources.VPC.ID,
		})(name)
	})
}

// instanceList implements the common part of DescribeInstances and DescribeInstanceStatus.
func (s *Server) instanceList(p wire.Params, items []machine, attributes func(machine) wire.Attribute) ([]machine, string, error) {
	if p.At("InstanceId").Given() && p.At("MaxResults").Given() {
		return nil, "", wire.Errorf("InvalidParameterCombination", "The parameter instancesSet cannot be used with the parameter maxResults")
	}
	return listOf[machine]{
		items: items, key: func(m machine) string { return m.ID }, idParam: "InstanceId",
		notFound: func(id string) error { return noInstance(id) }, attributes: attributes,
		pages: wire.Pages{Min: 5, Max: 1000},
	}.answer(p)
}

func (s *Server) describeInstances(_ context.Context, r request) (any, error) {
	page, next, err := s.instanceList(r.Params, s.visibleInstances(r.Params.Strings("InstanceId")...), s.instanceAttributes)
	if err != nil {
		return nil, err
	}
	out := struct {
		Set  wire.Set[reservationXML] `xml:"reservationSet"`
		Next string                   `xml:"nextToken,omitempty"`
	}{Next: next}
	byReservation := map[string]int{}
	for _, m := range page {
		i, ok := byReservation[m.reservation]
		if !ok {
			i = len(out.Set.Items)
			byReservation[m.reservation] = i
			out.Set.Items = append(out.Set.Items, reservationXML{ID: m.reservation, OwnerID: s.cfg.AccountID})
		}
		of := &out.Set.Items[i].Instances
		of.Items = append(of.Items, s.instanceShape(m))
	}
	return out, nil
}

// describeInstanceAttribute returns user data, the one attribute that no other call returns.
func (s *Server) describeInstanceAttribute(_ context.Context, r request) (any, error) {
	id := r.Params.Get("InstanceId")
	m, ok := s.instances.get(id)
	if !ok || !m.visible(time.Now(), s.cfg.Clock.Scale(s.cfg.ForgottenAfter)) {
		return nil, noInstance(id)
	}
	if attribute := r.Params.Get("Attribute"); attribute != "userData" {
		return nil, wire.Errorf("InvalidParameterValue", "The attribute %s is not simulated here", attribute)
	}
	return struct {
		ID   string `xml:"instanceId"`
		Data string `xml:"userData>value,omitempty"`
	}{id, base64.StdEncoding.EncodeToString([]byte(m.UserData))}, nil
}

type stateChangeXML struct {
	ID       string   `xml:"instanceId"`
	Current  stateXML `xml:"currentState"`
	Previous stateXML `xml:"previousState"`
}

// powerCalls are the calls that stop, start and terminate instances.
type powerCalls struct{ of *Server }

// known returns the instances of a call by ID, in its order.
func (p powerCalls) known(r request) ([]machine, error) {
	if err := r.Params.Require("InstanceId"); err != nil {
		return nil, err
	}
	now, forgotten := time.Now(), p.of.cfg.Clock.Scale(p.of.cfg.ForgottenAfter)
	var out []machine
	var unknown []string
	for _, id := range r.Params.Strings("InstanceId") {
		m, ok := p.of.instances.get(id)
		// Eventual consistency does not hide an instance from a call that names it.
		if !ok || now.After(m.visibleAt) && !m.visible(now, forgotten) {
			unknown = append(unknown, id)
		}
		out = append(out, m)
	}
	if len(unknown) > 0 {
		return nil, noInstance(unknown...)
	}
	return out, nil
}

// stopInstances stops instances. One that is stopping or stopped stays so. All must be able to stop, or none is stopped.
func (p powerCalls) stopInstances(_ context.Context, r request) (any, error) {
	all, err := p.known(r)
	if err != nil {
		return nil, err
	}
	for _, m := range all {
		if refused := p.stoppable(m, r.Params.Bool("Hibernate")); refused != nil {
			return nil, refused
		}
	}
	if err := dryRun(r.Params); err != nil {
		return nil, err
	}
	return p.changed(all, func(m machine) { p.stop(m.ID, r.Params.Bool("Hibernate")) }), nil
}

// startInstances starts stopped instances. One that runs stays so. All must be able to start, or none is started.
func (p powerCalls) startInstances(_ context.Context, r request) (any, error) {
	all, err := p.known(r)
	if err != nil {
		return nil, err
	}
	for _, m := range all {
		if refused := p.startable(m); refused != nil {
			return nil, refused
		}
	}
	if err := dryRun(r.Params); err != nil {
		return nil, err
	}
	return p.changed(all, func(m machine) { p.restart(m) }), nil
}

// changed applies a change to each of the instances, and returns their states before and after.
func (p powerCalls) changed(all []machine, change func(machine)) any {
	out := struct {
		Set wire.Set[stateChangeXML] `xml:"instancesSet"`
	}{}
	for _, before := range all {
		change(before)
		after, _ := p.of.instances.get(before.ID)
		out.Set.Items = append(out.Set.Items, stateChangeXML{before.ID, stateCode(after.State), stateCode(before.State)})
	}
	return out
}

func (p powerCalls) terminateInstances(_ context.Context, r request) (any, error) {
	all, err := p.known(r)
	if err != nil {
		return nil, err
	}
	if err := dryRun(r.Params); err != nil {
		return nil, err
	}
	return p.changed(all, func(m machine) { p.of.end(m.ID, userShutdown()) }), nil
}

// describedVolume is a volume with its tags.
type describedVolume struct {
	hardware.VolumeXML
	Tags wire.Set[tagXML] `xml:"tagSet"`
	tags map[string]string
}

// describeVolumes lists the volumes of instances that are not terminated.
func (s *instances) describeVolumes(_ context.Context, r request) (any, error) {
	var all []describedVolume
	for _, m := range s.list(func(m *machine) bool { return m.State != StateTerminated }) {
		for _, v := range m.volumes {
			all = append(all, describedVolume{v.Described(m.ID, m.Zone), tagSet(m.volumeTags), m.volumeTags})
		}
	}
	page, next, err := listOf[describedVolume]{
		items: all, key: func(v describedVolume) string { return v.ID }, idParam: "VolumeId",
		notFound: func(id string) error {
			return wire.Errorf("InvalidVolume.NotFound", "The volume '%s' does not exist.", id)
		},
		attributes: func(v describedVolume) wire.Attribute {
			return wire.Tagged(v.tags, fixed(map[string]string{
				"attachment.instance-id": v.Attached.Items[0].Instance, "attachment.device": v.Attached.Items[0].Device, "volume-type": v.Type,
			}))
		},
		pages: wire.Pages{Min: 5, Max: 1000},
	}.answer(r.Params)
	return struct {
		Set  wire.Set[describedVolume] `xml:"volumeSet"`
		Next string                    `xml:"nextToken,omitempty"`
	}{wire.NewSet(page...), next}, err
}
