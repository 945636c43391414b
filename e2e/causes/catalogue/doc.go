// Package catalogue has the causes of a pending pod, or of a node that does not come: how each is injected into a sandbox, which sentence it shows
// and which edit ends it. Package causes injects them, docs/causes.md lists them. The package is pure.
package catalogue
