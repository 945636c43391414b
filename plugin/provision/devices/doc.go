// Package devices plans for pods with ResourceClaims (dynamic resource allocation). A node that does not exist has published no
// devices: templates stand for them. A template is learned from the ResourceSlices of nodes of the same EC2NodeClass and instance
// type, or declared by the user. The scheduler's own allocator decides how many pods a template serves. That number becomes a
// resource of the instance type, which the planner packs like any other.
//
// Left out are devices that are not on one node, and devices that consume shared counters. Pods with different claims do not share
// a new node; those with very many different claims are planned in turns.
package devices
