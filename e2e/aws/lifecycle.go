package aws

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/slipway-k8s/slipway/e2e/aws/hardware"
	"github.com/slipway-k8s/slipway/e2e/aws/instancetypes"
	"github.com/slipway-k8s/slipway/e2e/aws/wire"
)

// launch describes an instance to launch.
type launch struct {
	placement
	info         instancetypes.Type
	capacityType string
	image        image
	template     string
	userData     string
	rootGiB      int64
	hibernates   bool
	tags         map[string]string
	price        float64
	reservation  string
	// reserved is the capacity reservation in which it runs; empty for none.
	reserved string
	// open means that it may run in an open capacity reservation.
	open bool
	// market is the market type of that reservation; empty for none.
	market string
	// context is the fleet's.
	context string
	index   int
	// visible is true where eventual consistency does not hide it.
	visible bool
}

// start launches the instance. It fails where its subnet has no free address, or its capacity reservation is full.
func (s *Server) start(l launch) (Instance, error) {
	nics, refused := s.addresses.attach(l.subnet.ID, l.nics)
	if refused != nil {
		return Instance{}, refused
	}
	for i := range nics {
		nics[i].ID = s.dice.id("eni")
	}
	l.nics, l.volumes = nics, slices.Clone(l.volumes)
	for i := range l.volumes {
		l.volumes[i].ID = s.dice.id("vol")
	}
	ip := nics[0].IP
	now := time.Now()
	a := l.info.Accelerators
	m := machine{
		Instance: Instance{
			ID: s.dice.id("i"), Type: l.info.Name, Zone: l.subnet.Zone, ZoneID: l.subnet.ZoneID,
			Architecture: l.info.Arch, ImageID: l.image.ID, Windows: l.image.Windows, CapacityType: l.capacityType,
			PrivateDNSName: privateDNSName(s.cfg.Region, ip), PrivateIP: ip, IPv6: firstIPv6(nics),
			UserData: l.userData, LaunchTemplateName: l.template,
			VCPU: l.info.VCPUs, MemoryMiB: l.info.MemoryMiB, GPUs: a.Count,
			MaxENIs: l.info.ENIs(), IPv4PerENI: l.info.Limits.IPv4PerInterface,
			LocalStorageGiB: int64(l.info.Disks.Count) * int64(l.info.Disks.GB) * 1e9 >> 30, RootVolumeGiB: l.rootGiB,
			State: StatePending, Context: l.context, FailJoin: !l.visible && s.faults.takeFailJoin(), LaunchTime: now,
			Tags: maps.Clone(l.tags), Price: l.price, Hibernates: l.hibernates,
		},
		placement: l.placement, reservation: l.reservation, reserved: l.reserved, market: l.market, launchIndex: l.index,
		launchedAt: now, visibleAt: now,
	}
	for _, n := range nics {
		if n.IsEFA() {
			m.EFAs++
		}
	}
	if a.Count > 0 {
		m.GPUManufacturer = a.Manufacturer
	}
	if l.capacityType == Spot {
		m.spotRequest = "sir-" + s.dice.hex(8)
	}
	if !l.visible {
		m.visibleAt = now.Add(s.cfg.Clock.Scale(s.cfg.VisibleAfter))
		m.tagsAt = m.visibleAt.Add(s.tagsAfter())
	}
	if m.place, refused = s.placements.Join(m.ID, l.place, m.Zone); refused != nil {
		s.addresses.detach(l.subnet.ID, nics)
		return Instance{}, refused
	}
	if !s.reservations.use(l.reserved, m.ID) {
		s.placements.Leave(m.ID)
		s.addresses.detach(l.subnet.ID, nics)
		return Instance{}, errReservationFull(l.reserved)
	}
	s.reservations.useOpen(l, m.ID, now)
	s.instances.add(m)
	s.cfg.Logger.V(2).Info("Launched", "instanceID", m.ID, "type", m.Type, "zone", m.Zone, "capacityType", m.CapacityType)
	s.notifyState(m)
	if !l.visible {
		if code, message := s.faults.takeEnd(); code != "" {
			s.after(s.cfg.RunningAfter/2, func() { s.end(m.ID, stateReason{code, message}) })
		}
	}
	s.after(s.jitter(s.cfg.RunningAfter), func() {
		s.move(m.ID, StateRunning, stateReason{}, StatePending)
	})
	return m.clone(), nil
}

