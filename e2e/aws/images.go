package aws

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// image is an AMI.
type image struct {
	ID, Name, Description string
	Arch, Owner, Alias    string
	RootDevice            string
	RootGiB               int64
	// Windows says that the AMI runs Windows.
	Windows bool
	Created time.Time
	// Deprecated is when it was or will be deprecated; zero means two years after its creation.
	Deprecated time.Time
	Tags       map[string]string
}

// images holds the AMIs, and the SSM parameters that name them.
type images struct {
	mu         sync.RWMutex
	all        []image
	byID       map[string]image
	parameters map[string]parameter
	kubernetes string
	// releases is the number of releases, which is the version of the recommended parameters.
	releases int
}

// parameter is a public parameter of SSM.
type parameter struct {
	name, value string
	version     int
	modified    time.Time
}

// release is one release of AMIs. The last is the recommended one.
type release struct {
	al2023, bottlerocket string
	at                   time.Time
}

func releases() []release {
	return []release{
		{"v20260605", "1.44.0", time.Date(2026, 6, 5, 9, 30, 0, 0, time.UTC)},
		{"v20260709", "1.45.0", time.Date(2026, 7, 9, 9, 30, 0, 0, time.UTC)},
	}
}

// The accounts that own the AMIs of EKS, Bottlerocket and Windows.
const (
	amazonOwner       = "602401143452"
	bottlerocketOwner = "092701018921"
	windowsOwner      = "801119661308"
)

// lastAL2 is the last minor version of Kubernetes 1 for which EKS published AMIs of Amazon Linux 2.
const lastAL2 = 32

// newImages makes the AMIs of the cluster's version of Kubernetes and of all earlier ones down to the last with AL2.
func newImages(kubernetes string) (*images, error) {
	_, text, _ := strings.Cut(kubernetes, ".")
	minor, err := strconv.Atoi(text)
	if err != nil {
		return nil, fmt.Errorf("parsing aws.Config.KubernetesVersion %q: %w", kubernetes, err)
	}
	out := &images{byID: map[string]image{}, parameters: map[string]parameter{}, kubernetes: kubernetes}
	for m := min(minor, lastAL2); m <= minor; m++ {
		version := "1." + strconv.Itoa(m)
		for i, r := range releases() {
			out.releases = i + 1
			out.addRelease(version, r)
		}
	}
	slices.SortFunc(out.all, func(a, b image) int { return cmp.Compare(a.ID, b.ID) })
	return out, nil
}

// addRelease adds the AMIs of a release for a version of Kubernetes.
func (s *images) addRelease(version string, r release) {
	s.addAL2023(version, r, s.releases)
	s.addBottlerocket(version, r, s.releases)
	s.addWindows(version, r, s.releases)
	_, text, _ := strings.Cut(version, ".")
	if minor, err := strconv.Atoi(text); err == nil && minor <= lastAL2 {
		s.addAL2(version, r, s.releases)
	}
}

func (s *images) add(i image, names ...parameter) {
	i.ID = fixedID("ami", i.Name)
	s.all = append(s.all, i)
	s.byID[i.ID] = i
	for _, p := range names {
		if p.value == "" {
			p.value = i.ID
		}
		p.modified = i.Created
		s.parameters[p.name] = p
	}
}

// addEKS adds an AMI of EKS with its parameters below two paths: the release's and the recommended one.
func (s *images) addEKS(path, fixed string, i image, version int, details map[string]string) {
	var names []parameter
	for _, at := range []string{path + "/" + fixed, path + "/recommended"} {
		details["image_id"] = fixedID("ami", i.Name)
		document, err := json.Marshal(details)
		if err != nil {
			continue // A map of strings always marshals.
		}
		names = append(names, parameter{name: at, value: string(document), version: version})
		for key, value := range details {
			names = append(names, parameter{name: at + "/" + key, value: value, version: version})
		}
	}
	s.add(i, names...)
}

func (s *images) addAL2023(version string, r release, number int) {
	for _, kind := range []struct{ arch, variant string }{
		{"x86_64", "standard"}, {"arm64", "standard"}, {"x86_64", "nvidia"}, {"arm64", "nvidia"}, {"x86_64", "neuron"},
	} {
		name := fmt.Sprintf("amazon-eks-node-al2023-%s-%s-%s-%s", kind.arch, kind.variant, version, r.al2023)
		path := fmt.Sprintf("/aws/service/eks/optimized-ami/%s/amazon-linux-2023/%s/%s", version, kind.arch, kind.variant)
		s.addEKS(path, name, image{
			Name: name, Arch: kind.arch, Owner: amazonOwner, Alias: "amazon", RootDevice: "/dev/xvda", RootGiB: 20, Created: r.at,
			Description: fmt.Sprintf("EKS-optimized Kubernetes node based on Amazon Linux 2023, (k8s: %s, containerd: 2.1.*)", version),
		}, number, map[string]string{
			"image_name": name, "release_version": version + ".0-" + strings.TrimPrefix(r.al2023, "v"), "os_name": "Amazon Linux 2023",
		})
	}
}

