package aws

import (
	"slices"
	"sync"
	"time"
)

// all matches any value in the pool of a capacity error.
const all = "all"

// faults are the failures that the server must imitate.
type faults struct {
	mu        sync.Mutex
	pools     []pool
	throttled time.Time
	down      time.Time
	downCalls int
	failJoins int
	// ends is how many of the next launched instances end at once, endCode and endMessage their state reason.
	ends                int
	endCode, endMessage string
	// quotas limit the running vCPUs of a capacity type. A missing one means no limit.
	quotas map[string]int
	// spotRoleMissing is true where the account has no service-linked role for spot instances.
	spotRoleMissing bool
}

// pool is an offering without capacity for a time. Any part may be all.
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

// hasCapacity reports whether an instance can be launched now.
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

// isDown reports whether all services fail. For every second call hangUp is true: its connection is closed without a
// response.
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

// takeFailJoin reports whether the instance that is launched now must not join.
func (f *faults) takeFailJoin() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failJoins == 0 {
		return false
	}
	f.failJoins--
	return true
}

func (f *faults) endNextLaunches(n int, code, message string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ends, f.endCode, f.endMessage = max(n, 0), code, message
}

// takeEnd returns the state reason with which the instance that is launched now ends at once; an empty code if it does not.
func (f *faults) takeEnd() (code, message string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ends == 0 {
		return "", ""
	}
	f.ends--
	return f.endCode, f.endMessage
}
