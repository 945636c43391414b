// Package variants holds the end-to-end tests that need a sandbox of their own: API servers of older versions, a scheduler that launches before
// it preempts, schedulers built with the plugins of others, and HTTP extenders. Each test starts its own sandbox; one process emulates one version.
package variants