func (s *images) addAL2(version string, r release, number int) {
	for _, kind := range []struct{ path, node, arch string }{
		{"", "node", "x86_64"}, {"-arm64", "arm64-node", "arm64"}, {"-gpu", "gpu-node", "x86_64"},
	} {
		name := fmt.Sprintf("amazon-eks-%s-%s-%s", kind.node, version, r.al2023)
		path := fmt.Sprintf("/aws/service/eks/optimized-ami/%s/amazon-linux-2%s", version, kind.path)
		s.addEKS(path, name, image{
			Name: name, Arch: kind.arch, Owner: amazonOwner, Alias: "amazon", RootDevice: "/dev/xvda", RootGiB: 20, Created: r.at,
			Description: fmt.Sprintf("EKS Kubernetes Worker AMI with AmazonLinux2 image, (k8s: %s)", version),
		}, number, map[string]string{"image_name": name, "release_version": version + ".0-" + strings.TrimPrefix(r.al2023, "v")})
	}
}

func (s *images) addBottlerocket(version string, r release, number int) {
	for _, flavour := range []string{"", "-nvidia"} {
		for _, arch := range []string{"x86_64", "arm64"} {
			short := arch
			if arch == "arm64" {
				short = "aarch64"
			}
			name := fmt.Sprintf("bottlerocket-aws-k8s-%s%s-%s-v%s-%s", version, flavour, short, r.bottlerocket, fixedID("x", r.bottlerocket)[3:11])
			var names []parameter
			for _, at := range []string{r.bottlerocket, "latest"} {
				path := fmt.Sprintf("/aws/service/bottlerocket/aws-k8s-%s%s/%s/%s", version, flavour, arch, at)
				names = append(names, parameter{name: path + "/image_id", version: number},
					parameter{name: path + "/image_version", value: r.bottlerocket, version: number})
			}
			s.add(image{
				Name: name, Arch: arch, Owner: bottlerocketOwner, Alias: "amazon", RootDevice: "/dev/xvda", RootGiB: 2, Created: r.at,
				Description: "Bottlerocket OS " + r.bottlerocket,
			}, names...)
		}
	}
}

// firstWindows2025 is the first minor version of Kubernetes 1 with AMIs of Windows Server 2025.
const firstWindows2025 = 35

// addWindows adds the AMIs of Windows Server. Parameters name the latest only.
func (s *images) addWindows(version string, r release, number int) {
	_, text, _ := strings.Cut(version, ".")
	minor, err := strconv.Atoi(text)
	for _, year := range []string{"2019", "2022", "2025"} {
		if year == "2025" && (err != nil || minor < firstWindows2025) {
			continue
		}
		name := fmt.Sprintf("Windows_Server-%s-English-Core-EKS_Optimized-%s", year, version)
		s.add(image{
			Name: name + "-" + r.at.Format("2006.01.02"), Arch: "x86_64", Owner: windowsOwner, Alias: "amazon", RootDevice: "/dev/sda1", RootGiB: 50,
			Created: r.at, Windows: true, Description: "Microsoft Windows Server " + year + " Core EKS Optimized",
		}, parameter{name: "/aws/service/ami-windows-latest/" + name + "/image_id", version: number})
	}
}

// forgetParameters removes the AMIs' names from SSM.
func (s *images) forgetParameters() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parameters = map[string]parameter{}
}

// get returns an AMI.
func (s *images) get(id string) (image, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	found, ok := s.byID[id]
	return found, ok
}

// list returns all AMIs.
func (s *images) list() []image {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Clone(s.all)
}

// parameter returns a parameter of SSM.
func (s *images) parameter(name string) (parameter, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	p, ok := s.parameters[name]
	return p, ok
}

// below lists the parameters whose names begin with the prefix.
func (s *images) below(prefix string) []parameter {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []parameter
	for name, p := range s.parameters {
		if strings.HasPrefix(name, prefix) {
			out = append(out, p)
		}
	}
	return out
}

// release adds the AMIs of a release and makes it the recommended one.
func (s *images) release(r release) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releases++
	s.addRelease(s.kubernetes, r)
	slices.SortFunc(s.all, func(a, b image) int { return cmp.Compare(a.ID, b.ID) })
}

// change changes an AMI and reports whether it exists.
func (s *images) change(id string, change func(*image)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.all, func(i image) bool { return i.ID == id })
	if i < 0 {
		return false
	}
	change(&s.all[i])
	s.byID[id] = s.all[i]
	return true
}

// ReleaseImages publishes new AMIs of EKS for the cluster's version of Kubernetes, as Amazon does every few weeks. al2023
// names those of AL2023 and AL2 (v20260801), bottlerocket those of Bottlerocket (1.46.0). The recommended and latest
// parameters of SSM name them from now on.
func (s *Server) ReleaseImages(al2023, bottlerocket string) {
	s.images.release(release{al2023, bottlerocket, time.Now()})
}

// DeprecateImage deprecates an AMI. DescribeImages lists it only on request from now on.
func (s *Server) DeprecateImage(id string) error {
	if !s.images.change(id, func(i *image) { i.Deprecated = time.Now() }) {
		return fmt.Errorf("deprecating image %s: it does not exist", id)
	}
	return nil
}

// recommended returns the AMI for managed node groups of the cluster.
func (s *images) recommended(arch string) (image, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	p := s.parameters[fmt.Sprintf("/aws/service/eks/optimized-ami/%s/amazon-linux-2023/%s/standard/recommended/image_id", s.kubernetes, arch)]
	found, ok := s.byID[p.value]
	return found, ok
}
