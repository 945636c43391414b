package catalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Charges are what a node of an instance type and class costs beside its instance.
type Charges struct {
	// Volumes and PublicIPv4 are USD per hour.
	Volumes, PublicIPv4 float64
	// License is what AWS adds to the instance's price for its operating system (LicenseUSD), in USD per hour. It is in the offerings' prices, and not in
	// Fixed: those that are paid for already have it paid. The planner's side is not sent it.
	License float64
	// BaselineCPU is the CPU, in thousandths, up to which a burstable instance costs nothing more; 0 for types without surplus charges.
	BaselineCPU int64
	// SurplusCPU is USD per hour and CPU beyond BaselineCPU.
	SurplusCPU float64
}

// Fixed returns the USD per hour that every node of the type costs beside its instance.
func (c Charges) Fixed() float64 { return c.Volumes + c.PublicIPv4 }

// Burst returns the USD per hour that so much used CPU, in thousandths, costs beyond the baseline.
func (c Charges) Burst(cpu int64) float64 {
	if c.BaselineCPU == 0 {
		return 0
	}
	return float64(max(cpu-c.BaselineCPU, 0)) / 1000 * c.SurplusCPU
}

// Assuming returns the charges by requested CPU if pods use all of it but an idle share, 0 to 1.
func (c Charges) Assuming(idle float64) Charges {
	switch used := 1 - idle; {
	case idle == 0 || c.BaselineCPU == 0:
	case used <= 0:
		c.BaselineCPU, c.SurplusCPU = 0, 0
	default:
		c.BaselineCPU, c.SurplusCPU = int64(float64(c.BaselineCPU)/used), c.SurplusCPU*used
	}
	return c
}

// AddTo adds to the prices of Linux of a type's offerings what nodes cost besides: License and Fixed. A capacity reservation is paid for already, with
// its license.
func (c Charges) AddTo(offerings []Offering) {
	for i := range offerings {
		offerings[i].Price += c.Fixed()
		if !CapacityTypeOf(offerings[i].CapacityType).Counted {
			offerings[i].Price += c.License
		}
	}
}

// charges returns what nodes of the type cost beside their instance.
func charges(f Facts, class NodeClass) Charges {
	rates := class.Rates
	if rates == nil {
		rates = BuiltinRates()
	}
	out := Charges{License: LicenseUSD(f, class.AMIFamily)}
	for _, d := range volumes(class) {
		out.Volumes += rates.Volumes[d.volumeType()].perHour(d)
	}
	out.Volumes = Micro(out.Volumes)
	if class.PublicIPv4 {
		out.PublicIPv4 = rates.PublicIPv4
	}
	family, size, _ := strings.Cut(f.Name, ".")
	if price := rates.SurplusCPU[family]; f.Burstable && price > 0 {
		if share, ok := baselines()[size]; ok {
			out.BaselineCPU, out.SurplusCPU = share*f.VCPUs, price
		}
	}
	return out
}

// baselines returns the thousandths of a vCPU that each vCPU of a T3, T3a or T4g instance earns credits for, by size (EC2 User Guide, "Key
// concepts for burstable performance instances", baseline utilization per vCPU).
func baselines() map[string]int64 {
	return map[string]int64{"nano": 50, "micro": 100, "small": 200, "medium": 200, "large": 300, "xlarge": 400, "2xlarge": 400}
}

// volumes returns the EBS volumes of the class's nodes: those of spec.blockDeviceMappings, or the defaults of its AMI family (DefaultVolumes).
// A custom AMI's own volumes are not known.
func volumes(class NodeClass) []BlockDevice {
	if len(class.BlockDevices) == 0 {
		return DefaultVolumes(class.AMIFamily)
	}
	return class.BlockDevices
}

// DefaultVolumes returns the volumes of nodes whose class has no spec.blockDeviceMappings, by AMI family: 20 GiB for the files of kubelet and
// containerd (50 GiB for Windows), and on Bottlerocket 4 GiB for the system. They are encrypted. A custom AMI keeps its own.
func DefaultVolumes(family string) []BlockDevice {
	root := RootDevice(family)
	switch {
	case root == "":
		return nil
	case family == FamilyBottlerocket:
		return []BlockDevice{
			{DeviceName: "/dev/xvda", SizeBytes: 4 << 30, Encrypted: true}, {DeviceName: root, SizeBytes: DefaultVolumeBytes, Encrypted: true},
		}
	}
	return []BlockDevice{{DeviceName: root, SizeBytes: defaultVolumeBytes(family), Encrypted: true}}
}

// Cost is what a node costs, in USD per hour and by part.
type Cost struct {
	// Instance is the price of the offering.
	Instance float64 `json:"instance"`
	// Volumes is the price of its EBS volumes.
	Volumes float64 `json:"volumes,omitempty"`
	// PublicIPv4 is the price of its public address.
	PublicIPv4 float64 `json:"publicIPv4,omitempty"`
	// Burst is the price of CPU beyond the baseline of a burstable instance.
	Burst float64 `json:"burst,omitempty"`
	// Declared is what the NodePool's annotation NodeCostAnnotation declares.
	Declared float64 `json:"declared,omitempty"`
	// Interruptions is what interruptions of its pods are expected to cost (Offering.LossPerPod). AWS does not charge it.
	Interruptions float64 `json:"interruptions,omitempty"`
}

// Total returns the sum.
func (c Cost) Total() float64 {
	return c.Instance + c.Volumes + c.PublicIPv4 + c.Burst + c.Declared + c.Interruptions
}

// Plus returns the sum by part.
func (c Cost) Plus(o Cost) Cost {
	return Cost{
		c.Instance + o.Instance, c.Volumes + o.Volumes, c.PublicIPv4 + o.PublicIPv4, c.Burst + o.Burst, c.Declared + o.Declared, c.Interruptions + o.Interruptions,
	}
}

