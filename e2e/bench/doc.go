// Package bench holds the benchmarks that need a whole cluster; `make bench` runs them, docs/benchmarks.md tells what they
// gave. It consists of tests: each benchmark starts a sandbox of its own and stops it. Nothing imports it.
package bench
