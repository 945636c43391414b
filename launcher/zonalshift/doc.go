// Package zonalshift writes Karpenter's Events on NodePools when a zonal shift of the cluster takes a zone from them, and when it gives the zone
// back. The offerings are made unavailable by launcher/aws. Its one goroutine is Run's, which ends with its context.
package zonalshift
