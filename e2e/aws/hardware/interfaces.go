// Package hardware reads what a launch template gives its instances, as EC2 does, and what EC2 refuses of it. It is pure.
package hardware

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-k8s/slipway/e2e/aws/instancetypes"
	"github.com/slipway-k8s/slipway/e2e/aws/wire"
)

// Interface is a network interface of an instance.
type Interface struct {
	// ID such as eni-0123456789abcdef0; set by the launch.
	ID string
	// Kind is one of the constants.
	Kind string
	// Card and Device are the indexes of its network card and of the interface on it.
	Card, Device int
	// Groups are its security groups.
	Groups []Group
	// IP is its private IPv4 address, set by the launch; empty for KindEFAOnly.
	IP string
	// PrefixCount is the wanted number of IPv4 prefixes, Prefixes are those of the launch.
	PrefixCount int
	// Prefixes of the launch.
	Prefixes []netip.Prefix
	// IPv6Count and IPv6PrefixCount are the wanted numbers of IPv6 addresses and prefixes.
	IPv6Count, IPv6PrefixCount int
	// Public gives the primary interface a public IPv4 address.
	Public bool
	// PrimaryIPv6 makes the first IPv6 address the primary one.
	PrimaryIPv6 bool
	// IPv6 and IPv6Prefixes are those of the launch.
	IPv6         []netip.Addr
	IPv6Prefixes []netip.Prefix
	// Tracking are the idle timeouts.
	Tracking Tracking
}

// Group is a security group in a response.
type Group struct {
	// ID such as sg-0123456789abcdef0.
	ID string `xml:"groupId"`
	// Name of the group.
	Name string `xml:"groupName"`
}

// The kinds of network interfaces (EC2 API reference, InterfaceType).
const (
	// KindInterface carries IP traffic.
	KindInterface = "interface"
	// KindEFA is an Elastic Fabric Adapter that carries IP traffic as well.
	KindEFA = "efa"
	// KindEFAOnly is an Elastic Fabric Adapter without an IP address.
	KindEFAOnly = "efa-only"
)

// IsEFA reports whether the interface is an Elastic Fabric Adapter.
func (n Interface) IsEFA() bool { return n.Kind == KindEFA || n.Kind == KindEFAOnly }

// FindGroups returns the security groups with these ids or names, or the VPC's default one for none.
type FindGroups func(idsOrNames []string) ([]Group, *wire.Error)

// Interfaces reads the network interfaces of a launch, the primary one first. Without any, an instance has one with the launch's security groups.
func Interfaces(data wire.Params, info instancetypes.Type, find FindGroups) ([]Interface, *wire.Error) {
	specs := data.Each("NetworkInterface")
	if len(specs) == 0 {
		groups, err := find(slices.Concat(data.Strings("SecurityGroupId"), data.Strings("SecurityGroup")))
		return []Interface{{Kind: KindInterface, Groups: groups}}, err
	}
	var out []Interface
	seen := map[[2]int]bool{}
	for _, spec := range specs {
		n, err := interfaceOf(spec, find)
		if err != nil {
			return nil, err
		}
		at := [2]int{n.Card, n.Device}
		if seen[at] {
			return nil, wire.Errorf("InvalidParameterValue", "Each network interface requires a unique device index.")
		}
		seen[at] = true
		if len(specs) > 1 && spec.Bool("AssociatePublicIpAddress") {
			return nil, wire.Errorf("InvalidParameterCombination", "The associatePublicIPAddress parameter cannot be specified when launching with multiple network interfaces.")
		}
		out = append(out, n)
	}
	if !seen[[2]int{}] {
		return nil, wire.Errorf("InvalidParameterCombination", "A primary network interface is required: device index 0 of network card 0.")
	}
	slices.SortFunc(out, func(a, b Interface) int { return cmp.Or(cmp.Compare(a.Card, b.Card), cmp.Compare(a.Device, b.Device)) })
	return out, interfacesFit(out, info)
}

