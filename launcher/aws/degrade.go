package aws

import (
	"errors"
	"net/http"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/smithy-go"
)

// optionalAttempts is how often a call is tried whose answer can be done without.
const optionalAttempts = 3

// optional is for calls of EC2 whose answer can be done without.
func optional(o *ec2.Options) { o.Retryer = retry.AddWithMaxAttempts(o.Retryer, optionalAttempts) }

// isNotImplemented says that the endpoint does not know the action at all, as a stand-in for AWS may not: it says so, or
// answers that the server has failed with a page that is not in AWS's form.
func isNotImplemented(err error) bool {
	if slices.Contains([]string{
		"NotImplemented", "NotImplementedError", "InvalidAction", "UnknownOperationException", "UnknownAction", "APINotSupported",
	}, code(err)) {
		return true
	}
	answer, ok := errors.AsType[*awshttp.ResponseError](err)
	if !ok {
		return false
	}
	_, readable := errors.AsType[smithy.APIError](err)
	status := answer.HTTPStatusCode()
	return status == http.StatusNotImplemented || !readable && (status == http.StatusInternalServerError || status == http.StatusNotFound)
}

// isUnknownReservation says that EC2 does not know a capacity reservation. "InvalidCapacityReservationId.NotFound: The
// specified Capacity Reservation 'cr-x' does not exist.".
func isUnknownReservation(err error) bool {
	return slices.Contains([]string{"InvalidCapacityReservationId.NotFound", "InvalidCapacityReservationId.Malformed"}, code(err))
}