// jitter varies a duration by a quarter.
func (s *Server) jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * s.dice.between(0.75, 1.25))
}

// after runs an action after a simulated time.
func (s *Server) after(d time.Duration, do func()) {
	s.agenda.add(time.Now().Add(s.cfg.Clock.Scale(d)), do)
}

// move changes the state of an instance and sends an EventBridge event.
func (s *Server) move(id, to string, reason stateReason, from ...string) bool {
	m, ok := s.instances.move(id, to, reason, from...)
	if ok {
		s.cfg.Logger.V(2).Info("State changed", "instanceID", id, "state", to)
		s.notifyState(m)
	}
	return ok
}

// end shuts an instance down, which is terminated some time later. It does nothing for an instance that is ending already.
func (s *Server) end(id string, reason stateReason) {
	if !s.move(id, StateShuttingDown, reason, StatePending, StateRunning, StateStopping, StateStopped) {
		return
	}
	s.after(s.jitter(s.cfg.TerminatedAfter), func() {
		if s.move(id, StateTerminated, reason, StateShuttingDown) {
			s.reservations.leave(id)
			s.placements.Leave(id)
			m, _ := s.instances.get(id)
			s.addresses.detach(m.subnet.ID, m.nics)
		}
	})
}

func incorrectState(id, wanted string) *wire.Error {
	return wire.Errorf("IncorrectInstanceState", "The instance '%s' is not in a state from which it can be %s.", id, wanted)
}

// stoppable returns why an instance cannot be stopped (API reference, StopInstances).
func (p powerCalls) stoppable(m machine, hibernate bool) *wire.Error {
	switch {
	case m.CapacityType == Spot:
		return wire.Errorf("UnsupportedOperation",
			"You can't stop the Spot Instance '%s' because it is associated with a one-time Spot Instance request. You can only stop Spot Instances associated with persistent Spot Instance requests.", m.ID)
	case m.market == marketBlock:
		return wire.Errorf("UnsupportedOperation", "The instance '%s' runs in a Capacity Block and cannot be stopped.", m.ID)
	case hibernate && !m.Hibernates:
		return wire.Errorf("UnsupportedHibernationConfiguration", "The instance '%s' is not configured for hibernation.", m.ID)
	case hibernate && m.State == StateRunning && time.Since(m.LaunchTime) < p.of.cfg.Clock.Scale(p.of.cfg.HibernatesFrom):
		return wire.Errorf("IncorrectInstanceState", "The instance '%s' is not ready to hibernate yet. Retry in a few minutes.", m.ID)
	case m.State != StateRunning && !m.Asleep():
		return incorrectState(m.ID, "stopped")
	}
	return nil
}

func (p powerCalls) stop(id string, hibernate bool) {
	reason, takes := userShutdown(), p.of.cfg.StoppedAfter
	if hibernate {
		reason = stateReason{"Client.UserInitiatedHibernate", "Client.UserInitiatedHibernate: User initiated hibernate"}
		takes = p.of.cfg.HibernatedAfter
	}
	if !p.of.move(id, StateStopping, reason, StateRunning) {
		return
	}
	p.of.instances.change(id, func(m *machine) { m.Hibernated = hibernate })
	p.of.reservations.leave(id)
	p.of.after(p.of.jitter(takes), func() { p.of.move(id, StateStopped, reason, StateStopping) })
}

// noHibernation returns why an instance cannot be launched for hibernation, if it is to be (EC2 user guide, "Prerequisites for EC2 instance hibernation").
func noHibernation(l launch) *wire.Error {
	root, missing := l.volumes[0], ""
	switch mib := int64(root.GiB) << 10; {
	case !l.hibernates:
		return nil
	case l.info.Metal:
		missing = "Hibernation is not supported for the instance type " + l.info.Name
	case l.info.MemoryMiB >= 150<<10 || l.image.Windows && l.info.MemoryMiB > 16<<10:
		missing = "The memory of the instance type " + l.info.Name + " is too large for hibernation"
	case !root.Encrypted:
		missing = "Hibernation requires an encrypted root volume"
	case mib <= l.info.MemoryMiB:
		missing = "The root volume is not large enough to store the contents of the memory"
	default:
		return nil
	}
	return wire.Errorf("UnsupportedHibernationConfiguration", "%s.", missing)
}

