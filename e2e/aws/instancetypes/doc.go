// Package instancetypes knows the EC2 instance types of the simulated region: what they are, what they cost on demand and
// on the spot market, and in which zones they are offered. The facts are a table of families (families.txt); what the
// network interfaces of a type can do comes from AWS's own list for its VPC controller.
//
// It is pure: a Table does not change after New, and spot prices are a function of seed, type, zone and time.
package instancetypes
