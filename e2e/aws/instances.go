package aws

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slipway-k8s/slipway/e2e/aws/hardware"
	"github.com/slipway-k8s/slipway/e2e/aws/meter"
	"github.com/slipway-k8s/slipway/e2e/aws/placementgroup"
)

// machine is an instance with what only EC2's responses contain.
type machine struct {
	Instance
	placement
	reservation, spotRequest string
	// reserved is the capacity reservation for which it was launched; empty for none.
	reserved string
	// market is the market type of that reservation; empty for none.
	market      string
	launchIndex int
	// launchedAt is when it was launched. LaunchTime is later after a start.
	launchedAt              time.Time
	visibleAt, terminatedAt time.Time
	// runningAt and endingAt are when it became running and shutting-down.
	runningAt, endingAt time.Time
	// pauses are the times for which it was stopped. The last one has no end while it is.
	pauses []meter.Pause
	// cpu is how many vCPUs it uses, over time.
	cpu []meter.Load
	// shown are the tags that EC2 lists until tagsAt.
	shown  map[string]string
	tagsAt time.Time
	// reason is that of the last change of state.
	reason stateReason
	// interrupting is true once a spot interruption was announced.
	interrupting bool
	impairments
}

// placement is where a machine was launched, and with what.
type placement struct {
	subnet Subnet
	// nics are the network interfaces, the primary one first.
	nics       []hardware.Interface
	profileARN string
	keyName    string
	token      string
	rootDevice string
	// tenancy is default, dedicated or host.
	tenancy string
	// volumes are the EBS volumes, the root one first, volumeTags their tags.
	volumes    []hardware.Volume
	volumeTags map[string]string
	metadata   hardware.Metadata
	// monitoring is true with a datapoint each minute.
	monitoring bool
	// place is in a placement group.
	place placementgroup.Place
}

// stateReason is why an instance is in its state.
type stateReason struct{ code, message string }

// instances holds all instances ever launched.
type instances struct {
	mu       sync.Mutex
	order    []*machine
	byID     map[string]*machine
	watchers map[*watcher]bool
}

func newInstances() *instances {
	return &instances{byID: map[string]*machine{}, watchers: map[*watcher]bool{}}
}

func (s *instances) add(m machine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.order = append(s.order, &m)
	s.byID[m.ID] = &m
	s.publish(&m)
}

// publish sends the machine's current state to all watchers. The caller holds s.mu.
func (s *instances) publish(m *machine) {
	for w := range s.watchers {
		w.push(m.clone())
	}
}

// get returns a copy.
func (s *instances) get(id string) (machine, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, ok := s.byID[id]
	if !ok {
		return machine{}, false
	}
	return m.copy(), true
}

// tagsNow returns the tags that EC2 lists. Recent changes are not included yet.
func (m *machine) tagsNow(now time.Time) map[string]string {
	if now.Before(m.tagsAt) {
		return m.shown
	}
	return m.Tags
}

// retag changes the tags. EC2 lists the change after the time late.
func (m *machine) retag(change func(map[string]string), now time.Time, late time.Duration) {
	m.shown, m.tagsAt = m.tagsNow(now), now.Add(late)
	m.Tags = maps.Clone(m.Tags)
	change(m.Tags)
}

func (m *machine) copy() machine {
	out := *m
	out.Instance = m.clone()
	return out
}

// list returns copies of the machines that keep selects, in the order of launch. keep must not change them.
func (s *instances) list(keep func(*machine) bool) []machine {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []machine
	for _, m := range s.order {
		if keep(m) {
			out = append(out, m.copy())
		}
	}
	return out
}

// move changes the state of an instance, if it is in one of the states from, and reports whether it was.
func (s *instances) move(id, to string, reason stateReason, from ...string) (machine, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, ok := s.byID[id]
	if !ok || !slices.Contains(from, m.State) {
		return machine{}, false
	}
	m.State, m.reason = to, reason
	switch to {
	case StateRunning:
		m.wake(time.Now())
	case StateStopping:
		m.pauses = append(slices.Clip(m.pauses), meter.Pause{From: time.Now()})
	case StateShuttingDown:
		m.endingAt = time.Now()
	case StateTerminated:
		m.terminatedAt = time.Now()
	}
	s.publish(m)
	return m.copy(), true
}

