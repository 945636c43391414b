package wire_test

import (
	"fmt"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-k8s/slipway/e2e/aws/wire"
)

func params(t *testing.T, query string) wire.Params {
	t.Helper()
	form, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	return wire.NewParams(form)
}

func TestParams(t *testing.T) {
	p := params(t, "Action=X&Filter.1.Name=a&Filter.1.Value.2=y&Filter.1.Value.1=x&Filter.2.Name=b&Tags.member.1.Key=k&Tags.member.1.Value=v.w&"+
		"Id.10=ten&Id.9=nine&Deep.Er.Name=n")
	if got := p.Strings("Id"); !slices.Equal(got, []string{"nine", "ten"}) {
		t.Errorf("a list is ordered by number: got %v", got)
	}
	filters := p.Each("Filter")
	if len(filters) != 2 || !slices.Equal(filters[0].Strings("Value"), []string{"x", "y"}) || filters[1].Get("Name") != "b" {
		t.Errorf("filters: got %v", filters)
	}
	if diff := cmp.Diff(map[string]string{"k": "v.w"}, p.Tags("Tags")); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
	if got := p.Get("Deep.Er.Name"); got != "n" {
		t.Errorf("Deep.Er.Name is %q", got)
	}
}

func TestParamsByType(t *testing.T) {
	p := params(t, "Empty=&Flag=TRUE&Number=12&Word=twelve&Deep.Er.Name=n")
	if !p.At("Empty").Given() || p.At("Nothing").Given() || !p.At("Deep").Given() || !p.Bool("Flag") || p.Bool("Word") {
		t.Error("what is given and what is true")
	}
	if n, err := p.Int("Number", 3); n != 12 || err != nil {
		t.Errorf("Number is %d, %v", n, err)
	}
	if n, err := p.Int("Nothing", 3); n != 3 || err != nil {
		t.Errorf("a number that is absent is %d, %v", n, err)
	}
	if _, err := p.Int("Word", 3); err == nil {
		t.Error("twelve is no number")
	}
	if err := p.Require("Number", "Nothing"); err == nil || !strings.Contains(err.Error(), "Nothing") {
		t.Errorf("a parameter is missing: got %v", err)
	}
	if a, b := p.String(), params(t, "B=2&A=1").String(); a == b || b != `A="1" B="2" ` {
		t.Errorf("got %q and %q", a, b)
	}
}

func TestFilters(t *testing.T) {
	tags := map[string]string{"team": "a*b", "Name": "node-1"}
	attributes := wire.Tagged(tags, func(name string) ([]string, bool) {
		switch name {
		case "state":
			return []string{"running"}, true
		case "group":
			return []string{"one", "two"}, true
		}
		return nil, false
	})
	for query, want := range map[string]bool{
		"Filter.1.Name=state&Filter.1.Value.1=running":                                               true,
		"Filter.1.Name=state&Filter.1.Value.1=pending&Filter.1.Value.2=running":                      true,
		"Filter.1.Name=state&Filter.1.Value.1=Running":                                               false,
		"Filter.1.Name=state&Filter.1.Value.1=run*":                                                  true,
		"Filter.1.Name=state&Filter.1.Value.1=runnin?":                                               true,
		"Filter.1.Name=state&Filter.1.Value.1=run?":                                                  false,
		"Filter.1.Name=group&Filter.1.Value.1=two":                                                   true,
		"Filter.1.Name=tag:Name&Filter.1.Value.1=node-*":                                             true,
		"Filter.1.Name=tag:Nothing&Filter.1.Value.1=*":                                               false,
		"Filter.1.Name=tag-key&Filter.1.Value.1=team":                                                true,
		"Filter.1.Name=tag-key&Filter.1.Value.1=none":                                                false,
		`Filter.1.Name=tag:team&Filter.1.Value.1=a\*b`:                                               true,
		`Filter.1.Name=tag:Name&Filter.1.Value.1=node\*`:                                             false,
		"Filter.1.Name=state&Filter.1.Value.1=running&Filter.2.Name=tag:Name&Filter.2.Value.1=other": false,
		"Filter.1.Name=state&Filter.1.Value.1=node.1":                                                false,
		"Filter.1.Name=state&Filter.1.Value.1=running&Filter.2.Name=group&Filter.2.Value.1=o*&Filter.3.Name=state&Filter.3.Value.1=*": true,
	} {
		filters, err := params(t, query).Filters()
		if err != nil {
			t.Errorf("%s: %v", query, err)
			continue
		}
		if got, err := wire.Match(filters, attributes); got != want || err != nil {
			t.Errorf("%s: got %v (%v), want %v", query, got, err, want)
		}
	}
	tooMany := "Filter.1.Name=state"
	for i := range 201 {
		tooMany += fmt.Sprintf("&Filter.1.Value.%d=v%d", i+1, i)
	}
	for query, code := range map[string]string{
		tooMany:                                  "FilterLimitExceeded",
		"Filter.1.Value.1=x":                     "InvalidParameterValue",
		"Filter.1.Name=state":                    "InvalidParameterValue",
		"Filter.1.Name=wrong&Filter.1.Value.1=x": "InvalidParameterValue",
	} {
		filters, err := params(t, query).Filters()
		if err == nil {
			_, err = wire.Match(filters, attributes)
		}
		if err == nil || !strings.HasPrefix(err.Error(), code+": ") {
			t.Errorf("%.60s: got %v, want %s", query, err, code)
		}
	}
}

