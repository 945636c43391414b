package leadership

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/retry"
)

// RetryOnConflict calls write a few times for as long as it returns a conflict, as client-go's function of that name does. That one ignores
// the end of a context: it returns success for a write that was cut off because leadership was lost, or because the API server did not
// answer in time. Here that is an error.
func RetryOnConflict(write func() error) error {
	var last error
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		last = write()
		return last
	})
	if err == nil {
		return last
	}
	return err
}

// Unanswered reports whether the error of a write leaves open whether the write was done: it is no answer of the API server, or one that the server
// itself could not decide.
func Unanswered(err error) bool {
	if err == nil {
		return false
	}
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return true
	}
	switch answer.Status().Code {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}
