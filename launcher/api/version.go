package api

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The version of the contract that this build speaks. A change that adds messages, fields or values which the other side may leave
// out raises the minor version; any other change raises the major version, and sets the minor version to 0.
const (
	// ProtocolMajor is the major version: sides with different ones refuse each other.
	ProtocolMajor = 1
	// ProtocolMinor is the minor version: sides with different ones go on.
	ProtocolMinor = 6
)

// The two sides, by the names of their containers.
const (
	// SideLauncher is the side that acts.
	SideLauncher = "slipway-launcher"
	// SideScheduler is the side that decides.
	SideScheduler = "slipway-scheduler"
)

// OwnVersion returns the version of the contract that this build speaks.
func OwnVersion() *Version { return &Version{Major: ProtocolMajor, Minor: ProtocolMinor} }

// Text returns the version as "1.0". Nil, which is what a side sends that is older than 1.0, gives "0".
func (v *Version) Text() string {
	if v == nil {
		return "0"
	}
	return fmt.Sprintf("%d.%d", v.GetMajor(), v.GetMinor())
}

// Skew is how the other side's version of the contract differs from this side's.
type Skew string

// The skews.
const (
	// SkewNone means that both speak the same version.
	SkewNone Skew = "none"
	// SkewMinor means that the two go together without what only one of them knows.
	SkewMinor Skew = "minor"
	// SkewMajor means that the two do not go together.
	SkewMajor Skew = "major"
)

// SkewOf compares the other side's version with this side's. Nil is the version of a side that is older than 1.0.
func SkewOf(peer *Version) Skew {
	switch own := OwnVersion(); {
	case peer.GetMajor() != own.GetMajor():
		return SkewMajor
	case peer.GetMinor() != own.GetMinor():
		return SkewMinor
	}
	return SkewNone
}

// IncompatibleError says that the other side speaks another major version of the contract.
type IncompatibleError struct {
	// Side is the other side: SideLauncher or SideScheduler.
	Side string
	// Version is the other side's; nil where it is older than 1.0.
	Version *Version
}

// Error names both versions.
func (e *IncompatibleError) Error() string {
	return fmt.Sprintf("comparing versions of the contract: %s speaks %s, this side %s; both have to be of one release", e.Side, e.Version.Text(), OwnVersion().Text())
}

// GRPCStatus returns what gRPC sends to the other side in place of the error, with this side's version.
func (e *IncompatibleError) GRPCStatus() *status.Status {
	refused := status.New(codes.FailedPrecondition, e.Error())
	if detailed, err := refused.WithDetails(OwnVersion()); err == nil {
		return detailed
	}
	return refused
}

// RefusedBy returns the IncompatibleError that the other side answered a call with, as this side sees it, and other errors as they
// are.
func RefusedBy(side string, err error) error {
	var incompatible *IncompatibleError
	if err == nil || errors.As(err, &incompatible) {
		return err
	}
	for _, detail := range status.Convert(err).Details() {
		if theirs, ok := detail.(*Version); ok {
			return &IncompatibleError{Side: side, Version: theirs}
		}
	}
	return err
}
