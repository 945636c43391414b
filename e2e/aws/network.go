package aws

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/slipway-k8s/slipway/e2e/aws/hardware"
	"github.com/slipway-k8s/slipway/e2e/aws/instancetypes"
	"github.com/slipway-k8s/slipway/e2e/aws/wire"
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
	// CIDR of its addresses, IPv6CIDR of its IPv6 addresses; empty for none.
	CIDR, IPv6CIDR string
	// Tags are its tags.
	Tags map[string]string
}

// Subnet is a subnet of the VPC.
type Subnet struct {
	// ID such as subnet-0123456789abcdef0.
	ID string
	// Zone that it is in, by name and by id.
	Zone, ZoneID string
	// CIDR of its addresses, IPv6CIDR of its IPv6 addresses; empty for none. With one, each new interface gets an IPv6 address.
	CIDR, IPv6CIDR string
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
	setIPv6(&out, cfg)
	return out
}

// setIPv6 gives the VPC of an IPv6 cluster a /56 and its subnets a /64 each (VPC user guide, "IPv6 VPC CIDR blocks").
func setIPv6(r *Resources, cfg *Config) {
	if !cfg.IPv6 {
		return
	}
	r.VPC.IPv6CIDR = "2600:1f18:1234:ab00::/56"
	for i := range r.Subnets {
		if !slices.Contains(cfg.WithoutIPv6, r.Subnets[i].Zone) {
			r.Subnets[i].IPv6CIDR = fmt.Sprintf("2600:1f18:1234:ab%02x::/64", i+1)
		}
	}
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
	// six are the IPv6 addresses; nil for none.
	six    *block6
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
		six, err := newBlock6(s.IPv6CIDR)
		if err != nil {
			return nil, fmt.Errorf("subnet %s: %w", s.ID, err)
		}
		a.subnets[s.ID] = &block{prefix: prefix, next: prefix.Addr(), taken: map[netip.Addr]bool{}, six: six}
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

// groups returns the security groups with these ids or names, or the VPC's default one.
func (r Resources) groups(idsOrNames []string) ([]hardware.Group, *wire.Error) {
	var out []hardware.Group
	for _, id := range slices.Compact(idsOrNames) {
		g, ok := r.group(id)
		if !ok {
			return nil, wire.Errorf("InvalidGroup.NotFound", "The security group '%s' does not exist", id)
		}
		out = append(out, hardware.Group{ID: g.ID, Name: g.Name})
	}
	if len(out) == 0 {
		out = []hardware.Group{{ID: r.SecurityGroups[1].ID, Name: r.SecurityGroups[1].Name}}
	}
	return out, nil
}

// interfacesIn reads the network interfaces of a launch in the subnet, which must have an IPv6 range if they want IPv6 addresses.
func (r Resources) interfacesIn(subnet Subnet, data wire.Params, info instancetypes.Type) ([]hardware.Interface, *wire.Error) {
	nics, err := hardware.Interfaces(data, info, r.groups)
	if err != nil {
		return nil, err
	}
	for _, n := range nics {
		if subnet.IPv6CIDR == "" && (n.IPv6Count > 0 || n.IPv6PrefixCount > 0) {
			return nil, wire.Errorf("InvalidParameterValue", "The subnet '%s' has no associated IPv6 CIDR block: IPv6 addresses cannot be assigned to a network interface in it.", subnet.ID)
		}
	}
	return nics, nil
}

// attach gives network interfaces their addresses in the subnet, all or none. It returns the code and message of EC2's refusal.
func (a *addresses) attach(subnet string, wanted []hardware.Interface) ([]hardware.Interface, *wire.Error) {
	nics := slices.Clone(wanted)
	for i := range nics {
		n := &nics[i]
		if n.Kind == hardware.KindEFAOnly {
			continue
		}
		var ok bool
		if n.IP, ok = a.take(subnet); !ok {
			a.detach(subnet, nics[:i])
			return nil, wire.Errorf("InsufficientFreeAddressesInSubnet", "There are not enough free addresses in subnet '%s' to satisfy the requested number of instances.", subnet)
		}
		for range n.PrefixCount {
			prefix, ok := a.takePrefix(subnet)
			if !ok {
				a.detach(subnet, nics[:i+1])
				return nil, wire.Errorf("InsufficientCidrBlocks", "The specified subnet '%s' does not have enough free cidr blocks to satisfy the request.", subnet)
			}
			n.Prefixes = append(n.Prefixes, prefix)
		}
		if err := a.attachIPv6(subnet, n); err != nil {
			a.detach(subnet, nics[:i+1])
			return nil, err
		}
	}
	return nics, nil
}

func (a *addresses) attachIPv6(subnet string, n *hardware.Interface) *wire.Error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.subnets[subnet].six.attach(subnet, n)
}

func (a *addresses) detachIPv6(subnet string, n hardware.Interface) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.subnets[subnet].six.detach(n)
}

// detach releases the addresses of network interfaces.
func (a *addresses) detach(subnet string, nics []hardware.Interface) {
	for _, n := range nics {
		if n.IP != "" {
			a.release(subnet, n.IP)
		}
		for _, prefix := range n.Prefixes {
			a.releasePrefix(subnet, prefix)
		}
		a.detachIPv6(subnet, n)
	}
}

// takePrefix takes a /28 block of a subnet, the last free one.
func (a *addresses) takePrefix(subnet string) (netip.Prefix, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.subnets[subnet]
	last := binary.BigEndian.Uint32(b.prefix.Addr().AsSlice()) + 1<<(32-b.prefix.Bits())
	for n := range 1<<(28-b.prefix.Bits()) - 2 { // The first and the last block have reserved addresses.
		var octets [4]byte
		binary.BigEndian.PutUint32(octets[:], last-uint32(n+2)*16)
		prefix := netip.PrefixFrom(netip.AddrFrom4(octets), 28)
		if !slices.ContainsFunc(hostsOf(prefix), func(ip netip.Addr) bool { return b.taken[ip] }) {
			for _, ip := range hostsOf(prefix) {
				b.taken[ip] = true
			}
			return prefix, true
		}
	}
	return netip.Prefix{}, false
}

func (a *addresses) releasePrefix(subnet string, prefix netip.Prefix) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, ip := range hostsOf(prefix) {
		delete(a.subnets[subnet].taken, ip)
	}
}

// hostsOf returns all addresses of a prefix.
func hostsOf(prefix netip.Prefix) []netip.Addr {
	var out []netip.Addr
	for ip := prefix.Addr(); prefix.Contains(ip); ip = ip.Next() {
		out = append(out, ip)
	}
	return out
}

// publicIP returns the public address of a private one.
func publicIP(private string) string {
	_, rest, _ := strings.Cut(private, ".")
	return "54." + rest
}

// publicDNSName returns the name that EC2 gives to a public address (VPC user guide, "DNS attributes for your VPC").
func publicDNSName(region, ip string) string {
	domain := region + ".compute"
	if region == "us-east-1" {
		domain = "compute-1"
	}
	return "ec2-" + strings.ReplaceAll(ip, ".", "-") + "." + domain + ".amazonaws.com"
}

// privateDNSName returns the name that EC2 gives to an address (VPC user guide, "Amazon EC2 instance hostname types").
func privateDNSName(region, ip string) string {
	domain := region + ".compute.internal"
	if region == "us-east-1" {
		domain = "ec2.internal"
	}
	return "ip-" + strings.ReplaceAll(ip, ".", "-") + "." + domain
}
