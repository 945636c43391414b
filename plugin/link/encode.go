package link

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// Request returns the plan as a message to the launcher: its claims, and its placements on in-flight nodes. The scheduler makes
// placements on existing nodes itself. classes are those of the plan's input.
func Request(batch string, purpose api.Purpose, p plan.Plan, classes []plan.Class) *api.LaunchRequest {
	req := &api.LaunchRequest{Batch: batch, Purpose: purpose}
	var nodes [][]plan.Member
	for _, c := range p.Claims {
		req.Claims = append(req.Claims, claim(c))
		nodes = append(nodes, c.Members)
	}
	for _, pl := range p.Placements {
		if pl.InFlight && !virtual(pl.Members) {
			req.Placements = append(req.Placements, &api.InFlightPlacement{NodeClaim: pl.Node, Pods: podRefs(pl.Members)})
			nodes = append(nodes, pl.Members)
		}
	}
	for i, group := range groups(classes, nodes) {
		if i < len(req.Claims) {
			req.Claims[i].Group = group
		} else {
			req.Placements[i-len(req.Claims)].Group = group
		}
	}
	return req
}

func claim(c plan.Claim) *api.Claim {
	out := &api.Claim{
		Name: c.Name, NodePool: c.NodePool, InstanceTypes: c.Alternatives, Requests: texts(c.Requests),
		Pods: podRefs(c.Members), Replaces: c.Replaces, DraDrivers: c.DRADrivers, Standby: c.Standby,
		Expected: &api.Expected{
			InstanceType: c.Expected.InstanceType, Zone: c.Expected.Zone,
			CapacityType: c.Expected.CapacityType, Price: c.Expected.Price, CoveredBy: c.Covered, PassedOver: c.PassedOver,
			Cost: Cost(c.Cost),
		},
	}
	for _, r := range c.Requirements {
		out.Requirements = append(out.Requirements, &api.Requirement{
			Key: r.Key, Operator: string(r.Operator), Values: r.Values, MinValues: r.MinValues,
		})
	}
	return out
}

// Cost encodes what a node costs.
func Cost(c catalog.Cost) *api.Cost {
	return &api.Cost{
		Instance: c.Instance, Volumes: c.Volumes, PublicIpv4: c.PublicIPv4, Burst: c.Burst, Declared: c.Declared, Interruptions: c.Interruptions,
	}
}

// virtual reports whether the members are pods of capacity buffers alone: the launcher need not know of a placement of these.
func virtual(members []plan.Member) bool {
	return !slices.ContainsFunc(members, func(m plan.Member) bool { return len(m.Pods) == 0 || !m.Pods[0].Virtual() })
}

// podRefs lists the pods that exist.
func podRefs(members []plan.Member) []*api.PodRef {
	var out []*api.PodRef
	for _, m := range members {
		for _, p := range m.Pods {
			if !p.Virtual() {
				out = append(out, podRef(p))
			}
		}
	}
	return out
}

func podRef(p catalog.PodRef) *api.PodRef {
	return &api.PodRef{Namespace: p.Namespace, Name: p.Name, Uid: p.UID, SchedulerOnly: p.SchedulerOnly, Adopted: p.Adopted}
}

func texts(list corev1.ResourceList) map[string]string {
	out := make(map[string]string, len(list))
	for name, q := range list {
		out[string(name)] = q.String()
	}
	return out
}

// groups returns a group of nodes for each list of members, empty for none. Nodes that hold pods of one gang are in one group,
// with those of another gang that shares a node with it. The name is that of the first of the gangs.
func groups(classes []plan.Class, nodes [][]plan.Member) []string {
	first := map[string]string{}
	var root func(string) string
	root = func(gang string) string {
		if next, ok := first[gang]; ok && next != gang {
			return root(next)
		}
		return gang
	}
	gangs := make([]string, len(nodes))
	for i, members := range nodes {
		for _, m := range members {
			gang := plan.GangOf(classes[m.Class].Pod).Name
			switch {
			case gang == "":
			case gangs[i] == "":
				gangs[i] = gang
			default:
				a, b := root(gangs[i]), root(gang)
				first[max(a, b)] = min(a, b)
			}
		}
	}
	for i, gang := range gangs {
		gangs[i] = root(gang)
	}
	return gangs
}
