package aws

import (
	"sync"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-k8s/slipway/launcher/cloud"
)

const (
	// brokenTypes is how many instance types EC2 must have refused to a class that is not known to work, before the class is at fault.
	brokenTypes = 3
	// pauseTypes is after how many refused instance types, with no launch of the class in between, nothing of the class is tried for pausePeriod: a call for
	// each type would be too many. It doubles up to pauseMost.
	pauseTypes, pausePeriod, pauseMost = 10, 30 * time.Second, 2 * time.Minute
)

// classID is an EC2NodeClass as it is since its last edit.
type classID struct {
	name       string
	uid        types.UID
	generation int64
}

func idOf(class *awsv1.EC2NodeClass) classID {
	return classID{class.Name, class.UID, class.Generation}
}

// typeKey is an instance type as one capacity type, in a zone if the refusal is about a subnet, else in any zone. The zero value stands for all types.
type typeKey struct{ capacityType, instanceType, zone string }

// refusals records which instance types EC2 refuses to a class by name: a policy denies them, or the class asks for what they cannot have. Other
// types of the class, and other classes, may be launched. It also records for which offerings EC2 has no room for the class's volumes. It is safe for
// concurrent use.
type refusals struct {
	mu sync.Mutex
	by map[string]*classRefusals
	// working are the classes, by name, of which EC2 has shown an instance.
	working map[string]bool
}

// classRefusals are those of one class.
type classRefusals struct {
	id classID
	// launched means that the class has launched an instance since its last edit, in this process.
	launched bool
	marks    map[typeKey]mark
	// inARow are the instance types that were refused since the last launch or the last pause, and pauses is how many pauses there were since the last launch.
	inARow map[string]bool
	pauses int
}

func newRefusals() *refusals {
	return &refusals{by: map[string]*classRefusals{}, working: map[string]bool{}}
}

// at returns the record of a class. The record of the class before its last edit is dropped.
func (r *refusals) at(id classID) *classRefusals {
	if have, ok := r.by[id.name]; ok && have.id == id {
		return have
	}
	r.by[id.name] = &classRefusals{id: id, marks: map[typeKey]mark{}, inARow: map[string]bool{}}
	return r.by[id.name]
}

// note records that EC2 refuses an instance type to a class, and returns its mark: again is that of one more refusal.
func (r *refusals) note(id classID, key typeKey, again func(mark) mark) mark {
	r.mu.Lock()
	defer r.mu.Unlock()
	class := r.at(id)
	class.inARow[key.instanceType] = true
	class.marks[key] = again(class.marks[key])
	return class.marks[key]
}

// lacks is note for an offering that EC2 does not refuse: it has no room for the volumes of the class there.
func (r *refusals) lacks(id classID, key typeKey, again func(mark) mark) mark {
	r.mu.Lock()
	defer r.mu.Unlock()
	class := r.at(id)
	class.marks[key] = again(class.marks[key])
	return class.marks[key]
}

// of returns the mark of an offering that EC2 refuses to a class; zero if it may be launched.
func (r *refusals) of(id classID, capacityType, instanceType, zone string, now time.Time) mark {
	r.mu.Lock()
	defer r.mu.Unlock()
	class, ok := r.by[id.name]
	if !ok || class.id != id {
		return mark{}
	}
	found := longest(class.marks[typeKey{capacityType, instanceType, ""}], class.marks[typeKey{capacityType, instanceType, zone}], class.marks[typeKey{}])
	if !found.holds(now) {
		return mark{}
	}
	return found
}

// works records that a class has launched instances of the options. What EC2 refused of them before is history, and a pause ends: works reports whether
// that makes a difference.
func (r *refusals) works(id classID, options []cloud.Option) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	class := r.at(id)
	class.launched, class.pauses = true, 0
	clear(class.inARow)
	before := len(class.marks)
	for _, o := range options {
		for _, key := range []typeKey{{o.CapacityType, o.InstanceType, ""}, {o.CapacityType, o.InstanceType, o.Zone}} {
			// A call may get some instances, and have no room for the volumes of the others.
			if m := class.marks[key]; m.over || !m.Code.OfVolumes() {
				delete(class.marks, key)
			}
		}
	}
	delete(class.marks, typeKey{})
	return len(class.marks) < before
}

// shown records that EC2 shows instances: their classes work, whatever this process has launched.
func (r *refusals) shown(instances []cloud.Instance) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, i := range instances {
		if name := i.Tags[awsv1.LabelNodeClass]; name != "" && i.State == cloud.StateRunning {
			r.working[name] = true
		}
	}
}

// isBroken reports whether a class is at fault for refusals. A class that works is not. all means that EC2 refused all that was asked for.
func (r *refusals) isBroken(id classID, all bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	class := r.at(id)
	return !class.launched && !r.working[id.name] && (all || len(class.inARow) >= brokenTypes)
}

// pause has nothing of a class tried for a while if EC2 has refused many types to it without a launch in between, and reports whether it has. again
// returns its mark.
func (r *refusals) pause(id classID, again func(m mark, until time.Time) mark, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	class := r.at(id)
	if len(class.inARow) < pauseTypes {
		return false
	}
	clear(class.inARow)
	until := now.Add(min(pausePeriod<<min(class.pauses, 8), pauseMost))
	class.pauses++
	class.marks[typeKey{}] = again(class.marks[typeKey{}], until)
	return true
}

// expire is unavailable.expire for refusals.
func (r *refusals) expire(keep time.Duration, now time.Time) (next time.Time, ended bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, class := range r.by {
		first, some := expireMarks(class.marks, keep, now)
		next, ended = earlier(next, first), ended || some
	}
	return next, ended
}

// forget drops the record of a class.
func (r *refusals) forget(class string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.by, class)
	delete(r.working, class)
}
