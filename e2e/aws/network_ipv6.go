package aws

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/slipway-k8s/slipway/e2e/aws/hardware"
	"github.com/slipway-k8s/slipway/e2e/aws/wire"
)

// block6 allocates the addresses of a /64 from its first /80, and the /80 blocks after it as prefixes.
type block6 struct {
	prefix netip.Prefix
	// next is the last part of the next address; an address is not allocated twice.
	next uint64
	// last is the number of the /80 that was taken last, taken are those in use.
	last  uint16
	taken map[uint16]bool
}

// newBlock6 returns the addresses of a range; nil for none.
func newBlock6(cidr string) (*block6, error) {
	if cidr == "" {
		return nil, nil
	}
	prefix, err := netip.ParsePrefix(cidr)
	if err != nil {
		return nil, fmt.Errorf("parsing the IPv6 CIDR: %w", err)
	}
	// The first four addresses are reserved (VPC user guide, "Subnet sizing for IPv6").
	return &block6{prefix: prefix, next: 4, taken: map[uint16]bool{}}, nil
}

func (b *block6) address(low uint64) netip.Addr {
	octets := b.prefix.Addr().As16()
	binary.BigEndian.PutUint64(octets[8:], low)
	return netip.AddrFrom16(octets)
}

// block returns the /80 of a number.
func (b *block6) block(n uint16) netip.Prefix { return netip.PrefixFrom(b.address(uint64(n)<<48), 80) }

// attach gives a network interface its IPv6 addresses and prefixes. Without a wanted number it gets one address, because the subnets have
// assignIpv6AddressOnCreation.
func (b *block6) attach(subnet string, n *hardware.Interface) *wire.Error {
	if b == nil {
		return nil
	}
	n.IPv6, n.IPv6Prefixes = nil, nil
	for range max(n.IPv6Count, 1) {
		n.IPv6 = append(n.IPv6, b.address(b.next))
		b.next++
	}
	for range n.IPv6PrefixCount {
		if len(b.taken) >= 1<<16-1 {
			return wire.Errorf("InsufficientCidrBlocks", "The specified subnet '%s' does not have enough free cidr blocks to satisfy the request.", subnet)
		}
		for b.last++; b.last == 0 || b.taken[b.last]; b.last++ {
			continue
		}
		b.taken[b.last] = true
		n.IPv6Prefixes = append(n.IPv6Prefixes, b.block(b.last))
	}
	return nil
}

func (b *block6) detach(n hardware.Interface) {
	for _, prefix := range n.IPv6Prefixes {
		octets := prefix.Addr().As16()
		delete(b.taken, binary.BigEndian.Uint16(octets[8:10]))
	}
}

// firstIPv6 returns the first IPv6 address of the primary network interface; empty for none.
func firstIPv6(nics []hardware.Interface) string {
	if len(nics) == 0 || len(nics[0].IPv6) == 0 {
		return ""
	}
	return nics[0].IPv6[0].String()
}

// ipv6BlockXML is the IPv6 range of a subnet or a VPC in a response.
type ipv6BlockXML struct {
	ID    string `xml:"associationId"`
	CIDR  string `xml:"ipv6CidrBlock"`
	State string `xml:"ipv6CidrBlockState>state"`
}

func ipv6Blocks(id, cidr string) wire.Set[ipv6BlockXML] {
	if cidr == "" {
		return wire.Set[ipv6BlockXML]{}
	}
	return wire.NewSet(ipv6BlockXML{ID: fixedID("subnet-cidr-assoc", id), CIDR: cidr, State: "associated"})
}
