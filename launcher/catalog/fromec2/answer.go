package fromec2

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// Fault is an instance type in an answer that cannot be used as it is.
type Fault struct {
	// Type is its name, or its place in the list where it has none.
	Type string
	// Field that is wrong; empty for the whole entry.
	Field string
	// Message says what is wrong and what comes of it.
	Message string
}

// Answer reads the JSON that `aws ec2 describe-instance-types` prints: the types that Linux nodes can use, sorted by
// name. Entries that lack what is needed are left out and told. It fails where the text is no such answer.
func Answer(text []byte) ([]catalog.Facts, []Fault, error) {
	var answer struct{ InstanceTypes []ec2types.InstanceTypeInfo }
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, nil, err
	}
	if len(answer.InstanceTypes) == 0 {
		return nil, nil, errors.New(`the list "InstanceTypes" has no entry: the output of aws ec2 describe-instance-types is expected`)
	}
	var out []catalog.Facts
	var faults []Fault
	seen := map[string]bool{}
	for i, info := range answer.InstanceTypes {
		facts, ok := Facts(info)
		switch {
		case facts.Name == "":
			faults = append(faults, Fault{fmt.Sprintf("InstanceTypes[%d]", i), "InstanceType", "is missing: the entry is left out"})
		case seen[facts.Name]:
			faults = append(faults, Fault{facts.Name, "", "is in the list more than once: the first one counts"})
		case !virtualized(info) || isMac(info, facts):
		case !ok:
			faults = append(faults, Fault{facts.Name, missing(facts), "is missing: the type is left out"})
		default:
			seen[facts.Name] = true
			out = append(out, facts)
		}
	}
	slices.SortFunc(out, func(a, b catalog.Facts) int { return strings.Compare(a.Name, b.Name) })
	return out, faults, nil
}

// virtualized says whether today's machine images start on the type: those of paravirtual types are gone.
func virtualized(info ec2types.InstanceTypeInfo) bool {
	return len(info.SupportedVirtualizationTypes) == 0 || slices.Contains(info.SupportedVirtualizationTypes, ec2types.VirtualizationTypeHvm)
}

// isMac says whether the type has processors on which no kubelet runs.
func isMac(info ec2types.InstanceTypeInfo, f catalog.Facts) bool {
	return f.Arch == "" && info.ProcessorInfo != nil && len(info.ProcessorInfo.SupportedArchitectures) > 0
}

func missing(f catalog.Facts) string {
	switch {
	case f.Arch == "":
		return "ProcessorInfo.SupportedArchitectures"
	case f.VCPUs <= 0:
		return "VCpuInfo.DefaultVCpus"
	}
	return "MemoryInfo.SizeInMiB"
}
