// Package standby is the life of instances that wait for a standby CapacityBuffer: a node that is ready and has its images is stopped, and started
// again when a pod is promised it. While it sleeps it has no Node, so that nothing counts it as capacity; the NodeClaim has the condition Standby.
//
// The NodeClaim is the record: its annotation has the state, which is written before EC2 is called, and both calls may be repeated. After a crash at any
// point the next round goes on from there. What the state is good for is in package record. From the start on, package join does the rest, as for a
// node that was launched.
//
// Stops and starts of a moment are one call of EC2.
//
// Decide is pure. Controller is the reconciler around it. Its effects run under leadership.
package standby
