package leadership

import "k8s.io/client-go/util/retry"

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