// Between two pages items come and go: those that stay are told once each.
func TestPages(t *testing.T) {
	key := func(s string) string { return s }
	first, next, err := wire.PageFrom([]string{"d", "b", "a", "c"}, 2, "", key)
	if err != nil || !slices.Equal(first, []string{"a", "b"}) || next == "" {
		t.Fatalf("got %v, %q, %v", first, next, err)
	}
	second, next, err := wire.PageFrom([]string{"d", "c", "aa"}, 2, next, key)
	if err != nil || !slices.Equal(second, []string{"c", "d"}) || next != "" {
		t.Fatalf("got %v, %q, %v", second, next, err)
	}
	for _, token := range []string{"no token", "bm8"} {
		if _, _, err := wire.PageFrom([]string{"a"}, 2, token, key); err == nil {
			t.Errorf("the token %q is taken", token)
		}
	}
	bounds := wire.Pages{Min: 5, Max: 100}
	for query, ok := range map[string]bool{
		"": true, "MaxResults=5": true, "MaxResults=100": true, "MaxResults=4": false, "MaxResults=101": false, "MaxResults=x": false,
	} {
		if _, _, err := wire.Page(params(t, query), bounds, []string{"a"}, key); (err == nil) != ok {
			t.Errorf("%s: got %v", query, err)
		}
	}
	bounds.Clamp = true
	if _, _, err := wire.Page(params(t, "MaxResults=101"), bounds, []string{"a"}, key); err != nil {
		t.Errorf("a size above a maximum that is clamped: %v", err)
	}
}

const signature = "AWS4-HMAC-SHA256 Credential=AKIA/20260101/us-east-1/%s/aws4_request, SignedHeaders=host, Signature="

func TestReadRequest(t *testing.T) {
	sum := strings.Repeat("0a", 32)
	for name, c := range map[string]struct {
		method, path, body, scope, target string
		want                              string
	}{
		"EC2":             {"POST", "/", "Action=DescribeInstances&Version=2016-11-15", "ec2", "", "ec2 DescribeInstances signed"},
		"EC2 unsigned":    {"POST", "/", "Action=DescribeInstances&Version=2016-11-15", "", "", "ec2 DescribeInstances unsigned"},
		"IAM unsigned":    {"POST", "/", "Action=GetRole&Version=2010-05-08", "", "", "iam GetRole unsigned"},
		"STS by GET":      {"GET", "/?Action=GetCallerIdentity&Version=2011-06-15", "", "sts", "", "sts GetCallerIdentity signed"},
		"SQS in JSON":     {"POST", "/", "{}", "sqs", "AmazonSQS.ReceiveMessage", "sqs ReceiveMessage signed"},
		"SQS in Query":    {"POST", "/1/queue", "Action=ReceiveMessage&Version=2012-11-05", "sqs", "", "sqs ReceiveMessage signed"},
		"SSM":             {"POST", "/", "{}", "ssm", "AmazonSSM.GetParameter", "ssm GetParameter signed"},
		"Pricing":         {"POST", "/", "{}", "pricing", "AWSPriceListService.GetProducts", "pricing GetProducts signed"},
		"EKS":             {"GET", "/clusters/test", "", "eks", "", "eks GET /clusters/test signed"},
		"nobody's":        {"GET", "/favicon.ico", "", "", "", "  unsigned"},
		"unknown target":  {"POST", "/", "{}", "kms", "TrentService.Encrypt", " Encrypt signed"},
		"unknown version": {"POST", "/", "Action=X&Version=1999-01-01", "", "", " X unsigned"},
	} {
		in := httptest.NewRequest(c.method, c.path, strings.NewReader(c.body))
		if c.scope != "" {
			in.Header.Set("Authorization", fmt.Sprintf(signature, c.scope)+sum)
		}
		if c.target != "" {
			in.Header.Set("X-Amz-Target", c.target)
			in.Header.Set("Content-Type", "application/x-amz-json-1.1")
		}
		r, err := wire.ReadRequest(in, "id")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		signed := map[bool]string{true: "signed", false: "unsigned"}[r.Signed]
		if got := r.Service + " " + r.Action + " " + signed; got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	in := httptest.NewRequest("POST", "/", strings.NewReader("{}"))
	in.Header.Set("X-Amz-Target", "AmazonSQS.ReceiveMessage")
	in.Header.Set("Content-Type", "text/plain")
	if _, err := wire.ReadRequest(in, "id"); err == nil {
		t.Error("a JSON request of another content type is read")
	}
	in = httptest.NewRequest("GET", "/?Action=GetCallerIdentity&Version=2011-06-15&X-Amz-Signature="+sum+
		"&X-Amz-Credential=AKIA%2F20260101%2Fus-east-1%2Fsts%2Faws4_request", nil)
	if r, err := wire.ReadRequest(in, "id"); err != nil || !r.Signed || r.Service != wire.STS || r.AccessKey != "AKIA" {
		t.Errorf("a presigned request: got %+v, %v", r, err)
	}
}
