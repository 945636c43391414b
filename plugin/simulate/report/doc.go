// Package report renders a simulation as one HTML file: `slipway simulate -o html`.
//
// The file refers to nothing outside of itself and has no script: its Content-Security-Policy forbids both. Names, labels and messages are
// other people's: html/template escapes them, and characters that are not shown are quoted as on a terminal. The same input gives the same
// file. What it lists one by one is bounded, so that 5,000 nodes take less than 3 MB.
//
// The package is pure: an outcome in, text out. It starts no goroutine.
package report
