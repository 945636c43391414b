// Package policy reads IAM policy documents and says what they allow: statements with actions, resources and conditions, as
// far as identity-based policies of controllers use them. It is pure. What it does not know in a document (another element,
// a condition operator, a policy variable) is an error of Parse, never something to be passed over.
package policy
