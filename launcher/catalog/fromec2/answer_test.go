package fromec2

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAnswer(t *testing.T) {
	const text = `{"InstanceTypes": [
		{"InstanceType": "m5.large", "VCpuInfo": {"DefaultVCpus": 2}, "MemoryInfo": {"SizeInMiB": 8192},
		 "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]}, "SupportedVirtualizationTypes": ["hvm"]},
		{"InstanceType": "c7g.large", "VCpuInfo": {"DefaultVCpus": 2}, "MemoryInfo": {"SizeInMiB": 4096},
		 "ProcessorInfo": {"SupportedArchitectures": ["arm64"]}},
		{"InstanceType": "m5.large", "VCpuInfo": {"DefaultVCpus": 4}, "MemoryInfo": {"SizeInMiB": 1},
		 "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]}},
		{"InstanceType": "mac2.metal", "VCpuInfo": {"DefaultVCpus": 8}, "MemoryInfo": {"SizeInMiB": 16384},
		 "ProcessorInfo": {"SupportedArchitectures": ["arm64_mac"]}},
		{"InstanceType": "c1.medium", "VCpuInfo": {"DefaultVCpus": 2}, "MemoryInfo": {"SizeInMiB": 1700},
		 "ProcessorInfo": {"SupportedArchitectures": ["i386"]}, "SupportedVirtualizationTypes": ["paravirtual"]},
		{"InstanceType": "x9.large", "VCpuInfo": {"DefaultVCpus": 2}, "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]}},
		{"InstanceType": "x9.xlarge", "MemoryInfo": {"SizeInMiB": 8192}, "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]}},
		{"InstanceType": "x9.2xlarge", "VCpuInfo": {"DefaultVCpus": 2}, "MemoryInfo": {"SizeInMiB": 8192}},
		{}
	]}`
	got, faults, err := Answer([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].Name != "c7g.large" || got[1].Name != "m5.large" || got[1].VCPUs != 2 {
		t.Errorf("types: %+v, want c7g.large and the first m5.large", got)
	}
	want := []Fault{
		{"m5.large", "", "is in the list more than once: the first one counts"},
		{"x9.large", "MemoryInfo.SizeInMiB", "is missing: the type is left out"},
		{"x9.xlarge", "VCpuInfo.DefaultVCpus", "is missing: the type is left out"},
		{"x9.2xlarge", "ProcessorInfo.SupportedArchitectures", "is missing: the type is left out"},
		{"InstanceTypes[8]", "InstanceType", "is missing: the entry is left out"},
	}
	if diff := cmp.Diff(want, faults); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
	for _, text := range []string{"", "{}", "[1]", `{"InstanceTypes": "m5.large"}`} {
		if _, _, err := Answer([]byte(text)); err == nil {
			t.Errorf("%q was read as an answer", text)
		}
	}
}