func interfaceOf(spec wire.Params, find FindGroups) (Interface, *wire.Error) {
	n := Interface{Kind: cmp.Or(spec.Get("InterfaceType"), KindInterface)}
	if !slices.Contains([]string{KindInterface, KindEFA, KindEFAOnly}, n.Kind) {
		return n, wire.Errorf("InvalidParameterValue", "Value (%s) for parameter interfaceType is invalid.", n.Kind)
	}
	for name, into := range map[string]*int{
		"NetworkCardIndex": &n.Card, "DeviceIndex": &n.Device, "Ipv4PrefixCount": &n.PrefixCount,
		"Ipv6AddressCount": &n.IPv6Count, "Ipv6PrefixCount": &n.IPv6PrefixCount,
	} {
		count, err := spec.Int(name, 0)
		if err != nil || count < 0 {
			return n, wire.Errorf("InvalidParameterValue", "Value (%s) for parameter %s is invalid.", spec.Get(name), name)
		}
		*into = count
	}
	n.PrimaryIPv6, n.Public = spec.Bool("PrimaryIpv6"), spec.Bool("AssociatePublicIpAddress")
	if n.Kind == KindEFAOnly {
		for _, name := range []string{
			"AssociatePublicIpAddress", "Ipv4PrefixCount", "Ipv6AddressCount", "Ipv6PrefixCount", "PrimaryIpv6", "ConnectionTrackingSpecification",
		} {
			if spec.At(name).Given() {
				return n, wire.Errorf("InvalidParameterValue", "An efa-only network interface has no IP address: the parameter %s cannot be specified for it.", name)
			}
		}
		if n.Card == 0 && n.Device == 0 {
			return n, wire.Errorf("InvalidParameterCombination", "An efa-only network interface cannot be the primary network interface.")
		}
	}
	var err *wire.Error
	if n.Tracking, err = trackingOf(spec.At("ConnectionTrackingSpecification")); err != nil {
		return n, err
	}
	n.Groups, err = find(spec.Strings("SecurityGroupId"))
	return n, err
}

// interfacesFit returns an error where the instance type cannot have the interfaces.
func interfacesFit(nics []Interface, info instancetypes.Type) *wire.Error {
	efas, onCard := 0, map[int]int{}
	for _, n := range nics {
		room := int64(0)
		for _, card := range info.Limits.NetworkCards {
			if card.NetworkCardIndex == int64(n.Card) {
				room = card.MaximumNetworkInterfaces
			}
		}
		if int64(n.Device) >= room {
			return wire.Errorf("AttachmentLimitExceeded", "Device index %d of network card %d exceeds the limit for %s", n.Device, n.Card, info.Name)
		}
		if n.IsEFA() {
			efas++
			onCard[n.Card]++
		}
		if onCard[n.Card] > 1 {
			return wire.Errorf("InvalidParameterCombination", "Network card %d of %s supports one EFA.", n.Card, info.Name)
		}
		if most := info.Limits.IPv4PerInterface; n.PrefixCount >= most {
			return wire.Errorf("InvalidParameterValue", "The number of prefixes exceeds the limit of %d per network interface of %s.", most, info.Name)
		}
		// DescribeInstanceTypes: an interface has as many IPv6 addresses as IPv4 addresses. A prefix counts as one.
		if most := info.Limits.IPv4PerInterface; n.IPv6Count+n.IPv6PrefixCount > most {
			return wire.Errorf("InvalidParameterValue", "The number of IPv6 addresses exceeds the limit of %d per network interface of %s.", most, info.Name)
		}
	}
	if efas > info.EFAs {
		return wire.Errorf("InvalidParameterCombination", "%s supports %d EFA interfaces, and not %d.", info.Name, info.EFAs, efas)
	}
	return nil
}

// Tracking are the idle timeouts of tracked connections.
type Tracking struct {
	// Established is in seconds, as are the others; 0 leaves EC2's default.
	Established int `xml:"tcpEstablishedTimeout,omitempty"`
	// Stream is the timeout of UDP flows with several requests.
	Stream int `xml:"udpStreamTimeout,omitempty"`
	// UDP is the timeout of other UDP flows.
	UDP int `xml:"udpTimeout,omitempty"`
}

// trackingOf reads the timeouts, which EC2 limits (EC2 user guide, "Idle connection tracking timeout").
func trackingOf(spec wire.Params) (Tracking, *wire.Error) {
	var out Tracking
	for _, t := range []struct {
		name        string
		into        *int
		least, most int
	}{
		{"TcpEstablishedTimeout", &out.Established, 60, 432000},
		{"UdpStreamTimeout", &out.Stream, 60, 180},
		{"UdpTimeout", &out.UDP, 30, 60},
	} {
		text := spec.Get(t.name)
		if text == "" {
			continue
		}
		seconds, err := strconv.Atoi(text)
		if err != nil || seconds < t.least || seconds > t.most {
			return out, wire.Errorf("InvalidParameterValue", "Value (%s) for parameter %s is invalid: it is between %d and %d seconds.", text, t.name, t.least, t.most)
		}
		*t.into = seconds
	}
	return out, nil
}

