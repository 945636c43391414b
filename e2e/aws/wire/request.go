package wire

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// The services, named as in a signature's credential scope.
const (
	// EC2 is Amazon EC2.
	EC2 = "ec2"
	// IAM is AWS Identity and Access Management.
	IAM = "iam"
	// STS is AWS Security Token Service.
	STS = "sts"
	// SQS is Amazon Simple Queue Service.
	SQS = "sqs"
	// SSM is AWS Systems Manager.
	SSM = "ssm"
	// Pricing is the AWS Price List API.
	Pricing = "pricing"
	// EKS is Amazon Elastic Kubernetes Service.
	EKS = "eks"
	// ZonalShift is Amazon Application Recovery Controller, zonal shift.
	ZonalShift = "arc-zonal-shift"
	// SavingsPlans is AWS Savings Plans.
	SavingsPlans = "savingsplans"
)

// Protocol is the form of requests and responses.
type Protocol int

// The protocols.
const (
	// Query is a form answered in XML.
	Query Protocol = iota
	// JSON is a JSON document with the action in a header.
	JSON
	// REST is JSON with the action in method and path.
	REST
)

// maxBody is larger than any request: user data is at most 16 KiB.
const maxBody = 4 << 20

// Request is one call of an API.
type Request struct {
	// ID is the request's id, which every response contains.
	ID string
	// Service is the name of the service; empty for an unknown one.
	Service string
	// Action is such as DescribeInstances; with REST it is method and path.
	Action string
	// Version is the API's, with Query.
	Version string
	// Protocol is that of request and response.
	Protocol Protocol
	// ContentType is that of a JSON response.
	ContentType string
	// Params are those of a Query request.
	Params Params
	// Body is that of a JSON request.
	Body []byte
	// Signed is true where the request has a signature, by any key.
	Signed bool
	// AccessKey is the signature's.
	AccessKey string
}

var (
	scopePattern     = regexp.MustCompile(`Credential=([^/,\s]+)/\d{8}/[^/]+/([^/]+)/aws4_request`)
	signaturePattern = regexp.MustCompile(`Signature=[0-9a-f]{64}`)
)

// ReadRequest reads a request. It fails where the body cannot be read.
func ReadRequest(r *http.Request, id string) (Request, error) {
	out := Request{ID: id}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return out, fmt.Errorf("reading the request: %w", err)
	}
	scope := out.readSignature(r)
	out.ContentType = r.Header.Get("Content-Type")
	target := r.Header.Get("X-Amz-Target")
	switch {
	case target != "":
		out.Protocol, out.Body = JSON, body
		prefix, action, _ := strings.Cut(target, ".")
		out.Action, out.Service = action, targetService(prefix)
		if !strings.HasPrefix(out.ContentType, "application/x-amz-json-1.") {
			return out, Errorf("SerializationException", "Content-Type %q is none of this protocol's", out.ContentType)
		}
	case scope == EKS || isEKSPath(r.URL.Path):
		out.Protocol, out.Body, out.Service, out.ContentType = REST, body, EKS, "application/json"
		out.Action = r.Method + " " + r.URL.Path
	case scope == ZonalShift || strings.HasPrefix(r.URL.Path, "/managedresources"):
		out.Protocol, out.Body, out.Service, out.ContentType = REST, body, ZonalShift, "application/json"
		out.Action = r.Method + " " + r.URL.Path
	case scope == SavingsPlans || strings.HasPrefix(r.URL.Path, "/DescribeSavingsPlan"):
		out.Protocol, out.Body, out.Service, out.ContentType = REST, body, SavingsPlans, "application/json"
		out.Action = strings.TrimPrefix(r.URL.Path, "/") // Each operation is a POST to a path of its own.
	default:
		if err := out.readForm(r, body); err != nil {
			return out, err
		}
		if known(scope) {
			out.Service = scope
		} else {
			out.Service = versionService(out.Version)
		}
	}
	return out, nil
}

// readSignature records whether there is a signature, in the header or presigned, and returns the service for which it was
// made. The signature itself is not verified, since no secret keys are known here.
func (r *Request) readSignature(in *http.Request) (service string) {
	header := in.Header.Get("Authorization")
	query := in.URL.Query()
	if header == "" && query.Get("X-Amz-Signature") != "" {
		header = "Credential=" + query.Get("X-Amz-Credential") + ", Signature=" + query.Get("X-Amz-Signature")
	}
	scope := scopePattern.FindStringSubmatch(header)
	if scope == nil {
		return ""
	}
	r.AccessKey = scope[1]
	r.Signed = signaturePattern.MatchString(header)
	return scope[2]
}

func (r *Request) readForm(in *http.Request, body []byte) error {
	form := in.URL.Query()
	posted, err := url.ParseQuery(string(body))
	if err != nil {
		return Errorf("MalformedQueryString", "The query string cannot be read: %v", err)
	}
	maps.Copy(form, posted)
	r.Protocol, r.Action, r.Version = Query, form.Get("Action"), form.Get("Version")
	r.Params = NewParams(form)
	return nil
}

// Decode reads the JSON body.
func (r Request) Decode(into any) error {
	if len(r.Body) == 0 {
		return nil
	}
	if err := json.Unmarshal(r.Body, into); err != nil {
		return Errorf("SerializationException", "The request cannot be read: %v", err)
	}
	return nil
}

func known(service string) bool {
	switch service {
	case EC2, IAM, STS, SQS:
		return true
	}
	return false
}

func targetService(prefix string) string {
	switch prefix {
	case "AmazonSQS":
		return SQS
	case "AmazonSSM":
		return SSM
	case "AWSPriceListService":
		return Pricing
	}
	return ""
}

func isEKSPath(path string) bool { return path == "/clusters" || strings.HasPrefix(path, "/clusters/") }

// versionService returns the service of a Query request by its API version, for a signature that does not name it.
func versionService(version string) string {
	switch version {
	case "2016-11-15":
		return EC2
	case "2010-05-08":
		return IAM
	case "2011-06-15":
		return STS
	case "2012-11-05":
		return SQS
	}
	return ""
}
