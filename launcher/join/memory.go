package join

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// networkProven is how many nodes in a row must have had their network ready at the kubelet's start before pods are bound for it.
const networkProven = 3

// memory is the controller's state of each claim between two rounds. A restart loses little: answered bindings are visible on the pods, and
// the startup taint stays two seconds longer.
type memory struct {
	mu     sync.Mutex
	claims map[types.UID]*remembered
	// networks counts, by NodePool, the nodes in a row that had their network ready when their kubelet started.
	networks map[string]int
}

type remembered struct {
	// booting means that the claim was seen before its kubelet joined, late that the network was not ready then.
	booting, late bool
	// registering means that this process writes that the node is registered, and has not seen yet that it is written, or that Health knows it.
	registering bool
	// asked is when EC2 was asked about the instance, which is its answer.
	asked      time.Time
	instance   cloud.Instance
	readySince time.Time
	// renewal is that of the Lease.
	renewal renewal
	// waiting is why the node is not initialized, and waitingSince since when it is that.
	waiting      string
	waitingSince time.Time
	// known is since when each adopted pod is nominated or bound to the node.
	known    map[types.UID]time.Time
	answered map[types.UID]bool
	failures map[types.UID]int
	// left are the pods that were left to the scheduler.
	left map[types.UID]bool
	// ahead are the pods that were bound before the scheduler could have bound them, until it could.
	ahead map[types.UID]ahead
}

func newMemory() *memory {
	return &memory{claims: map[types.UID]*remembered{}, networks: map[string]int{}}
}

// ready records when a claim's node was first seen Ready, and returns that and the pods answered so far.
func (m *memory) ready(claim types.UID, ready bool, now time.Time) (time.Time, map[types.UID]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.entry(claim)
	if !ready {
		r.readySince = time.Time{}
	} else if r.readySince.IsZero() {
		r.readySince = now
	}
	return r.readySince, maps.Clone(r.answered)
}

// known records which adopted pods are nominated or bound to the node, so that their scheduler can see it, and returns since when.
func (m *memory) known(claim types.UID, node string, slots []Slot, now time.Time) map[types.UID]time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.entry(claim)
	r.known = Known(r.known, node, slots, now)
	return r.known
}

// answer records that a pod's binding is finished.
func (m *memory) answer(claim, pod types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entry(claim).answered[pod] = true
}

// leave records that a pod is left to the scheduler.
func (m *memory) leave(claim, pod types.UID) {
	m.answer(claim, pod)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entry(claim).left[pod] = true
}

// hasLeft reports whether a pod that the claim promises was left to the scheduler.
func (m *memory) hasLeft(claim, pod types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.claims[claim]
	return r != nil && r.left[pod]
}

// failed counts a failed binding, and returns the number of failures.
func (m *memory) failed(claim, pod types.UID) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.entry(claim)
	r.failures[pod]++
	return r.failures[pod]
}

// instance returns EC2's last answer for the claim's instance, and whether EC2 has not been asked since began.
func (m *memory) instance(claim types.UID, began time.Time) (cloud.Instance, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.entry(claim)
	due := r.asked.Before(began)
	r.asked = began
	return r.instance, due
}

// recordInstance records EC2's answer for the claim's instance.
func (m *memory) recordInstance(claim types.UID, answer cloud.Instance) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entry(claim).instance = cloud.Instance{State: answer.State, StateReason: answer.StateReason}
}

// renewal returns what the launcher wrote of the Lease of the claim's node last.
func (m *memory) renewal(claim types.UID) renewal {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.entry(claim).renewal
}

// renewed records what the launcher wrote of the Lease.
func (m *memory) renewed(claim types.UID, r renewal) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entry(claim).renewal = r
}

// waits records why the claim's node is not initialized, and returns since when it is that.
func (m *memory) waits(claim types.UID, why string, now time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.entry(claim)
	if r.waiting != why {
		r.waiting, r.waitingSince = why, now
	}
	return r.waitingSince
}

// network records the state of a node's network while it joins.
func (m *memory) network(claim types.UID, joined, late bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.entry(claim)
	r.booting = r.booting || !joined
	r.late = r.late || late
}

// initialized counts a node of the pool by when its network was ready; a node that was not observed from the start is not counted.
func (m *memory) initialized(claim types.UID, pool string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch r := m.entry(claim); {
	case r.late:
		m.networks[pool] = 0
	case r.booting:
		m.networks[pool]++
	}
}

// registering records that the registration of the claim's node is about to be written.
func (m *memory) registering(claim types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entry(claim).registering = true
}

// isRegistering reports whether this process writes that the node is registered, and Health does not know it yet.
func (m *memory) isRegistering(claim types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.claims[claim]
	return r != nil && r.registering
}

// registered records that the registration is written, and that Health knows it.
func (m *memory) registered(claim types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entry(claim).registering = false
}

func (m *memory) networkAtStart(pool string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.networks[pool] >= networkProven
}

func (m *memory) entry(claim types.UID) *remembered {
	if m.claims[claim] == nil {
		m.claims[claim] = &remembered{answered: map[types.UID]bool{}, failures: map[types.UID]int{}, left: map[types.UID]bool{}, ahead: map[types.UID]ahead{}}
	}
	return m.claims[claim]
}

func (m *memory) forget(claim types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.claims, claim)
}
