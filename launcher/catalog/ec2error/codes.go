package ec2error

import (
	"errors"
	"strings"
)

// Code is an error code of EC2, without a prefix "Server." or "Client.". The empty code means that none is known.
//
// Source of the codes: EC2 API reference, "Error codes for the Amazon EC2 API"
// (https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html).
type Code string

// The codes of offerings: EC2 has no capacity, or no room of another sort, and may have some later (same page, "Server error codes" and
// "Client error codes").
const (
	InsufficientInstanceCapacity         Code = "InsufficientInstanceCapacity"
	InsufficientHostCapacity             Code = "InsufficientHostCapacity"
	InsufficientCapacity                 Code = "InsufficientCapacity"
	InsufficientCapacityOnHost           Code = "InsufficientCapacityOnHost"
	InsufficientReservedInstanceCapacity Code = "InsufficientReservedInstanceCapacity"
	InsufficientVolumeCapacity           Code = "InsufficientVolumeCapacity"
	InsufficientAddressCapacity          Code = "InsufficientAddressCapacity"
	UnfulfillableCapacity                Code = "UnfulfillableCapacity"
	Unsupported                          Code = "Unsupported"
	InsufficientFreeAddressesInSubnet    Code = "InsufficientFreeAddressesInSubnet"
	InsufficientCidrBlocks               Code = "InsufficientCidrBlocks"
	ReservationCapacityExceeded          Code = "ReservationCapacityExceeded"
	SpotMaxPriceTooLow                   Code = "SpotMaxPriceTooLow"
)

// The codes of quotas (same page, "Client error codes").
const (
	VcpuLimitExceeded                Code = "VcpuLimitExceeded"
	InstanceLimitExceeded            Code = "InstanceLimitExceeded"
	MaxSpotInstanceCountExceeded     Code = "MaxSpotInstanceCountExceeded"
	SpotInstanceCountExceeded        Code = "SpotInstanceCountExceeded"
	MaxSpotFleetRequestCountExceeded Code = "MaxSpotFleetRequestCountExceeded"
	MaxFleetCountExceeded            Code = "MaxFleetCountExceeded"
	MaxIOPSLimitExceeded             Code = "MaxIOPSLimitExceeded"
	VolumeLimitExceeded              Code = "VolumeLimitExceeded"
	RequestResourceCountExceeded     Code = "RequestResourceCountExceeded"
	PrivateIPAddressLimitExceeded    Code = "PrivateIpAddressLimitExceeded"
	NetworkInterfaceLimitExceeded    Code = "NetworkInterfaceLimitExceeded"
)

// ZonalShift is not EC2's: the user has shifted the cluster away from the zone, and nothing is launched there meanwhile (Amazon Application
// Recovery Controller, "Zonal shift").
const ZonalShift Code = "ZonalShift"

// SpotServiceLinkedRole means that the account lacks the service-linked role of EC2 Spot and the caller may not create it (EC2 user guide,
// "Service-linked role for Spot Instance requests",
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/service-linked-roles-spot-instance-requests.html).
const SpotServiceLinkedRole Code = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"

// The codes of a caller who lacks a permission, or whose account may not launch (same page, "Common client error codes").
const (
	UnauthorizedOperation Code = "UnauthorizedOperation"
	AccessDenied          Code = "AccessDenied"
	AuthFailure           Code = "AuthFailure"
	OptInRequired         Code = "OptInRequired"
	PendingVerification   Code = "PendingVerification"
	Blocked               Code = "Blocked"
	AccountDisabled       Code = "AccountDisabled"
	InvalidClientTokenID  Code = "InvalidClientTokenId"
	UnrecognizedClient    Code = "UnrecognizedClientException"
)

// UnsupportedHibernation is the code of a launch that does not meet the prerequisites of hibernation, and of a hibernation of an instance that was
// launched without it (same page, "Client error codes for specific actions").
const UnsupportedHibernation Code = "UnsupportedHibernationConfiguration"

// The codes of an EC2 that does not serve the request now (same page, "Server error codes"; EC2 developer guide, "Request throttling for
// the Amazon EC2 API", https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-throttling.html).
const (
	RequestLimitExceeded Code = "RequestLimitExceeded"
	InternalError        Code = "InternalError"
	ServiceUnavailable   Code = "ServiceUnavailable"
	// NoAnswer is not EC2's: the call ended without an answer, because the connection failed or time ran out.
	NoAnswer Code = "NoAnswer"
)

// Bare returns the code without the prefix "Server." or "Client.": fleets and spot requests answer with
// Server.InsufficientInstanceCapacity too.
func Bare(code string) Code {
	return Code(strings.TrimPrefix(strings.TrimPrefix(code, "Server."), "Client."))
}

// OfFleet returns the code of an error in a fleet's answer. A fleet has another code where a zone does not have an instance type:
// "InvalidFleetConfiguration: Your requested instance type (x) is not supported in your requested Availability Zone (y).". That is Unsupported.
func OfFleet(code, text string) Code {
	c := Bare(code)
	if c == "InvalidFleetConfiguration" && strings.Contains(text, "not supported in your requested Availability Zone") {
		return Unsupported
	}
	return c
}

// Of returns the code of an AWS error and the operation that failed, such as CreateFleet; NoAnswer if the call ended without an answer,
// and "" for an error that is not AWS's. It reads the methods of the SDK's errors and needs no SDK.
func Of(err error) (c Code, operation string) {
	if call, ok := errors.AsType[interface {
		error
		Operation() string
	}](err); ok {
		operation = call.Operation()
	}
	answer, ok := errors.AsType[interface {
		error
		ErrorCode() string
	}](err)
	switch {
	case ok:
		return Bare(answer.ErrorCode()), operation
	case operation != "":
		return NoAnswer, operation
	}
	return "", ""
}
