package aws

import (
	"sync"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// brokenTypes is how many instance types EC2 must have refused to a class that has launched nothing since its last edit, before the class is
	// at fault.
	brokenTypes = 3
	// pauseTypes is after how many refused instance types, with no launch of the class in between, the rest of a call is not tried for
	// pausePeriod: a call for each type would be too many.
	pauseTypes, pausePeriod = 10, 30 * time.Second
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

// typeKey is an instance type as one capacity type, in any zone.
type typeKey struct{ capacityType, instanceType string }

// refusals records which instance types EC2 refuses to a class by name: a policy denies them, or the class asks for what they cannot have. Other
// types of the class, and other classes, may be launched. It is safe for concurrent use.
type refusals struct {
	mu sync.Mutex
	by map[string]*classRefusals
}

// classRefusals are those of one class.
type classRefusals struct {
	id classID
	// launched means that the class has launched an instance since its last edit, in this process.
	launched bool
	marks    map[typeKey]mark
	// inARow are the instance types that were refused since the last launch or the last pause.
	inARow map[string]bool
}

func newRefusals() *refusals { return &refusals{by: map[string]*classRefusals{}} }

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

// of returns the mark of an instance type that EC2 refuses to a class; zero if it may be launched.
func (r *refusals) of(id classID, key typeKey, now time.Time) mark {
	r.mu.Lock()
	defer r.mu.Unlock()
	if class, ok := r.by[id.name]; ok && class.id == id && class.marks[key].holds(now) {
		return class.marks[key]
	}
	return mark{}
}

// works records that a class has launched an instance.
func (r *refusals) works(id classID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	class := r.at(id)
	class.launched = true
	clear(class.inARow)
}

// isBroken reports whether a class is at fault for refusals. A class that has launched is not. all means that EC2 refused all that was asked for.
func (r *refusals) isBroken(id classID, all bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	class := r.at(id)
	return !class.launched && (all || len(class.inARow) >= brokenTypes)
}

// pause reports whether EC2 has refused many types to a class without a launch in between. The other types of the last call then get the
// mark that again returns.
func (r *refusals) pause(id classID, asked []typeKey, again func(mark) mark, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	class := r.at(id)
	if len(class.inARow) < pauseTypes {
		return false
	}
	clear(class.inARow)
	for _, key := range asked {
		if m := class.marks[key]; !m.holds(now) {
			class.marks[key] = again(m)
		}
	}
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
}
