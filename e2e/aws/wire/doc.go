// Package wire implements the server side of the protocols of AWS's APIs. It reads the service, the action and the input of
// a request (Query parameters or JSON). It writes results and errors in the form that the service's clients read.
//
//   - EC2: the EC2 variant of Query, answered in XML.
//   - IAM, STS and SQS (from older clients): Query, answered in XML.
//   - SQS, SSM and Pricing: JSON with the action in the header X-Amz-Target.
//   - EKS, ARC zonal shift and Savings Plans: REST with JSON.
//
// It knows no resources, has no goroutines, and keeps no state between requests.
package wire
