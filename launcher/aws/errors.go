package aws

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
)

// code returns AWS's error code, or "" if err is not an AWS error.
func code(err error) ec2error.Code {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return ec2error.Bare(api.ErrorCode())
	}
	return ""
}

// message returns AWS's own words; those of the network if there was no answer.
func message(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorMessage()
	}
	if unsent, ok := errors.AsType[*smithyhttp.RequestSendError](err); ok {
		return unsent.Err.Error()
	}
	return err.Error()
}

// isTemplateThere reports whether a launch template of that name exists already.
func isTemplateThere(err error) bool {
	return strings.HasPrefix(string(code(err)), "InvalidLaunchTemplateName.AlreadyExists")
}

// isAbsent reports whether the named entity does not exist in IAM, SSM or EKS.
func isAbsent(err error) bool {
	return slices.Contains([]ec2error.Code{
		"NoSuchEntity", "ParameterNotFound", "ParameterVersionNotFound", "ResourceNotFoundException",
	}, code(err))
}

// isQueueGone reports whether the SQS queue does not exist.
func isQueueGone(err error) bool {
	c := string(code(err))
	return strings.HasSuffix(c, "NonExistentQueue") || strings.HasSuffix(c, "QueueDoesNotExist")
}

// isThere reports whether IAM has an entity of that name already.
func isThere(err error) bool { return code(err) == "EntityAlreadyExists" }

// isTransient reports whether the same call may succeed a moment later. The HTTP status decides where the code says nothing: EC2's errors have no fault,
// and a gateway in front of AWS sends no code. EC2 also has the status 500 for a lack of capacity, which is about what the call asks for.
func isTransient(err error) bool {
	api, ok := errors.AsType[smithy.APIError](err)
	switch c := code(err); {
	case !ok || api.ErrorFault() == smithy.FaultServer || c.IsThrottled() || c.IsServersFault() || c.IsStale() && !isIssuerUnknown(api):
		return true
	case c.IsDenied() || c.OfOffering() || isNotImplemented(err):
		return false
	}
	answer, ok := errors.AsType[*awshttp.ResponseError](err)
	return ok && (answer.HTTPStatusCode() >= http.StatusInternalServerError || answer.HTTPStatusCode() == http.StatusTooManyRequests)
}

// isIssuerUnknown reports whether the account has no OIDC provider for the issuer of the launcher's token, which does not pass by itself: "No OpenIDConnect provider
// found in your account for https://...".
func isIssuerUnknown(err smithy.APIError) bool {
	return strings.HasPrefix(err.ErrorMessage(), "No OpenIDConnect provider")
}

// isUnreachable reports whether the service gave no answer at all.
func isUnreachable(err error) bool {
	_, ok := errors.AsType[*smithyhttp.RequestSendError](err)
	return ok
}

// isRoleDenied reports whether AWS denies the launcher to pass a role to instances. It does so before it looks whether there is such a role.
func isRoleDenied(err error) bool {
	return code(err).IsDenied() && strings.Contains(message(err), "iam:PassRole")
}

// isProfilePropagating reports whether EC2 cannot use an instance profile yet: a new one takes IAM some seconds to propagate. "Value (x) for
// parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name".
func isProfilePropagating(text string) bool {
	return strings.Contains(strings.ToLower(text), "iam instance profile") || strings.Contains(text, "iamInstanceProfile")
}
