package policy_test

import (
	"strings"
	"testing"

	"github.com/slipway-k8s/slipway/e2e/aws/policy"
)

func statement(body string) string {
	return `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"a:*","Resource":"*"},{` + body + `}]}`
}

func TestDecide(t *testing.T) {
	tags := func(pairs ...string) map[string][]string {
		out := map[string][]string{}
		for i := 0; i < len(pairs); i += 2 {
			out[pairs[i]] = append(out[pairs[i]], pairs[i+1])
		}
		return out
	}
	const instance = "arn:aws:ec2:us-east-1:1:instance/i-1"
	for name, c := range map[string]struct {
		statement        string
		action, resource string
		context          map[string][]string
		want             policy.Decision
	}{
		"no statement": {`"Effect":"Allow","Action":"ec2:RunInstances","Resource":"*"`, "ec2:CreateFleet", instance, nil, policy.Denied},
		"wildcards": {
			`"Effect":"Allow","Action":"ec2:Des?ribe*","Resource":"arn:aws:ec2:us-east-1:*:instance/*"`,
			"EC2:DescribeInstances", instance, nil, policy.Allowed,
		},
		"another resource": {
			`"Effect":"Allow","Action":"ec2:*","Resource":["arn:aws:ec2:us-east-1:*:volume/*","x"]`,
			"ec2:RunInstances", instance, nil, policy.Denied,
		},
		"denied":      {`"Effect":"Deny","Action":"a:b","Resource":"*"`, "a:b", "*", nil, policy.ExplicitlyDenied},
		"NotAction":   {`"Effect":"Allow","NotAction":"ec2:*","Resource":"*"`, "ec2:RunInstances", "*", nil, policy.Denied},
		"NotResource": {`"Effect":"Deny","Action":"*","NotResource":"x"`, "a:b", "y", nil, policy.ExplicitlyDenied},
		"a tag": {
			`"Effect":"Allow","Action":"*","Resource":"*","Condition":{"StringEquals":{"AWS:requestTag/Team":"x"}}`,
			"ec2:RunInstances", "*", tags("aws:RequestTag/Team", "x"), policy.Allowed,
		},
		"a tag's case counts": {
			`"Effect":"Allow","Action":"*","Resource":"*","Condition":{"StringEquals":{"aws:RequestTag/team":"x"}}`,
			"ec2:RunInstances", "*", tags("aws:RequestTag/Team", "x"), policy.Denied,
		},
		"one of two tags": {
			`"Effect":"Allow","Action":"*","Resource":"*","Condition":{"StringEquals":{"k":["a","b"],"l":"c"}}`,
			"ec2:RunInstances", "*", tags("k", "b"), policy.Denied,
		},
		"like, absent": {`"Effect":"Allow","Action":"*","Resource":"*","Condition":{"StringLike":{"k":"*"}}`, "e:x", "*", nil, policy.Denied},
		"not equal, absent": {
			`"Effect":"Allow","Action":"*","Resource":"*","Condition":{"StringNotEquals":{"k":"a"}}`,
			"e:x", "*", nil, policy.Allowed,
		},
		"if exists, absent": {
			`"Effect":"Allow","Action":"*","Resource":"*","Condition":{"StringEqualsIfExists":{"k":"a"}}`,
			"e:x", "*", nil, policy.Allowed,
		},
		"if exists, another": {
			`"Effect":"Allow","Action":"*","Resource":"*","Condition":{"StringEqualsIfExists":{"k":"a"}}`,
			"e:x", "*", tags("k", "b"), policy.Denied,
		},
		"for all": {
			`"Effect":"Allow","Action":"*","Resource":"*","Condition":{"ForAllValues:StringEquals":{"k":["a","b"]}}`,
			"e:x", "*", tags("k", "b", "k", "a"), policy.Allowed,
		},
		"for all but one": {
			`"Effect":"Allow","Action":"*","Resource":"*","Condition":{"ForAllValues:StringEquals":{"k":["a"]}}`,
			"e:x", "*", tags("k", "b", "k", "a"), policy.Denied,
		},
		"for any": {
			`"Effect":"Allow","Action":"*","Resource":"*","Condition":{"ForAnyValue:StringLike":{"k":"a*"}}`,
			"e:x", "*", tags("k", "b", "k", "ab"), policy.Allowed,
		},
		"null": {`"Effect":"Allow","Action":"*","Resource":"*","Condition":{"Null":{"k":"false"}}`, "e:x", "*", nil, policy.Denied},
		"bool": {`"Effect":"Allow","Action":"*","Resource":"*","Condition":{"Bool":{"k":true}}`, "e:x", "*", tags("k", "TRUE"), policy.Allowed},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := policy.Parse([]byte(statement(c.statement)))
			if err != nil {
				t.Fatal(err)
			}
			if got := p.Decide(policy.Request{Action: c.action, Resource: c.resource, Context: c.context}); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}

// What is not known is an error: passed over, it would allow or deny what AWS would not.
func TestParseRefuses(t *testing.T) {
	for body, want := range map[string]string{
		`"Effect":"Maybe","Action":"*","Resource":"*"`:                                         "Effect",
		`"Effect":"Allow","Action":"*"`:                                                        "Resource",
		`"Effect":"Allow","Action":"*","NotAction":"b","Resource":"*"`:                         "Action",
		`"Effect":"Allow","Action":"*","Resource":"*","Principal":"*"`:                         "Principal",
		`"Effect":"Allow","Action":"*","Resource":"arn:${aws:username}"`:                       "policy variables",
		`"Effect":"Allow","Action":"*","Resource":"*","Condition":{"IpAddress":{"k":"1"}}`:     "IpAddress",
		`"Effect":"Allow","Action":"*","Resource":"*","Condition":{"Null":{"k":"perhaps"}}`:    "Null",
		`"Effect":"Allow","Action":"*","Resource":"*","Condition":{"StringLike":{"k":"${x}"}}`: "policy variables",
	} {
		if _, err := policy.Parse([]byte(statement(body))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error that names %s", body, err, want)
		}
	}
}
