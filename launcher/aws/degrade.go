package aws

import (
	"errors"
	"net/http"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/smithy-go"

	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
)

// reportedAfter is the number of attempts for a call whose caller repeats it, or does without its answer. With their pauses a call outlasts 3.5 to 7 s of
// throttling, and an outage is known after as long: more attempts would only hide it.
const reportedAfter = 4

// fewAttempts configures a client whose callers repeat its calls, or do without the answer.
func fewAttempts(o *ec2.Options) { o.Retryer = retry.AddWithMaxAttempts(o.Retryer, reportedAfter) }

// isNotImplemented reports whether the endpoint does not implement the action, as an AWS stand-in may not: its error says so, or it answers
// with a server error whose body is not in AWS's format.
func isNotImplemented(err error) bool {
	if slices.Contains([]ec2error.Code{
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

// isUnknownReservation reports whether EC2 has no such capacity reservation. "InvalidCapacityReservationId.NotFound: The specified Capacity
// Reservation 'cr-x' does not exist.".
func isUnknownReservation(err error) bool {
	return slices.Contains([]ec2error.Code{"InvalidCapacityReservationId.NotFound", "InvalidCapacityReservationId.Malformed"}, code(err))
}
