package aws

import (
	"math"
)

// codeNoSpotRole is the error code where an account has never used spot instances and its caller may not create the role.
const codeNoSpotRole = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"

// SetQuota limits the running vCPUs of a capacity type (Spot, OnDemand); negative means no limit.
func (s *Server) SetQuota(capacityType string, vcpus int) {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	if vcpus < 0 {
		delete(s.faults.quotas, capacityType)
		return
	}
	if s.faults.quotas == nil {
		s.faults.quotas = map[string]int{}
	}
	s.faults.quotas[capacityType] = vcpus
}

// quotaLeft returns how many vCPUs of a capacity type may still be launched.
func (s *Server) quotaLeft(capacityType string) int {
	s.faults.mu.Lock()
	quota, ok := s.faults.quotas[capacityType]
	s.faults.mu.Unlock()
	if !ok {
		return math.MaxInt
	}
	for _, m := range s.instances.list(func(m *machine) bool { return m.CapacityType == capacityType && m.market == "" && m.Live() }) {
		quota -= m.VCPU
	}
	return max(0, quota)
}

// SetSpotRole sets whether the account has the service-linked role that spot instances need. By default it has.
func (s *Server) SetSpotRole(there bool) {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.spotRoleMissing = !there
}

func (f *faults) noSpotRole() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.spotRoleMissing
}

// LeaveAddresses allocates addresses of a subnet until no more than n are free. release frees them again.
func (s *Server) LeaveAddresses(subnet string, n int) (release func()) {
	var taken []string
	for s.addresses.free(subnet) > n {
		ip, ok := s.addresses.take(subnet)
		if !ok {
			break
		}
		taken = append(taken, ip)
	}
	return func() {
		for _, ip := range taken {
			s.addresses.release(subnet, ip)
		}
	}
}