// InterfaceXML is a network interface in the description of an instance.
type InterfaceXML struct {
	// ID, SubnetID, VPCID and OwnerID name it and where it is.
	ID string `xml:"networkInterfaceId"`
	// SubnetID is that of its subnet.
	SubnetID string `xml:"subnetId"`
	// VPCID is that of its VPC.
	VPCID string `xml:"vpcId"`
	// OwnerID is the account.
	OwnerID string `xml:"ownerId"`
	// Status is in-use.
	Status string `xml:"status"`
	// PrivateIP is empty for KindEFAOnly.
	PrivateIP string `xml:"privateIpAddress,omitempty"`
	// DNS is the name of PrivateIP.
	DNS string `xml:"privateDnsName,omitempty"`
	// Groups are its security groups.
	Groups wire.Set[Group] `xml:"groupSet"`
	// Kind of the interface.
	Kind string `xml:"interfaceType"`
	// Attachment to the instance.
	Attachment AttachmentXML `xml:"attachment"`
	// Prefixes are IPv4.
	Prefixes wire.Set[PrefixXML] `xml:"ipv4PrefixSet"`
	// IPv6 are its IPv6 addresses.
	IPv6 wire.Set[IPv6XML] `xml:"ipv6AddressesSet"`
	// IPv6Prefixes are its IPv6 prefixes.
	IPv6Prefixes wire.Set[IPv6PrefixXML] `xml:"ipv6PrefixSet"`
	// Tracking is nil for EC2's defaults.
	Tracking *Tracking `xml:"connectionTrackingConfiguration"`
}

// AttachmentXML says where on the instance a network interface is.
type AttachmentXML struct {
	// ID of the attachment.
	ID string `xml:"attachmentId"`
	// Device is the index on the network card.
	Device int `xml:"deviceIndex"`
	// Card is the index of the network card.
	Card int `xml:"networkCardIndex"`
	// Status is attached.
	Status string `xml:"status"`
	// Delete is true where the interface ends with its instance.
	Delete bool `xml:"deleteOnTermination"`
}

// PrefixXML is a prefix of IPv4 addresses.
type PrefixXML struct {
	// Prefix such as 192.168.96.16/28.
	Prefix string `xml:"ipv4Prefix"`
}

// IPv6XML is an IPv6 address of a network interface.
type IPv6XML struct {
	// Address such as 2600:1f18:1234:ab01::4.
	Address string `xml:"ipv6Address"`
	// Primary is true for the address that stays the interface's for its life.
	Primary bool `xml:"isPrimaryIpv6"`
}

// IPv6PrefixXML is a prefix of IPv6 addresses.
type IPv6PrefixXML struct {
	// Prefix such as 2600:1f18:1234:ab01:1::/80.
	Prefix string `xml:"ipv6Prefix"`
}

// Described returns the interface as DescribeInstances does. in has the subnet, the VPC and the account.
func (n Interface) Described(in InterfaceXML) InterfaceXML {
	in.ID, in.Status, in.PrivateIP, in.Kind = n.ID, "in-use", n.IP, n.Kind
	in.Groups = wire.NewSet(n.Groups...)
	in.Attachment = AttachmentXML{strings.Replace(n.ID, "eni-", "eni-attach-", 1), n.Device, n.Card, "attached", true}
	for _, prefix := range n.Prefixes {
		in.Prefixes.Items = append(in.Prefixes.Items, PrefixXML{prefix.String()})
	}
	for i, ip := range n.IPv6 {
		in.IPv6.Items = append(in.IPv6.Items, IPv6XML{ip.String(), n.PrimaryIPv6 && i == 0})
	}
	for _, prefix := range n.IPv6Prefixes {
		in.IPv6Prefixes.Items = append(in.IPv6Prefixes.Items, IPv6PrefixXML{prefix.String()})
	}
	if n.Tracking != (Tracking{}) {
		in.Tracking = &n.Tracking
	}
	return in
}