// wake notes when the machine became running.
func (m *machine) wake(now time.Time) {
	if len(m.pauses) == 0 {
		m.runningAt = now
		return
	}
	m.pauses = slices.Clone(m.pauses)
	m.pauses[len(m.pauses)-1].Until = now
}

// change changes properties other than the state of an instance.
func (s *instances) change(id string, change func(*machine)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m, ok := s.byID[id]; ok {
		change(m)
	}
}

// visible reports whether DescribeInstances lists the machine.
func (m *machine) visible(now time.Time, forgottenAfter time.Duration) bool {
	if now.Before(m.visibleAt) {
		return false
	}
	return m.State != StateTerminated || now.Before(m.terminatedAt.Add(forgottenAfter))
}

// watcher holds what its reader has not read yet.
type watcher struct {
	mu    sync.Mutex
	queue []Instance
	wake  chan struct{}
}

func (w *watcher) push(i Instance) {
	w.mu.Lock()
	w.queue = append(w.queue, i)
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *watcher) take() []Instance {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.queue
	w.queue = nil
	return out
}

// watch sends each machine, and again after each change of its state, until ctx ends.
func (s *instances) watch(ctx context.Context) <-chan Instance {
	w := &watcher{wake: make(chan struct{}, 1)}
	s.mu.Lock()
	for _, m := range s.order {
		w.push(m.clone())
	}
	s.watchers[w] = true
	s.mu.Unlock()
	out := make(chan Instance)
	go func() {
		defer close(out)
		defer s.unwatch(w)
		for {
			for _, i := range w.take() {
				select {
				case <-ctx.Done():
					return
				case out <- i:
				}
			}
			select {
			case <-ctx.Done():
				return
			case <-w.wake:
			}
		}
	}()
	return out
}

func (s *instances) unwatch(w *watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watchers, w)
}

// spotTermination is the reason of an instance that EC2 took back from the spot market.
const spotTermination = "Server.SpotInstanceTermination"

// histories returns the instances as they are metered.
func (s *instances) histories() []lifetime {
	var out []lifetime
	for _, m := range s.list(func(*machine) bool { return true }) {
		h := lifetime{prepaid: m.market == marketBlock, dedicated: m.tenancy == "dedicated" && !strings.Contains(m.Type, ".metal"), Instance: meter.Instance{
			Dedicated: m.tenancy == "dedicated", ID: m.ID, Type: m.Type, Zone: m.Zone, Spot: m.CapacityType == Spot, Interrupted: m.reason.code == spotTermination,
			Coverable: m.CapacityType == OnDemand && m.market == "" && m.tenancy == defaultTenancy && !m.Windows,
			Launched:  m.launchedAt, Running: m.runningAt, Pauses: m.pauses, Ending: m.endingAt, Terminated: m.terminatedAt, CPU: m.cpu,
		}}
		for _, v := range m.volumes {
			h.Volumes = append(h.Volumes, meter.Volume{Type: v.Type, GiB: v.GiB, IOPS: v.IOPS, MiBps: v.MiBps, Kept: !v.Delete})
		}
		for _, n := range m.nics {
			if n.Public {
				h.PublicIPv4++
			}
		}
		out = append(out, h)
	}
	return out
}

// setCPU sets how many vCPUs of an instance are busy from a time on. Instances are idle until then.
func (s *instances) setCPU(id string, load meter.Load) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, ok := s.byID[id]
	switch {
	case !ok:
		return fmt.Errorf("setting the CPU of instance %s: it does not exist", id)
	case !(load.VCPUs >= 0 && load.VCPUs <= float64(m.VCPU)):
		return fmt.Errorf("setting the CPU of instance %s: %v is not from 0 to its %d vCPUs", id, load.VCPUs, m.VCPU)
	}
	m.cpu = append(slices.Clip(m.cpu), load)
	return nil
}
