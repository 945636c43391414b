// Package kind has the end-to-end tests on kind (`make e2e-kind`): a cluster that kind makes, slipway in it from its images and
// manifests, the sandbox's AWS on the host, and a node container of kind's image behind each instance. It is tests alone; they
// need Docker, or Debian's docker.io and root to start one, and several minutes. They are no part of `make test`.
package kind
