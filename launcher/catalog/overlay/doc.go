// Package overlay applies Karpenter's NodeOverlays to a catalog: prices of a user's own, and resources that device plugins add to nodes. It is
// pure: the launcher applies NodeOverlays with it to what it sends and launches, and slipway simulate to what it plans with.
package overlay