// CostPart is one part of a Cost.
type CostPart struct {
	// Name is for people, Label for metrics.
	Name, Label string
	// USD per hour.
	USD float64
}

// Parts returns all parts in their order, the ones of zero too.
func (c Cost) Parts() []CostPart {
	return []CostPart{
		{"instance", "instance", c.Instance},
		{"volumes", "volumes", c.Volumes},
		{"public IPv4", "public_ipv4", c.PublicIPv4},
		{"burst", "burst", c.Burst},
		{"declared", "declared", c.Declared},
		{"expected interruptions", "interruptions", c.Interruptions},
	}
}

// String returns the parts that are not zero in four decimals, such as "instance 0.0336 + volumes 0.0022".
func (c Cost) String() string {
	var out []string
	for i, part := range c.Parts() {
		if i == 0 || Micro(part.USD) >= 0.00005 {
			out = append(out, part.Name+" "+USD(part.USD))
		}
	}
	return strings.Join(out, " + ")
}

// PriceText returns a node's price with its parts, such as "0.0358 USD/h: instance 0.0336 + volumes 0.0022"; without them if the instance is all of it,
// or if they are not known.
func PriceText(price float64, c Cost) string {
	out := USD(price) + " USD/h"
	if parts := c.String(); strings.Contains(parts, " + ") {
		out += ": " + parts
	}
	return out
}

// Micro rounds USD to millionths, as price lists have them.
func Micro(usd float64) float64 { return math.Round(usd*1e6) / 1e6 }

// USD writes a price in USD per hour for people. It is rounded to Micro first, as what is stored is: a price that was written and read again has the
// same digits.
func USD(perHour float64) string { return fmt.Sprintf("%.4f", Micro(perHour)) }

// Rounded returns the parts in millionths of USD.
func (c Cost) Rounded() Cost {
	return Cost{Micro(c.Instance), Micro(c.Volumes), Micro(c.PublicIPv4), Micro(c.Burst), Micro(c.Declared), Micro(c.Interruptions)}
}

// FormatCost returns the value of CostAnnotation.
func FormatCost(c Cost) string {
	text, err := json.Marshal(c.Rounded())
	if err != nil {
		return "" // A part that is no number: no cost is better than a wrong one.
	}
	return string(text)
}

// ParseCost parses the value of CostAnnotation; false if it has none that can be read.
func ParseCost(text string) (Cost, bool) {
	out := Cost{}
	err := json.Unmarshal([]byte(text), &out)
	return out, err == nil
}

// CostOf returns what a node costs, bought at the price of one of the type's offerings, while its pods request so much CPU, in thousandths. The
// NodePool declares the rest.
func (t *InstanceType) CostOf(price float64, d Declared, cpu int64) Cost {
	return Cost{
		Instance: price - t.Charges.Fixed(), Volumes: t.Charges.Volumes, PublicIPv4: t.Charges.PublicIPv4,
		Burst: t.Charges.Assuming(d.IdleCPU).Burst(cpu), Declared: d.NodeCost,
	}
}

// Declared is what a NodePool's annotations say about the cost of its nodes.
type Declared struct {
	// NodeCost is what each node costs beside what AWS charges, in USD per hour (NodeCostAnnotation).
	NodeCost float64
	// IdleCPU is the share of the requested CPU, 0 to 1, that pods on burstable instances are assumed not to use (BurstUseAnnotation).
	IdleCPU float64
}

// DeclaredCost returns what a NodePool's annotations say. An annotation that cannot be read counts as absent; the error says what was expected of
// each.
func DeclaredCost(annotations map[string]string) (Declared, error) {
	cost, costErr := NodeCost(annotations)
	if costErr != nil {
		costErr = fmt.Errorf("metadata.annotations[%s]: %w", NodeCostAnnotation, costErr)
	}
	idle, useErr := idleCPU(annotations)
	if useErr != nil {
		useErr = fmt.Errorf("metadata.annotations[%s]: %w", BurstUseAnnotation, useErr)
	}
	return Declared{NodeCost: cost, IdleCPU: idle}, errors.Join(costErr, useErr)
}

// idleCPU returns the share of the requested CPU that BurstUseAnnotation leaves; 0 without the annotation.
func idleCPU(annotations map[string]string) (float64, error) {
	text, ok := annotations[BurstUseAnnotation]
	if !ok {
		return 0, nil
	}
	share, ok := percentage(text)
	if !ok {
		return 0, fmt.Errorf("%q: a percentage from 0 to 100 is expected; it counts as 100", text)
	}
	return 1 - share, nil
}

// percentage reads "30" and "30%" as 0.3; false for what is no percentage from 0 to 100.
func percentage(text string) (share float64, ok bool) {
	percent, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(text), "%"), 64)
	if err != nil || math.IsNaN(percent) || percent < 0 || percent > 100 {
		return 0, false
	}
	return percent / 100, true
}

// NodeCost returns the USD per hour that a NodePool's annotation NodeCostAnnotation declares for each of its nodes; 0 without the annotation.
// The error says what was expected.
func NodeCost(annotations map[string]string) (float64, error) {
	text, ok := annotations[NodeCostAnnotation]
	if !ok {
		return 0, nil
	}
	usd, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || math.IsNaN(usd) || usd < 0 || usd > maxNodeCost {
		return 0, fmt.Errorf("%q: a number of USD per hour from 0 to %d is expected; it counts as 0", text, maxNodeCost)
	}
	return usd, nil
}

// maxNodeCost is more than any instance costs per hour: a larger value is a mistake of units.
const maxNodeCost = 10000
