package plan

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
)

// anyIP is the host IP of a port that a pod takes on all addresses of its node (DefaultBindAllHostIP of the scheduler's HostPortInfo).
const anyIP = "0.0.0.0"

// portNumber is a port of a node, whatever the address.
type portNumber struct {
	protocol corev1.Protocol
	number   int32
}

// hostPort is a host port that a pod takes on its node.
type hostPort struct {
	portNumber
	ip string
}

// portSet is the host ports of a pod or of a node: the addresses by port. Nil for none.
type portSet map[portNumber]map[string]bool

// hostPorts returns the host ports of the pod. A pod on the host's network takes all ports of its containers.
func hostPorts(spec *corev1.PodSpec) portSet {
	var out portSet
	add := func(c corev1.Container) {
		for _, p := range c.Ports {
			number := p.HostPort
			if spec.HostNetwork && number == 0 {
				number = p.ContainerPort
			}
			if number == 0 {
				continue
			}
			q := hostPort{portNumber{p.Protocol, number}, p.HostIP}
			if q.ip == "" {
				q.ip = anyIP
			}
			if q.protocol == "" {
				q.protocol = corev1.ProtocolTCP
			}
			out = out.add(q)
		}
	}
	for _, c := range spec.Containers {
		add(c)
	}
	for _, c := range spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(c)
		}
	}
	return out
}

// add returns the set with the port.
func (s portSet) add(p hostPort) portSet {
	if s == nil {
		s = portSet{}
	}
	if s[p.portNumber] == nil {
		s[p.portNumber] = map[string]bool{}
	}
	s[p.portNumber][p.ip] = true
	return s
}

// union returns the set with the ports of the other.
func (s portSet) union(o portSet) portSet {
	for at, ips := range o {
		for ip := range ips {
			s = s.add(hostPort{at, ip})
		}
	}
	return s
}

// clashes reports whether a port of one set is in the other: of the same number, where one of them is on all addresses or both on the same.
func (s portSet) clashes(o portSet) bool {
	if len(s) > len(o) {
		s, o = o, s
	}
	for at, ips := range s {
		others := o[at]
		if len(others) == 0 {
			continue
		}
		if ips[anyIP] || others[anyIP] {
			return true
		}
		for ip := range ips {
			if others[ip] {
				return true
			}
		}
	}
	return false
}

// portIndex has the classes by the host ports that they take, so that classes are not compared in pairs.
type portIndex struct {
	classes int
	// numbered are the classes by port, exact those by port and address.
	numbered map[portNumber]*portUsers
	exact    map[hostPort]*portUsers
}

// portUsers is a set of classes: a list while it is short, which takes less room.
type portUsers struct {
	list []int
	set  bitset.Set
}

func newPortIndex(classes []class) *portIndex {
	x := &portIndex{len(classes), map[portNumber]*portUsers{}, map[hostPort]*portUsers{}}
	for ci := range classes {
		for at, ips := range classes[ci].ports {
			if x.numbered[at] == nil {
				x.numbered[at] = &portUsers{}
			}
			x.numbered[at].add(ci, x.classes)
			for ip := range ips {
				p := hostPort{at, ip}
				if x.exact[p] == nil {
					x.exact[p] = &portUsers{}
				}
				x.exact[p].add(ci, x.classes)
			}
		}
	}
	return x
}

// add adds the class, of so many.
func (u *portUsers) add(ci, of int) {
	if u.set != nil {
		u.set.Add(ci)
		return
	}
	if u.list = append(u.list, ci); len(u.list) > of/64 {
		u.set = bitset.New(of)
		for _, other := range u.list {
			u.set.Add(other)
		}
		u.list = nil
	}
}

// addTo adds the classes to the set; none if u is nil.
func (u *portUsers) addTo(s bitset.Set) {
	if u == nil {
		return
	}
	if u.set != nil {
		s.Union(u.set)
		return
	}
	for _, ci := range u.list {
		s.Add(ci)
	}
}

// clashing returns the classes one of whose ports is among those of the set.
func (x *portIndex) clashing(ports portSet) bitset.Set {
	out := bitset.New(x.classes)
	for at, ips := range ports {
		if ips[anyIP] {
			x.numbered[at].addTo(out)
			continue
		}
		x.exact[hostPort{at, anyIP}].addTo(out)
		for ip := range ips {
			x.exact[hostPort{at, ip}].addTo(out)
		}
	}
	return out
}
