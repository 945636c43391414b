package builtin

import (
	"bufio"
	"embed"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/amazon-vpc-resource-controller-k8s/pkg/aws/vpc"
)

//go:embed families.txt
var files embed.FS

// bandwidth holds the bandwidths of types with a given number of vCPUs.
type bandwidth struct {
	network, peak float64
	ebs           int
}

// profiles holds the properties that several families share.
type profiles struct {
	peak  map[string]float64
	width map[string]map[string]bandwidth // width maps a profile's name, and a size's name or its number of vCPUs, to the bandwidths.
	disks map[string]map[int]Disks
}

// Types returns all instance types, sorted by name.
func Types() ([]Type, error) {
	text, err := files.ReadFile("families.txt")
	if err != nil {
		return nil, fmt.Errorf("built-in instance types: %w", err)
	}
	p := profiles{peak: map[string]float64{}, width: map[string]map[string]bandwidth{}, disks: map[string]map[int]Disks{}}
	var families [][]string
	var errs []error
	lines := bufio.NewScanner(strings.NewReader(string(text)))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		switch {
		case len(fields) == 0 || strings.HasPrefix(fields[0], "#"):
		case fields[0] == "bandwidth":
			errs = append(errs, p.readBandwidth(fields[1], fields[2:]))
		case fields[0] == "disks":
			errs = append(errs, p.readDisks(fields[1], fields[2], fields[3:]))
		case fields[0] == "family":
			families = append(families, fields[1:])
		default:
			errs = append(errs, fmt.Errorf("built-in instance types: no line begins with %q", fields[0]))
		}
	}
	var types []Type
	for _, fields := range families {
		of, err := p.readFamily(fields)
		if err != nil {
			errs = append(errs, fmt.Errorf("built-in instance types: family %s: %w", fields[0], err))
		}
		types = append(types, of...)
	}
	if err := errors.Join(append(errs, lines.Err())...); err != nil {
		return nil, err
	}
	slices.SortFunc(types, func(a, b Type) int { return strings.Compare(a.Name, b.Name) })
	return types, nil
}

func (p *profiles) readBandwidth(name string, fields []string) error {
	out := map[string]bandwidth{}
	for _, field := range fields {
		key, value, _ := strings.Cut(field, "=")
		if key == "peak" {
			gbps, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return fmt.Errorf("built-in instance types: bandwidth %s: %w", name, err)
			}
			p.peak[name] = gbps
			continue
		}
		var b bandwidth
		if n, err := fmt.Sscanf(value, "%g/%d/%g", &b.network, &b.ebs, &b.peak); n < 2 {
			return fmt.Errorf("built-in instance types: bandwidth %s: %s: %w", name, field, err)
		}
		out[key] = b
	}
	p.width[name] = out
	return nil
}

func (p *profiles) readDisks(name, kind string, fields []string) error {
	out := map[int]Disks{}
	for _, field := range fields {
		d, vcpus := Disks{Kind: kind}, 0
		if _, err := fmt.Sscanf(field, "%d=%dx%d", &vcpus, &d.Count, &d.GB); err != nil {
			return fmt.Errorf("built-in instance types: disks %s: %s: %w", name, field, err)
		}
		out[vcpus] = d
	}
	p.disks[name] = out
	return nil
}

// family is one line of the table: the properties of a type without its size, and rules for those that depend on the size.
type family struct {
	Type
	gibPerVCPU, usdPerVCPU float64
	width, disks           string
	core                   bool
	accelerators           map[int]int
	efaFrom                int
}

