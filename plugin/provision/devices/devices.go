package devices

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

const (
	labelNodePool = "karpenter.sh/nodepool"
	// resourcePrefix and a hash of the claims name the resource that stands for the devices of one pod.
	resourcePrefix = "resourceclaims.slipway.dev/"
	// countTime bounds how long the devices of one plan are counted: selectors of one user take no time from other pods. Each of the
	// different claims has an equal part of it, but leastTime at least, and those for which there is no time are planned later.
	countTime, leastTime = time.Second, 50 * time.Millisecond
	// noDevices is the code of pods that no template serves, notPlanned that of pods whose claims are not planned for, postponed that of pods whose turn is
	// later.
	noDevices, notPlanned, postponed = "NoInstanceTypeFits", "NotSupported", "PlanningCutShort"
)

// Config is what a Planner needs. Nodes and DRA are required.
type Config struct {
	// DRA is the scheduler's own manager.
	DRA fwk.SharedDRAManager
	// Nodes of the cluster.
	Nodes corelisters.NodeLister
	// Declared are the user's templates.
	Declared []Template
}

// Planner plans for ResourceClaims. It keeps what it has learned. It is not safe for concurrent use.
type Planner struct {
	config    Config
	templates *templates
	counter   *counter
	turns     turns
}

// New returns a Planner that has learned nothing yet.
func New(c Config) (*Planner, error) {
	if c.DRA == nil || c.Nodes == nil {
		return nil, errors.New("making a device planner: DRA and Nodes are required")
	}
	return &Planner{config: c, templates: newTemplates(c.Declared), counter: newCounter(c.DRA.DeviceClasses()), turns: turns{last: map[corev1.ResourceName]int{}}}, nil
}

// Slices returns the ResourceSlices that a node of the name would have.
func (p *Planner) Slices(nodeClass, instanceType, node string) []*resourcev1.ResourceSlice {
	return p.templates.of(place{nodeClass, instanceType}, node)
}

// Prepared is the input of a plan in which resources stand for devices.
type Prepared struct {
	// Classes are those of the request; the pods with claims request their resource.
	Classes []plan.Class
	// Catalog is that of the request; the instance types with devices have the resources.
	Catalog catalog.State
	// Rejected keeps pods with different claims from sharing a node.
	Rejected []plan.Rejection
	// Postponed means that pods with some of the claims have their turn in a later plan, Untried that some of these had none since all others had.
	Postponed, Untried bool
	needs              map[corev1.ResourceName]*need
}

// need is what the pods with equal claims need.
type need struct {
	// name is how the first pod names its first claim.
	name    string
	claims  []*resourcev1.ResourceClaim
	classes []int
	// by is what nodes serve, by list of the catalog and instance type.
	by map[place]served
}

// Prepare counts the devices of each instance type for the classes with ResourceClaims. Other classes stay as they are. It returns nil
// if no class has any.
func (p *Planner) Prepare(ctx context.Context, classes []plan.Class, cat catalog.State) (*Prepared, error) {
	if !slices.ContainsFunc(classes, func(c plan.Class) bool { return len(c.Pod.Spec.ResourceClaims) > 0 }) {
		return nil, nil
	}
	nodes, err := p.config.Nodes.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	published, err := p.config.DRA.ResourceSlices().ListWithDeviceTaintRules()
	if err != nil {
		return nil, fmt.Errorf("listing ResourceSlices: %w", err)
	}
	p.templates.learn(nodes, published, &cat)
	out := &Prepared{Classes: slices.Clone(classes), Catalog: cat, needs: map[corev1.ResourceName]*need{}}
	p.group(out)
	p.count(ctx, out, &cat)
	out.request()
	out.offer()
	return out, nil
}

// count counts the devices for the needs whose turn it is, and says why the others are not planned for.
func (p *Planner) count(ctx context.Context, out *Prepared, cat *catalog.State) {
	p.turns.next()
	share, start := max(countTime/time.Duration(max(len(out.needs), 1)), leastTime), time.Now()
	var apart pairs
	for _, name := range p.turns.order(out) {
		n, problem := out.needs[name], (*plan.Reason)(nil)
		if time.Since(start) >= countTime || !apart.fits(len(n.classes)) {
			out.Postponed, out.Untried = true, out.Untried || p.turns.waits(name)
			problem = &plan.Reason{Code: postponed, Message: fmt.Sprintf("asks for the ResourceClaim %q: pods with many different ResourceClaims "+
				"are planned in turns, and the turn of this pod comes with a later batch", n.name)}
		} else {
			p.turns.had(name)
			within, cancel := context.WithTimeout(ctx, share)
			problem = p.fill(within, n, cat)
			cancel()
		}
		if problem == nil {
			apart.add(len(n.classes))
			continue
		}
		for _, i := range n.classes {
			out.Classes[i].Claims = &plan.Claims{Problem: problem}
		}
		delete(out.needs, name)
	}
	if !out.Untried {
		p.turns.over()
	}
}

