// Package ec2error knows EC2's error codes: what each means for a launch, the reason that a condition shows for it, the quota behind it,
// and what lifts it. It is pure, and both sides use it: the launcher for conditions and Events of NodeClaims, the planner for the reasons
// of pods.
package ec2error
