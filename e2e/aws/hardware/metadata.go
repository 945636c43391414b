package hardware

import (
	"cmp"
	"slices"

	"github.com/slipway-k8s/slipway/e2e/aws/wire"
)

// Metadata are the options of an instance's metadata service, as DescribeInstances returns them.
type Metadata struct {
	// State is applied.
	State string `xml:"state"`
	// Tokens is required or optional.
	Tokens string `xml:"httpTokens"`
	// HopLimit of responses.
	HopLimit int `xml:"httpPutResponseHopLimit"`
	// Endpoint is enabled or disabled.
	Endpoint string `xml:"httpEndpoint"`
	// IPv6 is enabled or disabled.
	IPv6 string `xml:"httpProtocolIpv6"`
	// Tags is enabled or disabled.
	Tags string `xml:"instanceMetadataTags"`
}

// mostHops is the largest hop limit (EC2 API reference, InstanceMetadataOptionsRequest).
const mostHops = 64

// MetadataOf reads the options of a launch, with EC2's defaults for AMIs that require IMDSv2.
func MetadataOf(spec wire.Params) (Metadata, *wire.Error) {
	out := Metadata{State: "applied"}
	for _, f := range []struct {
		name, absent, other string
		into                *string
	}{
		{"HttpTokens", "required", "optional", &out.Tokens},
		{"HttpEndpoint", "enabled", "disabled", &out.Endpoint},
		{"HttpProtocolIpv6", "disabled", "enabled", &out.IPv6},
		{"InstanceMetadataTags", "disabled", "enabled", &out.Tags},
	} {
		*f.into = cmp.Or(spec.Get(f.name), f.absent)
		if !slices.Contains([]string{f.absent, f.other}, *f.into) {
			return out, wire.Errorf("InvalidParameterValue", "Value (%s) for parameter %s is invalid.", *f.into, f.name)
		}
	}
	hops, err := spec.Int("HttpPutResponseHopLimit", 2)
	if err != nil || hops < 1 || hops > mostHops {
		return out, wire.Errorf("InvalidParameterValue", "Value (%s) for parameter HttpPutResponseHopLimit is invalid.", spec.Get("HttpPutResponseHopLimit"))
	}
	out.HopLimit = hops
	return out, nil
}
