// Package bench holds the benchmarks that need a whole cluster. `make bench` runs them, and docs/benchmarks.md shows the
// results. It consists of tests: each benchmark starts and stops its own sandbox. Nothing imports it.
package bench
