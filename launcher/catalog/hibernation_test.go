package catalog

import (
	"strings"
	"testing"
)

// Each of EC2's prerequisites is named where it is not met, and nothing is where all are.
func TestNoHibernation(t *testing.T) {
	encrypted := func(gib int64, d BlockDevice) []BlockDevice {
		d.SizeBytes, d.Encrypted = gib<<30, true
		return []BlockDevice{d}
	}
	for name, tc := range map[string]struct {
		class  func(*NodeClass)
		facts  func(*Facts)
		reason string
	}{
		"the defaults": {},
		"its own AMI": {class: func(c *NodeClass) {
			c.AMIFamily, c.BlockDevices = FamilyCustom, encrypted(18, BlockDevice{DeviceName: "/dev/sda1"})
		}},
		"Bottlerocket":      {class: func(c *NodeClass) { c.AMIFamily = FamilyBottlerocket }, reason: "Bottlerocket"},
		"Windows":           {class: func(c *NodeClass) { c.AMIFamily = FamilyWindows2022 }, reason: "Windows2022"},
		"bare metal":        {facts: func(f *Facts) { f.BareMetal = true }, reason: "bare metal"},
		"not in EC2's list": {facts: func(f *Facts) { f.Hibernation = false }, reason: "EC2 does not hibernate instances of the type m6i.large"},
		"150 GiB of memory": {facts: func(f *Facts) { f.MemoryMiB = 150 << 10 }, reason: "150 GiB of memory"},
		"not encrypted":     {class: func(c *NodeClass) { c.BlockDevices = []BlockDevice{{DeviceName: "/dev/xvda", SizeBytes: 50 << 30}} }, reason: "not encrypted"},
		"too small":         {class: func(c *NodeClass) { c.BlockDevices = encrypted(17, BlockDevice{DeviceName: "/dev/xvda"}) }, reason: "has 17 GiB, and the memory of m6i.large needs 18 GiB"},
		"more memory":       {facts: func(f *Facts) { f.MemoryMiB = 16 << 10 }, reason: "has 20 GiB, and the memory of m6i.large needs 26 GiB"},
		"a marked root": {class: func(c *NodeClass) {
			c.BlockDevices = append(encrypted(18, BlockDevice{DeviceName: "/dev/sdb", Root: true}), BlockDevice{DeviceName: "/dev/xvda"})
		}},
		"two, none the root": {class: func(c *NodeClass) { c.BlockDevices = []BlockDevice{{DeviceName: "/dev/sdb"}, {DeviceName: "/dev/sdc"}} }, reason: "no root volume"},
	} {
		class, facts := NodeClass{AMIFamily: FamilyAL2023}, Facts{Name: "m6i.large", MemoryMiB: 8 << 10, Hibernation: true}
		if tc.class != nil {
			tc.class(&class)
		}
		if tc.facts != nil {
			tc.facts(&facts)
		}
		if got := NoHibernation(class, facts); (got == "") != (tc.reason == "") || !strings.Contains(got, tc.reason) {
			t.Errorf("%s: %q, want %q", name, got, tc.reason)
		}
	}
}
