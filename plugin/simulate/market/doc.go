// Package market reads which instances can be bought and for how much: the JSON that `aws ec2 describe-instance-types` prints, a
// file of prices and a list of zones, or the built-in catalog. From these and the NodePools and EC2NodeClasses of the input it
// makes the plan's catalog.
//
// It is pure: texts and objects in, values and problems out.
package market
