// Package page has the tests of the page of `slipway ui` in a real browser, Debian's Chromium: each view, on a sandbox of 200 nodes and while AWS
// fails. They run the built binaries as a user does, and are run by `make ui-browser`, which needs Node.js and npm as well.
package page
