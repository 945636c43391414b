package aws

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
)

// Resources are what exists from the start.
type Resources struct {
	// VPC is the cluster's.
	VPC VPC
	// Subnets are one per zone, tagged karpenter.sh/discovery=CLUSTER.
	Subnets []Subnet
	// SecurityGroups are the cluster's, tagged karpenter.sh/discovery=CLUSTER, and the VPC's default one without the tag.
	SecurityGroups []SecurityGroup
}

// VPC is a virtual private cloud.
type VPC struct {
	// ID such as vpc-0123456789abcdef0.
	ID string
	// CIDR of its addresses.
	CIDR string
	// Tags are its tags.
	Tags map[string]string
}

// Subnet is a subnet of the VPC.
type Subnet struct {
	// ID such as subnet-0123456789abcdef0.
	ID string
	// Zone that it is in, by name and by id.
	Zone, ZoneID string
	// CIDR of its addresses.
	CIDR string
	// Tags are its tags.
	Tags map[string]string
}

// SecurityGroup is a security group of the VPC.
type SecurityGroup struct {
	// ID such as sg-0123456789abcdef0.
	ID string
	// Name and Description.
	Name, Description string
	// Tags are its tags.
	Tags map[string]string
}

// newResources makes what eksctl makes for a cluster, as far as nodes need it.
func newResources(cfg *Config) Resources {
	name := cfg.ClusterName
	discovery := func(more map[string]string) map[string]string {
		if cfg.Bare {
			return map[string]string{}
		}
		tags := map[string]string{"karpenter.sh/discovery": name, "kubernetes.io/cluster/" + name: "owned"}
		maps.Copy(tags, more)
		return tags
	}
	out := Resources{
		VPC: VPC{ID: fixedID("vpc", name), CIDR: "192.168.0.0/16", Tags: map[string]string{"Name": name + "/VPC"}},
		SecurityGroups: []SecurityGroup{
			{
				ID: fixedID("sg", name+"/nodes"), Name: "eks-cluster-sg-" + name,
				Description: "EKS created security group applied to ENI that is attached to EKS Control Plane master nodes, as well as any managed workloads.",
				Tags:        discovery(map[string]string{"aws:eks:cluster-name": name, "Name": "eks-cluster-sg-" + name}),
			},
			{ID: fixedID("sg", name+"/default"), Name: "default", Description: "default VPC security group", Tags: map[string]string{}},
		},
	}
	for i, zone := range cfg.zones() {
		out.Subnets = append(out.Subnets, Subnet{
			ID: fixedID("subnet", name+"/"+zone), Zone: zone, ZoneID: fmt.Sprintf("%s-az%d", shortRegion(cfg.Region), i+1),
			CIDR: fmt.Sprintf("192.168.%d.0/19", 96+32*i),
			Tags: discovery(map[string]string{"Name": name + "/SubnetPrivate" + strings.ToUpper(zone), "kubernetes.io/role/internal-elb": "1"}),
		})
	}
	return out
}

// shortRegion returns a region as zone ids name it: use1 for us-east-1, apse2 for ap-southeast-2.
func shortRegion(region string) string {
	first, rest, _ := strings.Cut(region, "-")
	return first + strings.NewReplacer("north", "n", "south", "s", "east", "e", "west", "w", "central", "c", "-", "").Replace(rest)
}

func (r Resources) subnet(id string) (Subnet, bool) {
	i := slices.IndexFunc(r.Subnets, func(s Subnet) bool { return s.ID == id })
	if i < 0 {
		return Subnet{}, false
	}
	return r.Subnets[i], true
}

func (r Resources) subnetIn(zone string) (Subnet, bool) {
	i := slices.IndexFunc(r.Subnets, func(s Subnet) bool { return s.Zone == zone })
	if i < 0 {
		return Subnet{}, false
	}
	return r.Subnets[i], true
}

func (r Resources) group(idOrName string) (SecurityGroup, bool) {
	i := slices.IndexFunc(r.SecurityGroups, func(g SecurityGroup) bool { return g.ID == idOrName || g.Name == idOrName })
	if i < 0 {
		return SecurityGroup{}, false
	}
	return r.SecurityGroups[i], true
}

// reserved is how many addresses of a subnet AWS reserves (VPC user guide, "Subnet sizing for IPv4").
const reserved = 5

// addresses allocates private addresses. A released one is allocated again only after all others.
type addresses struct {
	mu      sync.Mutex
	subnets map[string]*block
}

type block struct {
	prefix netip.Prefix
	next   netip.Addr
	taken  map[netip.Addr]bool
}

func newAddresses(subnets []Subnet) (*addresses, error) {
	a := &addresses{subnets: map[string]*block{}}
	for _, s := range subnets {
		prefix, err := netip.ParsePrefix(s.CIDR)
		if err != nil {
			return nil, fmt.Errorf("parsing the CIDR of subnet %s: %w", s.ID, err)
		}
		a.subnets[s.ID] = &block{prefix: prefix, next: prefix.Addr(), taken: map[netip.Addr]bool{}}
	}
	return a, nil
}

func (b *block) size() int { return 1<<(32-b.prefix.Bits()) - reserved }

// usable reports whether an address is neither among the first four of the subnet nor its last.
func (b *block) usable(ip netip.Addr) bool {
	first := b.prefix.Addr()
	for range 4 {
		if ip == first {
			return false
		}
		first = first.Next()
	}
	return b.prefix.Contains(ip.Next())
}

// free returns the number of free addresses.
func (a *addresses) free(subnet string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.subnets[subnet]
	return b.size() - len(b.taken)
}

func (a *addresses) take(subnet string) (string, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.subnets[subnet]
	if len(b.taken) >= b.size() {
		return "", false
	}
	for {
		b.next = b.next.Next()
		if !b.prefix.Contains(b.next) {
			b.next = b.prefix.Addr()
		}
		if b.usable(b.next) && !b.taken[b.next] {
			b.taken[b.next] = true
			return b.next.String(), true
		}
	}
}

func (a *addresses) release(subnet, ip string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if addr, err := netip.ParseAddr(ip); err == nil {
		delete(a.subnets[subnet].taken, addr)
	}
}

// privateDNSName returns the name that EC2 gives to an address (VPC user guide, "Amazon EC2 instance hostname types").
func privateDNSName(region, ip string) string {
	domain := region + ".compute.internal"
	if region == "us-east-1" {
		domain = "ec2.internal"
	}
	return "ip-" + strings.ReplaceAll(ip, ".", "-") + "." + domain
}
