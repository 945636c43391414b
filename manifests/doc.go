// Package manifests holds what is deployed beside the binaries, embedded, so that the sandbox and the tests run under
// exactly the files that users apply: RBAC rules (rbac/), scheduler configurations (scheduler/), samples (samples/) and the IAM
// policy of the launcher (iam/).
//
// It decodes strictly: a field that the API does not know is an error. It imports the API types alone and starts nothing.
package manifests
