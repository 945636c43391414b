package aws

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slipway-k8s/slipway/e2e/aws/wire"
)

// bucket is a token bucket. It begins full, and gets rate new tokens each second until it is full again.
type bucket struct{ size, rate float64 }

// requestBucket returns the bucket of an operation's request tokens (EC2 developer guide, "Request throttling for the Amazon
// EC2 API"). Each operation has its own.
func requestBucket(action string, p wire.Params) bucket {
	read := strings.HasPrefix(action, "Describe")
	switch {
	case action == "RunInstances", action == "StartInstances":
		return bucket{5, 2}
	case action == "TerminateInstances":
		return bucket{100, 5}
	case action == "CreateTags", action == "DeleteTags":
		return bucket{100, 10}
	case read && unfiltered(action, p):
		return bucket{50, 10}
	case read:
		return bucket{100, 20}
	}
	return bucket{50, 5}
}

// unfiltered reports whether a call lists everything, where the guide counts such calls separately.
func unfiltered(action string, p wire.Params) bool {
	counted := []string{"DescribeInstances", "DescribeInstanceStatus", "DescribeSecurityGroups"}
	return slices.Contains(counted, action) && !p.At("Filter").Given() && !p.At("MaxResults").Given() && !p.At("NextToken").Given()
}

// resourceBucket returns the bucket of resource tokens, one for each instance. Instances of a fleet count as those of
// RunInstances.
func resourceBucket(action string) (name string, b bucket) {
	switch action {
	case "RunInstances", "CreateFleet":
		return "RunInstances", bucket{1000, 2}
	case "TerminateInstances":
		return action, bucket{1000, 20}
	}
	return "", bucket{}
}

// limiter counts the tokens of each access key, as EC2 does for each account.
type limiter struct {
	keys  []string
	speed float64

	mu     sync.Mutex
	levels map[string]*level
}

// level is the number of tokens in a bucket at a time.
type level struct {
	tokens float64
	at     time.Time
}

func newLimiter(keys []string, speed float64) *limiter {
	return &limiter{keys: keys, speed: speed, levels: map[string]*level{}}
}

// take takes n tokens from a bucket, or none if there are fewer.
func (l *limiter) take(name string, b bucket, n int, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	have := l.levels[name]
	if have == nil {
		have = &level{tokens: b.size, at: now}
		l.levels[name] = have
	}
	have.tokens = min(b.size, have.tokens+now.Sub(have.at).Seconds()*l.speed*b.rate)
	have.at = now
	if have.tokens < float64(n) {
		return false
	}
	have.tokens -= float64(n)
	return true
}

// check returns the throttling error of a request that exceeds a limit.
func (l *limiter) check(r request, now time.Time) error {
	if r.Service != wire.EC2 || !slices.Contains(l.keys, r.AccessKey) {
		return nil
	}
	name := r.AccessKey + " " + r.Action
	b := requestBucket(r.Action, r.Params)
	if unfiltered(r.Action, r.Params) {
		name += " unfiltered"
	}
	if !l.take(name, b, 1, now) {
		return wire.Throttled(r.Service)
	}
	counted, b := resourceBucket(r.Action)
	if counted == "" {
		return nil
	}
	if n := instancesOf(r); n > 0 && !l.take(r.AccessKey+" instances "+counted, b, min(n, int(b.size)), now) {
		return wire.Throttled(r.Service)
	}
	return nil
}

// instancesOf returns how many instances a call launches or terminates. The action itself rejects an invalid call.
func instancesOf(r request) int {
	var n int
	switch r.Action {
	case "CreateFleet":
		n, _ = r.Params.Int("TargetCapacitySpecification.TotalTargetCapacity", 0)
	case "RunInstances":
		n, _ = r.Params.Int("MaxCount", 0)
	case "TerminateInstances":
		n = len(r.Params.Strings("InstanceId"))
	}
	return n
}
