package aws_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/slipway-k8s/slipway/e2e/aws"
)

// post sends a form as a client would that was written without the SDK.
func post(t *testing.T, server *aws.Server, form string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL(), strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	return sent(t, request, "ec2")
}

// sent signs a request to a service in form only, sends it and returns the answer's body.
func sent(t *testing.T, request *http.Request, service string) string {
	t.Helper()
	request.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKIARAW/20260101/us-east-1/"+service+"/aws4_request, SignedHeaders=host, Signature="+strings.Repeat("0", 64))
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := answer.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// A request that is not as EC2's model says is answered as EC2 answers it, and remembered for tests to fail.
func TestContract(t *testing.T) {
	server := start(t, nil)
	if answer := post(t, server, "Action=DescribeInstances&Version=2016-11-15&Filter.1.Name=instance-id&Filter.1.Value.1=i-1"); !strings.Contains(answer, "<reservationSet>") {
		t.Errorf("a good request: %s", answer)
	}
	if got := server.Violations(); len(got) > 0 {
		t.Fatalf("a good request broke the contract: %q", got)
	}
	for range 2 {
		if answer := post(t, server, "Action=DescribeInstances&Version=2016-11-15&Colour=red&MaxResults=many"); !strings.Contains(answer, "<Code>UnknownParameter</Code>") {
			t.Errorf("an unknown parameter: %s", answer)
		}
	}
	if answer := post(t, server, "Action=TerminateInstances&Version=2016-11-15"); !strings.Contains(answer, "<Code>MissingParameter</Code>") {
		t.Errorf("a missing parameter: %s", answer)
	}
	want := []string{
		"AKIARAW: ec2 DescribeInstances: UnknownParameter: The parameter Colour is not recognized",
		"AKIARAW: ec2 DescribeInstances: InvalidParameterValue: Invalid value 'many' for MaxResults. Expecting an integer",
		"AKIARAW: ec2 TerminateInstances: MissingParameter: The request must contain the parameter InstanceId",
	}
	if got := server.Violations(); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
