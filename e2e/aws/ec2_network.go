package aws

import (
	"context"
	"strconv"

	"github.com/slipway-k8s/slipway/e2e/aws/wire"
)

type subnetXML struct {
	SubnetID    string                 `xml:"subnetId"`
	SubnetARN   string                 `xml:"subnetArn"`
	State       string                 `xml:"state"`
	VPCID       string                 `xml:"vpcId"`
	CIDR        string                 `xml:"cidrBlock"`
	Free        int                    `xml:"availableIpAddressCount"`
	Zone        string                 `xml:"availabilityZone"`
	ZoneID      string                 `xml:"availabilityZoneId"`
	DefaultForA bool                   `xml:"defaultForAz"`
	Public      bool                   `xml:"mapPublicIpOnLaunch"`
	OwnerID     string                 `xml:"ownerId"`
	AssignIPv6  bool                   `xml:"assignIpv6AddressOnCreation"`
	IPv6        wire.Set[ipv6BlockXML] `xml:"ipv6CidrBlockAssociationSet"`
	Tags        wire.Set[tagXML]       `xml:"tagSet"`
}

func (s *Server) describeSubnets(_ context.Context, r request) (any, error) {
	page, next, err := listOf[Subnet]{
		items: s.resources.Subnets, key: func(n Subnet) string { return n.ID },
		idParam: "SubnetId",
		notFound: func(id string) error {
			return wire.Errorf("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", id)
		},
		attributes: func(n Subnet) wire.Attribute {
			return wire.Tagged(s.retagged.of(n.ID, n.Tags), fixed(map[string]string{
				"availability-zone": n.Zone, "availabilityZone": n.Zone, "availability-zone-id": n.ZoneID, "availabilityZoneId": n.ZoneID,
				"available-ip-address-count": strconv.Itoa(s.addresses.free(n.ID)),
				"cidr-block":                 n.CIDR, "cidr": n.CIDR, "cidrBlock": n.CIDR, "default-for-az": yesNo(s.cfg.Bare), "map-public-ip-on-launch": "false",
				"owner-id": s.cfg.AccountID, "state": "available", "subnet-id": n.ID, "vpc-id": s.resources.VPC.ID, "subnet-arn": s.ec2ARN("subnet", n.ID),
				"ipv6-cidr-block-association.ipv6-cidr-block": n.IPv6CIDR, "ipv6-native": "false",
			}))
		},
		pages: wire.Pages{Min: 5, Max: 1000},
	}.answer(r.Params)
	if err != nil {
		return nil, err
	}
	out := struct {
		Set  wire.Set[subnetXML] `xml:"subnetSet"`
		Next string              `xml:"nextToken,omitempty"`
	}{Next: next}
	for _, n := range page {
		out.Set.Items = append(out.Set.Items, subnetXML{
			SubnetID: n.ID, SubnetARN: s.ec2ARN("subnet", n.ID), State: "available", VPCID: s.resources.VPC.ID, CIDR: n.CIDR,
			Free: s.addresses.free(n.ID), Zone: n.Zone, ZoneID: n.ZoneID, DefaultForA: s.cfg.Bare, OwnerID: s.cfg.AccountID, Tags: tagSet(s.retagged.of(n.ID, n.Tags)),
			AssignIPv6: n.IPv6CIDR != "", IPv6: ipv6Blocks(n.ID, n.IPv6CIDR),
		})
	}
	return out, nil
}

func (s *Server) ec2ARN(kind, id string) string {
	return "arn:aws:ec2:" + s.cfg.Region + ":" + s.cfg.AccountID + ":" + kind + "/" + id
}

type securityGroupXML struct {
	OwnerID     string           `xml:"ownerId"`
	ID          string           `xml:"groupId"`
	Name        string           `xml:"groupName"`
	Description string           `xml:"groupDescription"`
	VPCID       string           `xml:"vpcId"`
	ARN         string           `xml:"securityGroupArn"`
	Tags        wire.Set[tagXML] `xml:"tagSet"`
}

func (s *Server) describeSecurityGroups(_ context.Context, r request) (any, error) {
	key := func(g SecurityGroup) string { return g.ID }
	byName := r.Params.At("GroupName").Given()
	idParam := "GroupId"
	if byName {
		idParam, key = "GroupName", func(g SecurityGroup) string { return g.Name }
	}
	page, next, err := listOf[SecurityGroup]{
		items: s.resources.SecurityGroups, key: key, idParam: idParam,
		notFound: func(id string) error {
			return wire.Errorf("InvalidGroup.NotFound", "The security group '%s' does not exist", id)
		},
		attributes: func(g SecurityGroup) wire.Attribute {
			return wire.Tagged(s.retagged.of(g.ID, g.Tags), fixed(map[string]string{
				"description": g.Description, "group-id": g.ID, "group-name": g.Name, "owner-id": s.cfg.AccountID, "vpc-id": s.resources.VPC.ID,
			}))
		},
		pages: wire.Pages{Min: 5, Max: 1000},
	}.answer(r.Params)
	if err != nil {
		return nil, err
	}
	out := struct {
		Set  wire.Set[securityGroupXML] `xml:"securityGroupInfo"`
		Next string                     `xml:"nextToken,omitempty"`
	}{Next: next}
	for _, g := range page {
		out.Set.Items = append(out.Set.Items, securityGroupXML{
			OwnerID: s.cfg.AccountID, ID: g.ID, Name: g.Name, Description: g.Description, VPCID: s.resources.VPC.ID,
			ARN: s.ec2ARN("security-group", g.ID), Tags: tagSet(s.retagged.of(g.ID, g.Tags)),
		})
	}
	return out, nil
}

