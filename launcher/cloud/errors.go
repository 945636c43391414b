package cloud

import (
	"errors"
	"fmt"
)

// Cause is what kind of obstacle a launch met; it says what to do next.
type Cause string

// The causes. What each asks of the launcher is in its comment.
const (
	// CauseCapacity: EC2 has none of an offering now. Another offering may do.
	CauseCapacity Cause = "capacity"
	// CauseQuota: the account may not have more of something. Another offering may do.
	CauseQuota Cause = "quota"
	// CauseSpotRole: the account lacks the service-linked role of EC2 Spot, and the launcher may not create it. On-demand may do.
	CauseSpotRole Cause = "spot-role"
	// CauseUnauthorized: the launcher's role lacks a permission. Somebody has to give it.
	CauseUnauthorized Cause = "unauthorized"
	// CauseInvalid: EC2 refuses what the class says. Somebody has to change it.
	CauseInvalid Cause = "invalid"
	// CauseTemplateGone: a launch template was deleted behind our back. The next attempt makes it again.
	CauseTemplateGone Cause = "template-gone"
	// CauseUnknown: EC2 names a reason that nobody here knows. Another offering may do.
	CauseUnknown Cause = "unknown"
	// CauseThrottled: too many requests. The same call may do, later.
	CauseThrottled Cause = "throttled"
	// CauseTransient: the same call may do, later.
	CauseTransient Cause = "transient"
)

// Passing says that the same offering may be asked for again at once or soon: nothing is known against it.
func (c Cause) Passing() bool {
	return c == CauseTemplateGone || c == CauseThrottled || c == CauseTransient
}

// NodeClassError says that a class cannot launch until somebody changes it or its account: not retried as it is.
type NodeClassError struct {
	// Class is the EC2NodeClass's name.
	Class string
	// Reason is one CamelCase word, Message a sentence that names the field.
	Reason, Message string
	// Cause of it; empty where the class is at fault before EC2 was asked.
	Cause Cause
}

// Error names the class and what to fix.
func (e *NodeClassError) Error() string {
	return fmt.Sprintf("EC2NodeClass %s: %s: %s", e.Class, e.Reason, e.Message)
}

// IsNodeClass says whether err is a NodeClassError, and returns it.
func IsNodeClass(err error) (*NodeClassError, bool) {
	var e *NodeClassError
	ok := errors.As(err, &e)
	return e, ok
}

// LaunchError says that a launch did not come about, for a cause that passes.
type LaunchError struct {
	// Class is the EC2NodeClass's name.
	Class string
	// Cause of it.
	Cause Cause
	// Reason is one CamelCase word for the NodeClaim's condition, Message a sentence.
	Reason, Message string
	// Err is what AWS answered.
	Err error
}

// Error names the class and the cause.
func (e *LaunchError) Error() string {
	return fmt.Sprintf("EC2NodeClass %s: %s: %s", e.Class, e.Reason, e.Message)
}

// Unwrap returns what AWS answered.
func (e *LaunchError) Unwrap() error { return e.Err }

// AsLaunch says whether err is a LaunchError, and returns it.
func AsLaunch(err error) (*LaunchError, bool) {
	var e *LaunchError
	ok := errors.As(err, &e)
	return e, ok
}

// NotFoundError says that EC2 does not know an instance.
type NotFoundError struct {
	// InstanceID that was asked for.
	InstanceID string
}

// Error names the instance.
func (e *NotFoundError) Error() string { return "instance " + e.InstanceID + " not found" }

// IsNotFound says whether err is a NotFoundError.
func IsNotFound(err error) bool {
	var e *NotFoundError
	return errors.As(err, &e)
}
