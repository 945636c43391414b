package wire

import (
	"errors"
	"fmt"
	"net/http"
)

// Error is an error of AWS.
type Error struct {
	// Code is AWS's code, for example InvalidInstanceID.NotFound.
	Code string
	// Message is for humans.
	Message string
	// Status is the HTTP status; 0 means 400.
	Status int
	// QueryCode is the code of the Query protocol, which SQS's JSON protocol sends as well; empty means Code.
	QueryCode string
}

// Errorf returns an error caused by the caller.
func Errorf(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// WithStatus returns the error with another HTTP status.
func (e *Error) WithStatus(status int) *Error {
	out := *e
	out.Status = status
	return &out
}

// Error implements error.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

func (e *Error) status() int {
	if e.Status == 0 {
		return http.StatusBadRequest
	}
	return e.Status
}

// serverFault reports whether the server caused the error.
func (e *Error) serverFault() bool { return e.status() >= http.StatusInternalServerError }

// asError returns an error as AWS's. An error that is not an *Error is an internal one of the server.
func asError(err error) *Error {
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	return &Error{Code: "InternalError", Message: err.Error(), Status: http.StatusInternalServerError}
}

// Unsigned returns the error for a request without a signature.
func Unsigned(protocol Protocol) *Error {
	e := &Error{Code: "MissingAuthenticationToken", Message: "Request is missing Authentication Token", Status: http.StatusForbidden}
	if protocol == JSON || protocol == REST {
		e.Code = "MissingAuthenticationTokenException"
		e.Message = "Missing Authentication Token"
	}
	return e
}

// Throttled returns the error for a request that exceeds a limit.
func Throttled(service string) *Error {
	switch service {
	case EC2:
		return &Error{Code: "RequestLimitExceeded", Message: "Request limit exceeded.", Status: http.StatusServiceUnavailable}
	case IAM, STS:
		return &Error{Code: "Throttling", Message: "Rate exceeded"}
	case SQS:
		return &Error{Code: "RequestThrottled", Message: "The request was denied due to request throttling.", Status: http.StatusForbidden}
	}
	return &Error{Code: "ThrottlingException", Message: "Rate exceeded"}
}

// Down returns the error of a service that is down.
func Down(service string) *Error {
	e := &Error{Code: "ServiceUnavailable", Message: "Service is unable to handle request.", Status: http.StatusServiceUnavailable}
	if service == EC2 {
		e.Code, e.Message = "Unavailable", "The service is unavailable. Please try again shortly."
	}
	return e
}

// UnknownAction returns the error for an action that the service does not have.
func UnknownAction(r Request) *Error {
	switch {
	case r.Service == EC2:
		return Errorf("InvalidAction", "The action %s is not valid for this web service.", r.Action)
	case r.Protocol == Query:
		return Errorf("InvalidAction", "Could not find operation %s for version %s", r.Action, r.Version)
	case r.Protocol == REST:
		return Errorf("UnknownOperationException", "No operation of %s is at %s", r.Service, r.Action).WithStatus(http.StatusNotFound)
	}
	return Errorf("UnknownOperationException", "%s has no operation %s", r.Service, r.Action)
}