type vpcXML struct {
	OwnerID string                 `xml:"ownerId"`
	ID      string                 `xml:"vpcId"`
	State   string                 `xml:"state"`
	CIDR    string                 `xml:"cidrBlock"`
	Tenancy string                 `xml:"instanceTenancy"`
	Default bool                   `xml:"isDefault"`
	IPv6    wire.Set[ipv6BlockXML] `xml:"ipv6CidrBlockAssociationSet"`
	Tags    wire.Set[tagXML]       `xml:"tagSet"`
}

func (s *Server) describeVPCs(_ context.Context, r request) (any, error) {
	page, _, err := listOf[VPC]{
		items: []VPC{s.resources.VPC}, key: func(v VPC) string { return v.ID }, idParam: "VpcId",
		notFound: func(id string) error {
			return wire.Errorf("InvalidVpcID.NotFound", "The vpc ID '%s' does not exist", id)
		},
		attributes: func(v VPC) wire.Attribute {
			return wire.Tagged(v.Tags, fixed(map[string]string{
				"cidr": v.CIDR, "is-default": "false", "owner-id": s.cfg.AccountID, "state": "available", "vpc-id": v.ID,
			}))
		},
		pages: wire.Pages{Min: 5, Max: 1000},
	}.answer(r.Params)
	if err != nil {
		return nil, err
	}
	out := struct {
		Set wire.Set[vpcXML] `xml:"vpcSet"`
	}{}
	for _, v := range page {
		out.Set.Items = append(out.Set.Items, vpcXML{
			OwnerID: s.cfg.AccountID, ID: v.ID, State: "available", CIDR: v.CIDR, Tenancy: "default", Tags: tagSet(v.Tags),
			IPv6: ipv6Blocks(v.ID, v.IPv6CIDR),
		})
	}
	return out, nil
}

type zoneXML struct {
	OptIn   string             `xml:"optInStatus"`
	Message wire.Set[struct{}] `xml:"messageSet"`
	Region  string             `xml:"regionName"`
	Name    string             `xml:"zoneName"`
	ID      string             `xml:"zoneId"`
	Group   string             `xml:"groupName"`
	Border  string             `xml:"networkBorderGroup"`
	Type    string             `xml:"zoneType"`
	State   string             `xml:"zoneState"`
}

func (s *Server) describeAvailabilityZones(_ context.Context, r request) (any, error) {
	var zones []zoneXML
	for _, n := range s.resources.Subnets {
		zones = append(zones, zoneXML{
			OptIn: "opt-in-not-required", Region: s.cfg.Region, Name: n.Zone, ID: n.ZoneID, Group: s.cfg.Region + "-zg-1",
			Border: s.cfg.Region, Type: "availability-zone", State: "available",
		})
	}
	page, _, err := listOf[zoneXML]{
		items: zones, key: func(z zoneXML) string { return z.Name }, idParam: "ZoneName",
		notFound: func(name string) error {
			return wire.Errorf("InvalidParameterValue", "Invalid availability zone: [%s]", name)
		},
		attributes: func(z zoneXML) wire.Attribute {
			return fixed(map[string]string{
				"group-name": z.Group, "opt-in-status": z.OptIn, "region-name": z.Region, "state": z.State,
				"zone-id": z.ID, "zone-name": z.Name, "zone-type": z.Type,
			})
		},
	}.answer(r.Params)
	if err != nil {
		return nil, err
	}
	return struct {
		Set wire.Set[zoneXML] `xml:"availabilityZoneInfo"`
	}{wire.NewSet(page...)}, nil
}

type regionXML struct {
	Name     string `xml:"regionName"`
	Endpoint string `xml:"regionEndpoint"`
	OptIn    string `xml:"optInStatus"`
}

func (s *Server) describeRegions(_ context.Context, r request) (any, error) {
	only := regionXML{s.cfg.Region, "ec2." + s.cfg.Region + ".amazonaws.com", "opt-in-not-required"}
	page, _, err := listOf[regionXML]{
		items: []regionXML{only}, key: func(r regionXML) string { return r.Name }, idParam: "RegionName",
		notFound: func(name string) error {
			return wire.Errorf("InvalidParameterValue", "Invalid region: [%s]", name)
		},
		attributes: func(r regionXML) wire.Attribute {
			return fixed(map[string]string{"endpoint": r.Endpoint, "opt-in-status": r.OptIn, "region-name": r.Name})
		},
	}.answer(r.Params)
	if err != nil {
		return nil, err
	}
	return struct {
		Set wire.Set[regionXML] `xml:"regionInfo"`
	}{wire.NewSet(page...)}, nil
}
