package aws

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// passing are answers that pass although their codes are no fault of a server's, or although they have none.
func passing() map[string]answer {
	return map[string]answer{
		"503 of a gateway":        {http.StatusServiceUnavailable, "<html><body>503 Service Unavailable</body></html>"},
		"502 without a body":      {http.StatusBadGateway, ""},
		"429 without a body":      {http.StatusTooManyRequests, ""},
		"500 with another code":   refuse(http.StatusInternalServerError, "SomethingOdd", "later"),
		"an expired request":      refuse(http.StatusBadRequest, "RequestExpired", "Request has expired."),
		"an expired token":        refuse(http.StatusBadRequest, "ExpiredToken", "The security token included in the request is expired"),
		"an expired token of STS": refuse(http.StatusBadRequest, "ExpiredTokenException", "The security token included in the request is expired"),
	}
}

// An answer that passes is no fault of the class: its status stays as it was. A call for several instances is not split for it.
func TestAnswersThatPass(t *testing.T) {
	for name, a := range passing() {
		t.Run(name, func(t *testing.T) {
			w, c, class := newAccount(t)
			w.on("DescribeImages", a)
			if status, err := c.Resolve(t.Context(), class); err == nil {
				t.Errorf("the class is at fault: %+v", status.Conditions)
			}
			w.on("TerminateInstances", a)
			err := c.Terminate(t.Context(), []string{"i-1", "i-2", "i-3"})
			if fault, found := errors.AsType[*cloud.TerminationError](err); !found {
				t.Errorf("%v: %+v", err, fault)
			}
			for _, call := range w.made("TerminateInstances") {
				if call.Get("InstanceId.3") != "i-3" {
					t.Errorf("the call was split: %v", call)
				}
			}
		})
	}
}

// token is the token of a service account.
type token struct{}

func (token) GetIdentityToken() ([]byte, error) { return []byte("token"), nil }

// STS answers when credentials are refreshed, in the middle of a call of another service. What passes there is no fault of the class; a denial is.
func TestAnswersOfSTS(t *testing.T) {
	for said, passes := range map[string]bool{
		"IDPCommunicationError": true, "InvalidIdentityToken": true, "ExpiredTokenException": true, "AccessDenied": false,
		"InvalidIdentityToken: No OpenIDConnect provider found in your account for https://oidc.example.com": false,
	} {
		code, message, _ := strings.Cut(said, ": ")
		w, c := newWire(t, func(cfg *Config) {
			provider := stscreds.NewWebIdentityRoleProvider(sts.NewFromConfig(cfg.AWS), "arn:aws:iam::123456789012:role/launcher", token{})
			cfg.AWS.Credentials = awssdk.NewCredentialsCache(provider)
		})
		refusal := refuseIAM(http.StatusBadRequest, code)
		refusal.body = strings.Replace(refusal.body, "<Message>no", "<Message>"+message, 1)
		w.on("AssumeRoleWithWebIdentity", refusal)
		status, err := c.Resolve(t.Context(), nodeClass())
		if (err != nil) != passes || !passes && len(status.Conditions) == 0 {
			t.Errorf("%s: %+v, %v", said, status.Conditions, err)
		}
	}
}

// EC2 lacks capacity for one of two instances, and says so with the status of a server's fault: the other one is started.
func TestLackOfCapacityIsAboutTheCall(t *testing.T) {
	w, c := newWire(t)
	lacks := refuse(http.StatusInternalServerError, string(ec2error.InsufficientInstanceCapacity), "no")
	w.handle("StartInstances", func(call url.Values) answer {
		if call.Get("InstanceId.1") == "i-1" {
			return lacks
		}
		return ok("<StartInstancesResponse/>")
	})
	refused := c.StartInstances(t.Context(), []cloud.Instance{{ID: "i-1"}, {ID: "i-2"}})
	if len(refused) != 1 || refused["i-1"] == nil {
		t.Errorf("%v", refused)
	}
	w.on("DescribeSubnets", refuse(http.StatusNotImplemented, "NotImplemented", "no"))
	if _, err := c.selectSubnets(t.Context(), nodeClass().Spec.SubnetSelectorTerms); err == nil || isTransient(err) {
		t.Errorf("a call that the endpoint does not have passes: %v", err)
	}
}
