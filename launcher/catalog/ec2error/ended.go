package ec2error

import "strings"

// The state reasons of instances that end while they launch because of their account or their EC2NodeClass: EC2 ends the next one as well (EC2 API
// reference, "StateReason"; EC2 user guide, "Troubleshoot Amazon EC2 instance launch issues", "Instance terminates immediately"). The prefix is a
// part of them: Server.InternalError is EC2's own fault.
const (
	clientError    = "Client.InternalError"
	volumeLimit    = "Client.VolumeLimitExceeded"
	iopsLimit      = "Client.MaxIOPSLimitExceeded"
	snapshotPrefix = "Client.InvalidSnapshot"
	ownShutdown    = "Client.InstanceInitiatedShutdown"
)

// EndsLaunch reports whether a state reason of an instance that ended before its node joined means that the next launch ends in the same way.
func EndsLaunch(stateReason string) bool { return EndRemedy(stateReason) != "" }

// EndRemedy returns what to do about such a state reason, as a sentence in the imperative; "" for other state reasons.
func EndRemedy(stateReason string) string {
	switch {
	case stateReason == clientError:
		return "check the KMS key of its volumes: the key must be enabled, and its policy or a grant must let the launcher's role use it, with " +
			"kms:CreateGrant and kms:GenerateDataKeyWithoutPlaintext"
	case stateReason == volumeLimit, stateReason == iopsLimit:
		return VolumeLimitExceeded.Remedy("")
	case strings.HasPrefix(stateReason, snapshotPrefix):
		return "check the snapshots of spec.blockDeviceMappings and of the AMI: they must exist, and be shared with this account"
	case stateReason == ownShutdown:
		return "check the user data: the machine shut itself down"
	}
	return ""
}

// EndReason returns the reason for which a NodeClaim ends whose instance ended, with this state reason, because EC2 has none of its offering; "" for
// other state reasons.
func EndReason(stateReason string) string {
	if c := Bare(stateReason); c.OfOffering() && !EndsLaunch(stateReason) {
		return c.Reason()
	}
	return ""
}
