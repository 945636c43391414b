// Package causes holds the test that injects the causes of package catalogue into one sandbox, beside each other, and compares what a user sees: the
// pod's condition, `slipway explain` and the API's answer from which the page is made. It applies the proposed edits, after which the pods run.
package causes
