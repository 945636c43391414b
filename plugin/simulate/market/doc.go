// Package market reads what instances can be bought and for how much: the JSON that `aws ec2 describe-instance-types`
// prints, a file of prices and a list of zones, or the built-in catalogue; and makes the plan's catalog of it and of the
// NodePools and EC2NodeClasses of the input.
//
// It is pure: texts and objects in, values and problems out.
package market