// startable returns why an instance cannot be started (API reference, StartInstances): its state, its quota, or EC2's capacity.
func (p powerCalls) startable(m machine) *wire.Error {
	switch {
	case m.Live():
		return nil
	case m.State != StateStopped:
		return incorrectState(m.ID, "started")
	case p.of.quotaLeft(m.CapacityType) < m.VCPU:
		return wire.Errorf(codeQuota, "%s", quotaReached)
	case !p.of.faults.hasCapacity(m.Type, m.Zone, m.CapacityType):
		return p.of.noCapacity(m.Type, m.Zone, m.CapacityType)
	}
	return nil
}

func (p powerCalls) restart(m machine) {
	if m.State != StateStopped {
		return
	}
	if m.reserved != "" && !p.of.reservations.use(m.reserved, m.ID) {
		return
	}
	p.of.instances.change(m.ID, func(m *machine) {
		m.LaunchTime = time.Now()
		m.Starts++
	})
	if p.of.move(m.ID, StatePending, stateReason{}, StateStopped) {
		p.of.after(p.of.jitter(p.of.cfg.RunningAfter), func() { p.of.move(m.ID, StateRunning, stateReason{}, StatePending) })
	}
}

// Instances returns all instances ever launched, including terminated ones, in the order of launch.
func (s *Server) Instances() []Instance {
	var out []Instance
	for _, m := range s.instances.list(func(*machine) bool { return true }) {
		out = append(out, m.Instance)
	}
	return out
}

// Watch sends each instance, and again after each change of its state, until ctx ends. It then closes the channel. A slow
// reader loses nothing.
func (s *Server) Watch(ctx context.Context) <-chan Instance { return s.instances.watch(ctx) }

// RunManaged launches an instance as a managed node group of EKS does. It is visible at once.
func (s *Server) RunManaged(name, instanceType, zone string) (Instance, error) {
	info, ok := s.table.Get(instanceType)
	if !ok {
		return Instance{}, fmt.Errorf("launching a node of node group %s: there is no instance type %s", name, instanceType)
	}
	subnet, ok := s.resources.subnetIn(zone)
	if !ok || !s.table.Offered(instanceType, zone) {
		return Instance{}, fmt.Errorf("launching a node of node group %s: zone %s does not offer %s", name, zone, instanceType)
	}
	image, ok := s.images.recommended(info.Arch)
	if !ok {
		return Instance{}, fmt.Errorf("launching a node of node group %s: there is no AMI for %s", name, info.Arch)
	}
	nics, id := []hardware.Interface{{Kind: hardware.KindInterface, PrimaryIPv6: s.cfg.IPv6}}, s.dice.uuid()
	nics[0].Groups, _ = s.resources.groups([]string{s.resources.SecurityGroups[0].ID})
	return s.start(launch{
		placement: placement{
			subnet: subnet, nics: nics,
			volumes: []hardware.Volume{{Device: image.RootDevice, Type: "gp3", GiB: 20, Encrypted: true, Delete: true}}, rootDevice: image.RootDevice, tenancy: defaultTenancy,
			profileARN: s.iamARN("instance-profile/eks-" + id),
		},
		info: info, capacityType: OnDemand, image: image, template: "eks-" + id, rootGiB: 20,
		price: info.Price, reservation: s.dice.id("r"), visible: true,
		tags: map[string]string{
			"eks:cluster-name": s.cfg.ClusterName, "eks:nodegroup-name": name,
			"kubernetes.io/cluster/" + s.cfg.ClusterName: "owned",
			"aws:autoscaling:groupName":                  "eks-" + name + "-" + id,
			"Name":                                       s.cfg.ClusterName + "-" + name + "-Node",
		},
	})
}
