package aws

import (
	"slices"
	"sync"
	"time"
)

// all stands for any value in a capacity error's pool.
const all = "all"

// faults are what the server was told to do wrong.
type faults struct {
	mu        sync.Mutex
	pools     []pool
	throttled time.Time
	down      time.Time
	downCalls int
	failJoins int
	// quotas are how many vCPUs may run of a capacity type; one that is missing has none.
	quotas map[string]int
	// spotRoleGone says that the account has no service-linked role for spot instances.
	spotRoleGone bool
}

// pool is where there is no capacity for a time; any part may be all.
type pool struct {
	instanceType, zone, capacityType string
	until                            time.Time
}

func (f *faults) addICE(p pool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	f.pools = slices.DeleteFunc(f.pools, func(old pool) bool {
		same := old.instanceType == p.instanceType && old.zone == p.zone && old.capacityType == p.capacityType
		return same || old.until.Before(now)
	})
	f.pools = append(f.pools, p)
}

func (f *faults) clearICE() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pools = nil
}

// hasCapacity says whether an instance can be had now.
func (f *faults) hasCapacity(instanceType, zone, capacityType string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	return !slices.ContainsFunc(f.pools, func(p pool) bool {
		return p.until.After(now) && covers(p.instanceType, instanceType) && covers(p.zone, zone) && covers(p.capacityType, capacityType)
	})
}

func covers(pattern, value string) bool { return pattern == all || pattern == "" || pattern == value }

func (f *faults) throttleFor(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.throttled = time.Now().Add(d)
}

func (f *faults) isThrottled() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Now().Before(f.throttled)
}

func (f *faults) downFor(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = time.Now().Add(d)
}

// isDown says whether nothing works; every second call finds its connection closed, the others get an answer.
func (f *faults) isDown() (down, hangUp bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !time.Now().Before(f.down) {
		return false, false
	}
	f.downCalls++
	return true, f.downCalls%2 == 0
}

func (f *faults) failNextJoins(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failJoins = max(n, 0)
}

// takeFailJoin says whether the instance that is launched now is not to join.
func (f *faults) takeFailJoin() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failJoins == 0 {
		return false
	}
	f.failJoins--
	return true
}