func (p *profiles) readFamily(fields []string) ([]Type, error) {
	parts := strings.Split(strings.Join(fields, " "), "|")
	if len(parts) != 3 {
		return nil, errors.New("a line has three parts with | between them")
	}
	f := family{accelerators: map[int]int{}}
	if _, err := fmt.Sscan(parts[0], &f.Family, &f.Arch, &f.Manufacturer, &f.GHz, &f.gibPerVCPU, &f.usdPerVCPU, &f.width); err != nil {
		return nil, err
	}
	for flag := range strings.FieldsSeq(parts[1]) {
		if err := f.readFlag(flag); err != nil {
			return nil, err
		}
	}
	var out []Type
	for size := range strings.FieldsSeq(parts[2]) {
		t, err := p.readSize(f, size)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

func (f *family) readFlag(flag string) (err error) {
	name, value, _ := strings.Cut(flag, "=")
	switch name {
	case "-":
	case "burstable":
		f.Burstable = true
	case "encrypted":
		f.Encrypted = true
	case "previous":
		f.Previous = true
	case "core":
		f.core = true
	case "disks":
		f.disks = value
	case "efa":
		_, err = fmt.Sscanf(value, "%d:%d", &f.efaFrom, &f.EFAs)
	case "gpu", "neuron":
		err = f.readAccelerators(name, strings.Split(value, ":"))
	default:
		err = fmt.Errorf("there is no flag %q", name)
	}
	return err
}

func (f *family) readAccelerators(kind string, parts []string) (err error) {
	if len(parts) != 4 {
		return fmt.Errorf("%s has four parts with : between them", kind)
	}
	a := &f.Accelerators
	a.Kind = kind
	if kind == GPU {
		a.Manufacturer, a.Name = parts[0], parts[1]
	} else {
		a.Manufacturer, a.Name = "AWS", parts[0]
		if a.Cores, err = strconv.Atoi(parts[1]); err != nil {
			return err
		}
	}
	if a.MemoryMiB, err = strconv.Atoi(parts[2]); err != nil {
		return err
	}
	for entry := range strings.SplitSeq(parts[3], ",") {
		var vcpus, count int
		if _, err := fmt.Sscanf(entry, "%d*%d", &vcpus, &count); err != nil {
			return fmt.Errorf("%s: %s: %w", kind, entry, err)
		}
		f.accelerators[vcpus] = count
	}
	return nil
}

// readSize returns the family's type of one size.
func (p *profiles) readSize(f family, text string) (Type, error) {
	t := f.Type
	gib, err := t.resize(text, f)
	if err != nil {
		return t, err
	}
	t.Name = f.Family + "." + t.Size
	t.MemoryMiB, t.Price = int64(math.Round(gib*1024)), round(t.Price, 6)
	t.Metal = strings.HasPrefix(t.Size, "metal")
	t.Cores = t.VCPUs
	if !f.core {
		t.Cores = max(1, t.VCPUs/2)
	}
	if t.VCPUs < f.efaFrom {
		t.EFAs = 0
	}
	t.Accelerators.Count = f.accelerators[t.VCPUs]
	t.Disks = p.disks[f.disks][t.VCPUs]
	b, ok := p.width[f.width][t.Size]
	if !ok {
		b = p.width[f.width][strconv.Itoa(t.VCPUs)]
	}
	if b.peak == 0 {
		b.peak = p.peak[f.width]
	}
	t.NetworkGbps, t.EBSMbps, t.PeakGbps = b.network, b.ebs, max(b.network, b.peak)
	t.Limits = vpc.Limits[t.Name]
	return t, t.check(f)
}

// resize sets size, vCPUs and price, and returns the memory in GiB.
func (t *Type) resize(text string, f family) (gib float64, err error) {
	size, given, irregular := strings.Cut(text, "=")
	t.Size = size
	if n, err := strconv.Atoi(size); err == nil {
		t.Size, t.VCPUs = size+"xlarge", 4*n
	}
	switch size {
	case "medium":
		t.VCPUs = 1
	case "large":
		t.VCPUs = 2
	case "xlarge":
		t.VCPUs = 4
	}
	surcharge := 1.0
	if irregular {
		vcpus, more, extra := strings.Cut(given, "*")
		if n, err := fmt.Sscanf(vcpus, "%d/%g/%g", &t.VCPUs, &gib, &t.Price); n == 0 {
			return 0, fmt.Errorf("size %s: %w", text, err)
		}
		if extra {
			if surcharge, err = strconv.ParseFloat(more, 64); err != nil {
				return 0, fmt.Errorf("size %s: %w", text, err)
			}
		}
	}
	if gib == 0 {
		gib, t.Price = float64(t.VCPUs)*f.gibPerVCPU, float64(t.VCPUs)*f.usdPerVCPU*surcharge
	}
	return gib, nil
}

// check returns an error if the table lacks a property of the type.
func (t Type) check(f family) error {
	switch {
	case t.VCPUs == 0 || t.MemoryMiB == 0 || t.Price <= 0:
		return fmt.Errorf("size %s: vCPUs, memory or price are missing", t.Size)
	case t.EBSMbps == 0:
		return fmt.Errorf("size %s: bandwidth %s has no entry for %d vCPUs", t.Size, f.width, t.VCPUs)
	case f.disks != "" && t.Disks.Count == 0:
		return fmt.Errorf("size %s: disks %s have no entry for %d vCPUs", t.Size, f.disks, t.VCPUs)
	case f.Accelerators.Kind != "" && t.Accelerators.Count == 0:
		return fmt.Errorf("size %s: no accelerators are given for %d vCPUs", t.Size, t.VCPUs)
	case t.Limits == nil:
		return fmt.Errorf("size %s: the VPC limits have no entry for %s", t.Size, t.Name)
	}
	return nil
}
