package leadership

import "k8s.io/client-go/util/retry"

// RetryOnConflict calls write again for as long as it answers with a conflict, as client-go's function of that name does, a few
// times. That one takes the end of a context for its own: a write that was cut off because the lead was lost, or because the
// API server did not answer in time, is told there as done. Here it is an error.
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
