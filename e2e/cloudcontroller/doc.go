// Package cloudcontroller plays the cloud-controller-manager of EKS, with Kubernetes' own controllers
// (k8s.io/cloud-provider): Nodes with the uninitialized taint get providerID, addresses, instance type, zone and region and
// lose the taint; a Node that is not ready and whose instance EC2 does not know, or calls terminated, is deleted; one whose
// instance is stopped gets the shutdown taint. Only what these controllers ask of a cloud is written here, over EC2's API
// through the SDK, so that throttling and eventual consistency hit it as they hit the real one.
//
// Run starts the goroutines of both controllers and of an informer for Nodes; all end with its context.
package cloudcontroller
