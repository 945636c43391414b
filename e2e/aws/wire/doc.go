// Package wire speaks the protocols of AWS's APIs as a server does: which service and action a request is for, what it asks
// (Query parameters or JSON), and answers and errors in the shape that the service's clients read.
//
//   - EC2: the EC2 variant of Query, answered in XML.
//   - IAM, STS and SQS (as older clients speak to it): Query, answered in XML.
//   - SQS, SSM and Pricing: JSON with the action in the header X-Amz-Target.
//   - EKS: REST with JSON.
//
// It knows no resources, has no goroutines, and keeps nothing between requests.
package wire
