package cloud

import (
	"errors"
	"fmt"
)

// NodeClassError says that a class cannot launch until somebody changes it or its account: not retried as it is.
type NodeClassError struct {
	// Class is the EC2NodeClass's name.
	Class string
	// Reason is one CamelCase word, Message a sentence that names the field.
	Reason, Message string
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
