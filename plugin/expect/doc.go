// Package expect says how many pods Deployments that grow are expected to add soon: as many as in the time before. It is pure, and counts pods alone.
package expect