// group collects the classes with equal claims, and says why others are not planned for.
func (p *Planner) group(out *Prepared) {
	named := map[string]int{}
	for i := range out.Classes {
		c := &out.Classes[i]
		for _, of := range c.Pod.Spec.ResourceClaims {
			if of.ResourceClaimName != nil {
				named[c.Pod.Namespace+"/"+*of.ResourceClaimName] += max(len(c.Pods), 1)
			}
		}
	}
	for i := range out.Classes {
		c := &out.Classes[i]
		if len(c.Pod.Spec.ResourceClaims) == 0 {
			continue
		}
		claims, problem := p.claims(c.Pod, named)
		c.Claims = &plan.Claims{}
		if problem != "" {
			c.Claims.Problem = &plan.Reason{Code: notPlanned, Message: problem}
			continue
		}
		if len(claims) == 0 {
			continue // The pod needs no devices after all.
		}
		key := resourceOf(claims)
		if out.needs[key] == nil {
			out.needs[key] = &need{name: c.Pod.Spec.ResourceClaims[0].Name, claims: claims, by: map[place]served{}}
		}
		out.needs[key].classes = append(out.needs[key].classes, i)
	}
}

// claims returns the claims of the pod that are to be allocated, or why no node is launched for them.
func (p *Planner) claims(pod *corev1.Pod, named map[string]int) ([]*resourcev1.ResourceClaim, string) {
	var out []*resourcev1.ResourceClaim
	for i := range pod.Spec.ResourceClaims {
		of := &pod.Spec.ResourceClaims[i]
		name, _, err := resourceclaim.Name(pod, of)
		switch {
		case err != nil:
			return nil, fmt.Sprintf("asks for the ResourceClaim %q, which is not there yet: %v", of.Name, err)
		case name == nil:
			continue // Its template needs no claim.
		case named[pod.Namespace+"/"+*name] > 1:
			return nil, fmt.Sprintf("shares the ResourceClaim %s with other pending pods: no node is launched for pods that share a claim", *name)
		}
		claim, err := p.config.DRA.ResourceClaims().Get(pod.Namespace, *name)
		switch {
		case err != nil:
			return nil, fmt.Sprintf("asks for the ResourceClaim %q: %v", of.Name, err)
		case claim.Status.Allocation != nil:
			return nil, fmt.Sprintf("has the ResourceClaim %s, which is allocated already: a new node does not have its devices", *name)
		}
		out = append(out, claim)
	}
	return out, ""
}

// resourceOf names the resource of pods with these claims: equal for equal claims.
func resourceOf(claims []*resourcev1.ResourceClaim) corev1.ResourceName {
	specs := make([]resourcev1.DeviceClaim, 0, len(claims))
	for _, c := range claims {
		specs = append(specs, c.Spec.Devices)
	}
	text, err := json.Marshal(specs)
	if err != nil {
		text = []byte(claims[0].UID) // Only a channel or a function cannot be marshaled, and a claim has none.
	}
	sum := sha256.Sum256(text)
	return corev1.ResourceName(resourcePrefix + hex.EncodeToString(sum[:8]))
}

// listOf returns the key of the pool's instance types in the catalog.
func listOf(pool catalog.NodePool) string { return cmp.Or(pool.Overlaid, pool.NodeClass) }

// fill counts the pods that each instance type serves. It returns why there is none.
func (p *Planner) fill(ctx context.Context, n *need, cat *catalog.State) *plan.Reason {
	known, first := 0, error(nil)
	classes := map[string]string{} // of the lists that NodePools have of their own
	for _, pool := range cat.NodePools {
		classes[listOf(pool)] = pool.NodeClass
	}
	for _, list := range slices.Sorted(maps.Keys(cat.InstanceTypes)) {
		for i := range cat.InstanceTypes[list] {
			at := place{list, cat.InstanceTypes[list][i].Name}
			published := p.templates.of(place{cmp.Or(classes[list], list), at.instanceType}, "node")
			if len(published) == 0 {
				continue
			}
			known++
			found, err := p.counter.count(ctx, "node", published, n.claims)
			switch {
			case ctx.Err() != nil:
				return &plan.Reason{Code: notPlanned, Message: fmt.Sprintf("asks for the ResourceClaim %q: allocating its devices takes too long: simpler selectors or fewer requests may help", n.name)}
			case err != nil && first == nil:
				first = err
			case found.pods > 0:
				n.by[at] = found
			}
		}
	}
	if len(n.by) > 0 {
		return nil
	}
	message := fmt.Sprintf("asks for the ResourceClaim %q: of %s with known devices, none has devices that satisfy it", n.name, catalog.CountText(known, "instance type"))
	if known == 0 {
		message = fmt.Sprintf("asks for the ResourceClaim %q: the devices of no instance type are known; "+
			"name them in the scheduler's argument deviceTemplates, or start one node whose DRA driver publishes them", n.name)
	}
	if first != nil {
		message += ": " + first.Error()
	}
	return &plan.Reason{Code: noDevices, Message: message}
}
