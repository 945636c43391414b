package aws

import (
	"errors"
	"net/http"
	"slices"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
)

// isNotImplemented says that the endpoint does not know the action at all, as a stand-in for AWS may not.
func isNotImplemented(err error) bool {
	if slices.Contains([]string{
		"NotImplemented", "NotImplementedError", "InvalidAction", "UnknownOperationException", "UnknownAction", "APINotSupported",
	}, code(err)) {
		return true
	}
	answer, ok := errors.AsType[*awshttp.ResponseError](err)
	return ok && answer.HTTPStatusCode() == http.StatusNotImplemented
}

// isUnknownReservation says that EC2 does not know a capacity reservation. "InvalidCapacityReservationId.NotFound: The
// specified Capacity Reservation 'cr-x' does not exist.".
func isUnknownReservation(err error) bool {
	return slices.Contains([]string{"InvalidCapacityReservationId.NotFound", "InvalidCapacityReservationId.Malformed"}, code(err))
}
