// Package nodeoverlay keeps what NodeOverlays make of the instance types of each NodePool, for the server, the launches and the cost metric, and
// writes each NodeOverlay's condition ValidationSucceeded. The rules are those of launcher/catalog/overlay. Its one goroutine is the manager's
// controller, which stops with the manager.
package nodeoverlay
