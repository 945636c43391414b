// Package manifests embeds the deployed files, so that the sandbox and the tests run with exactly the files that users apply: RBAC rules
// (rbac/), admission policies (admission/), scheduler configurations (scheduler/), samples (samples/) and the IAM policy of the launcher (iam/).
//
// It decodes strictly: an unknown field is an error. It imports only the API types and starts nothing.
package manifests
