package cloud

import (
	"errors"
	"fmt"

	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
)

// Cause classifies why a launch failed, and so what to do next.
type Cause string

// The causes, with the launcher's reaction to each.
const (
	// CauseCapacity means that EC2 has none of an offering now. Another offering may succeed.
	CauseCapacity Cause = "capacity"
	// CauseQuota means that the account reached a quota. Another offering may succeed.
	CauseQuota Cause = "quota"
	// CauseSpotRole means that the account lacks the service-linked role of EC2 Spot, and the launcher may not create it. On-demand may
	// succeed.
	CauseSpotRole Cause = "spot-role"
	// CauseUnauthorized means that the launcher's role lacks a permission. An administrator must grant it.
	CauseUnauthorized Cause = "unauthorized"
	// CauseInvalid means that EC2 rejects a setting of the class. A user must change it.
	CauseInvalid Cause = "invalid"
	// CauseTemplateGone means that another party deleted a launch template. The next attempt creates it again.
	CauseTemplateGone Cause = "template-gone"
	// CauseUnknown means that EC2 returned an unknown code. Another offering may succeed.
	CauseUnknown Cause = "unknown"
	// CauseThrottled means that there were too many requests. The same call may succeed later.
	CauseThrottled Cause = "throttled"
	// CauseTransient means that the same call may succeed later.
	CauseTransient Cause = "transient"
)

// Passing reports whether the same offering may be requested again at once or soon, because the cause is not the offering.
func (c Cause) Passing() bool {
	return c == CauseTemplateGone || c == CauseThrottled || c == CauseTransient
}

// NodeClassError means that a class cannot launch until it or its account is changed: a retry fails again.
type NodeClassError struct {
	// Class is the EC2NodeClass's name.
	Class string
	// Reason is one CamelCase word, Message a sentence that names the field.
	Reason, Message string
	// Cause classifies the error; empty if the class was found at fault before EC2 was called.
	Cause Cause
	// Code is AWS's error code; empty if AWS was not called.
	Code ec2error.Code
}

// Error returns the class's name and what to fix.
func (e *NodeClassError) Error() string {
	return fmt.Sprintf("EC2NodeClass %s: %s: %s", e.Class, e.Reason, e.Message)
}

// IsNodeClass returns err as a NodeClassError, and whether it is one.
func IsNodeClass(err error) (*NodeClassError, bool) {
	var e *NodeClassError
	ok := errors.As(err, &e)
	return e, ok
}

// LaunchError means that a launch failed for a transient cause.
type LaunchError struct {
	// Class is the EC2NodeClass's name.
	Class string
	// Cause classifies the error.
	Cause Cause
	// Code is AWS's error code, or ec2error.NoAnswer.
	Code ec2error.Code
	// Reason is one CamelCase word for the NodeClaim's condition, Message a sentence.
	Reason, Message string
	// Lost means that an attempt of the call may have launched, whatever the last one came to: it ended without an answer.
	Lost bool
	// Err is AWS's error.
	Err error
}

// Error returns the class's name and the cause.
func (e *LaunchError) Error() string {
	return fmt.Sprintf("EC2NodeClass %s: %s: %s", e.Class, e.Reason, e.Message)
}

// Unwrap returns AWS's error.
func (e *LaunchError) Unwrap() error { return e.Err }

// AsLaunch returns err as a LaunchError, and whether it is one.
func AsLaunch(err error) (*LaunchError, bool) {
	var e *LaunchError
	ok := errors.As(err, &e)
	return e, ok
}

// NotFoundError means that an instance does not exist in EC2.
type NotFoundError struct {
	// InstanceID is the requested ID.
	InstanceID string
}

// Error returns the instance's ID.
func (e *NotFoundError) Error() string { return "instance " + e.InstanceID + " not found" }

// IsNotFound reports whether err is a NotFoundError.
func IsNotFound(err error) bool {
	var e *NotFoundError
	return errors.As(err, &e)
}

// TerminationError is one instance that EC2 does not terminate. The others of the call are terminated.
type TerminationError struct {
	// InstanceID is the instance.
	InstanceID string
	// Err is AWS's error.
	Err error
}

// Error returns the instance's ID and AWS's error.
func (e *TerminationError) Error() string {
	return "terminating instance " + e.InstanceID + ": " + e.Err.Error()
}

// Unwrap returns AWS's error.
func (e *TerminationError) Unwrap() error { return e.Err }

// NotTerminated returns the errors of the instances that a call of Cloud.Terminate did not terminate, by their IDs. An error that is no
// TerminationError is one of all instances of the call.
func NotTerminated(err error, instanceIDs []string) map[string]error {
	out := map[string]error{}
	if err == nil {
		return out
	}
	each := []error{err}
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		each = joined.Unwrap()
	}
	for _, one := range each {
		if e, ok := errors.AsType[*TerminationError](one); ok {
			out[e.InstanceID] = e
			continue
		}
		for _, id := range instanceIDs {
			out[id] = err
		}
		return out
	}
	return out
}
