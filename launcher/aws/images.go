package aws

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/fromec2"
)

// variant is the kind of hardware that an alias's AMI is built for, besides its architecture.
type variant int

const (
	variantAny variant = iota
	variantStandard
	variantNVIDIA
	variantNeuron
	variantWindows2019
	variantWindows2022
	variantWindows2025
)

// requirements returns the variant's requirements on an instance type's labels: the standard AMI is for types without accelerators, each
// other one for types with its accelerator.
func (v variant) requirements() []corev1.NodeSelectorRequirement {
	exists, absent := corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist
	switch v {
	case variantStandard:
		return []corev1.NodeSelectorRequirement{
			{Key: awsv1.LabelInstanceAcceleratorCount, Operator: absent}, {Key: awsv1.LabelInstanceGPUCount, Operator: absent},
		}
	case variantNVIDIA:
		return []corev1.NodeSelectorRequirement{{Key: awsv1.LabelInstanceGPUCount, Operator: exists}}
	case variantNeuron:
		return []corev1.NodeSelectorRequirement{{Key: awsv1.LabelInstanceAcceleratorCount, Operator: exists}}
	case variantWindows2019:
		return windowsRequirements(catalog.FamilyWindows2019)
	case variantWindows2022:
		return windowsRequirements(catalog.FamilyWindows2022)
	case variantWindows2025:
		return windowsRequirements(catalog.FamilyWindows2025)
	case variantAny:
	}
	return nil
}

// windowsRequirements returns the labels of nodes with an AMI of Windows, as Karpenter writes them into the class's status.
func windowsRequirements(family string) []corev1.NodeSelectorRequirement {
	build, _ := catalog.WindowsBuild(family)
	return []corev1.NodeSelectorRequirement{
		{Key: corev1.LabelOSStable, Operator: corev1.NodeSelectorOpIn, Values: []string{string(corev1.Windows)}},
		{Key: corev1.LabelWindowsBuild, Operator: corev1.NodeSelectorOpIn, Values: []string{build}},
	}
}

// windowsParameter is the parameter of the latest AMI of a year's Windows Server; there are no others (EKS user guide, "Retrieve recommended
// Microsoft Windows AMI IDs").
func windowsParameter(year, kubernetes string, v variant) []imageParameter {
	return []imageParameter{{
		fmt.Sprintf("/aws/service/ami-windows-latest/Windows_Server-%s-English-Core-EKS_Optimized-%s/image_id", year, kubernetes), []variant{v},
	}}
}

// imageParameter is an SSM public parameter that names an AMI.
type imageParameter struct {
	name     string
	variants []variant
}

// aliasParameters lists the SSM parameters of an alias (EKS user guide, "Retrieve recommended Amazon Linux AMI IDs" and "Retrieve
// recommended Bottlerocket AMI IDs"); nil for a family without aliases.
func aliasParameters(family, version, kubernetes string) []imageParameter {
	latest := version == awsv1.AliasVersionLatest
	switch family {
	case catalog.FamilyWindows2019:
		return windowsParameter("2019", kubernetes, variantWindows2019)
	case catalog.FamilyWindows2022:
		return windowsParameter("2022", kubernetes, variantWindows2022)
	case catalog.FamilyWindows2025:
		return windowsParameter("2025", kubernetes, variantWindows2025)
	case awsv1.AMIFamilyAL2023:
		path := func(arch, kind string) string {
			name := "recommended"
			if !latest {
				name = fmt.Sprintf("amazon-eks-node-al2023-%s-%s-%s-%s", arch, kind, kubernetes, version)
			}
			return fmt.Sprintf("/aws/service/eks/optimized-ami/%s/amazon-linux-2023/%s/%s/%s/image_id", kubernetes, arch, kind, name)
		}
		return []imageParameter{
			{path("x86_64", "standard"), []variant{variantStandard}},
			{path("arm64", "standard"), []variant{variantStandard}},
			{path("x86_64", "nvidia"), []variant{variantNVIDIA}},
			{path("arm64", "nvidia"), []variant{variantNVIDIA}},
			{path("x86_64", "neuron"), []variant{variantNeuron}},
		}
	case awsv1.AMIFamilyAL2:
		path := func(flavour, node string) string {
			name := "recommended"
			if !latest {
				name = fmt.Sprintf("amazon-eks-%s-%s-%s", node, kubernetes, version)
			}
			return fmt.Sprintf("/aws/service/eks/optimized-ami/%s/amazon-linux-2%s/%s/image_id", kubernetes, flavour, name)
		}
		return []imageParameter{
			{path("", "node"), []variant{variantStandard}},
			{path("-arm64", "arm64-node"), []variant{variantStandard}},
			{path("-gpu", "gpu-node"), []variant{variantNVIDIA, variantNeuron}},
		}
	case awsv1.AMIFamilyBottlerocket:
		path := func(flavour, arch string) string {
			return fmt.Sprintf("/aws/service/bottlerocket/aws-k8s-%s%s/%s/%s/image_id",
				kubernetes, flavour, arch, strings.TrimLeft(version, "v"))
		}
		return []imageParameter{
			{path("", "x86_64"), []variant{variantStandard, variantNeuron}},
			{path("", "arm64"), []variant{variantStandard}},
			{path("-nvidia", "x86_64"), []variant{variantNVIDIA}},
			{path("-nvidia", "arm64"), []variant{variantNVIDIA}},
		}
	}
	return nil
}

// selectImages returns the AMIs that the class's terms select, newest first. Of several AMIs for the same instance types it keeps only the
// newest that is not deprecated.
func (c *Cloud) selectImages(ctx context.Context, class *awsv1.EC2NodeClass) ([]awsv1.AMI, error) {
	version := ""
	if _, _, ok := fromec2.Alias(class); ok {
		cluster, err := c.describeCluster(ctx)
		if err != nil {
			return nil, err
		}
		version = cluster.version
	}
	key := cacheKey([]any{class.Spec.AMISelectorTerms, version})
	return c.images.get(ctx, key, func(ctx context.Context) ([]awsv1.AMI, error) {
		var found []image
		for i, term := range class.Spec.AMISelectorTerms {
			images, err := c.imagesOfTerm(ctx, class, term, version)
			if err != nil {
				return nil, fmt.Errorf("spec.amiSelectorTerms[%d]: %w", i, err)
			}
			found = append(found, images...)
		}
		return newest(found, time.Now()), nil
	})
}

// image is an AMI with the architecture and variant that it is built for.
type image struct {
	ec2types.Image
	variant variant
}

func (c *Cloud) imagesOfTerm(ctx context.Context, class *awsv1.EC2NodeClass, term awsv1.AMISelectorTerm, version string) ([]image, error) {
	in := &ec2.DescribeImagesInput{IncludeDeprecated: awssdk.Bool(true)}
	var variants map[string][]variant
	var err error
	switch {
	case term.Alias != "":
		family, release, _ := fromec2.Alias(class)
		variants, err = c.imageIDs(ctx, aliasParameters(family, release, version), release == awsv1.AliasVersionLatest)
	case term.SSMParameter != "":
		// The parameter may be given as an ARN; its value may change.
		variants, err = c.imageIDs(ctx, []imageParameter{{term.SSMParameter, []variant{variantAny}}}, true)
	case term.ID != "":
		variants = map[string][]variant{term.ID: {variantAny}}
	default:
		in.Filters = tagFilters(term.Tags)
		if term.Name != "" {
			in.Filters = append(in.Filters, filter("name", term.Name))
		}
		switch {
		case term.Owner != "":
			in.Owners = []string{term.Owner}
		case term.Name != "" || len(term.Tags) == 0:
			// Names are not unique across accounts: without an owner only the account's own AMIs and Amazon's are searched. Tags are the account's
			// own, on AMIs that are shared with it as well.
			in.Owners = []string{"self", "amazon"}
		}
	}
	if err != nil {
		return nil, err
	}
	if variants != nil {
		if len(variants) == 0 {
			return nil, nil
		}
		in.Filters = append(in.Filters, filter("image-id", sortedKeys(variants)...))
	}
	return c.describeImages(ctx, in, variants)
}

func (c *Cloud) describeImages(ctx context.Context, in *ec2.DescribeImagesInput, variants map[string][]variant) ([]image, error) {
	in.Filters = append(in.Filters, filter("state", string(ec2types.ImageStateAvailable)))
	var out []image
	pages := ec2.NewDescribeImagesPaginator(c.ec2, in)
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("describing images: %w", err)
		}
		for _, found := range page.Images {
			of := variants[awssdk.ToString(found.ImageId)]
			if variants == nil {
				of = []variant{variantAny}
			}
			for _, v := range of {
				out = append(out, image{found, v})
			}
		}
	}
	return out, nil
}

// imageIDs reads the AMI IDs from those parameters that exist and that the launcher may read. It returns an error if it may not read one and has read no
// other.
func (c *Cloud) imageIDs(ctx context.Context, parameters []imageParameter, mutable bool) (map[string][]variant, error) {
	out := map[string][]variant{}
	var denied []error
	for _, p := range parameters {
		id, err := c.parameter(ctx, p.name, mutable)
		switch {
		case code(err).IsDenied():
			denied = append(denied, err)
		case err != nil:
			return nil, err
		case id != "":
			out[id] = append(out[id], p.variants...)
		}
	}
	if len(out) == 0 && len(denied) > 0 {
		return nil, denied[0]
	}
	for _, err := range denied {
		klog.FromContext(ctx).Info("An AMI is left out: the launcher may not read its SSM parameter", "why", err.Error())
	}
	return out, nil
}

// mutableParameters bounds how long the value of a parameter that may change is cached.
const mutableParameters = 5 * time.Minute

// parameter returns the value of an SSM parameter, or "" if it does not exist.
func (c *Cloud) parameter(ctx context.Context, name string, mutable bool) (string, error) {
	if v, ok := c.parameters.peek(name); ok {
		return v, nil
	}
	period := c.cfg.Periods.Parameters
	if mutable {
		period = min(period, mutableParameters)
	}
	out, err := c.ssm.GetParameter(ctx, &ssm.GetParameterInput{Name: &name})
	switch {
	case isAbsent(err):
		c.parameters.put(name, "", min(period, mutableParameters))
		return "", nil
	case err != nil:
		return "", fmt.Errorf("reading SSM parameter %s: %w", name, err)
	}
	c.parameters.put(name, awssdk.ToString(out.Parameter.Value), period)
	return awssdk.ToString(out.Parameter.Value), nil
}

// newest converts images to the entries of a class's status, newest first: for each set of requirements the newest image that is not deprecated, or
// else the newest one. Of equally old ones it takes the lowest ID.
func newest(images []image, now time.Time) []awsv1.AMI {
	type purpose struct {
		arch    string
		variant variant
	}
	best := map[purpose]image{}
	for _, i := range images {
		arch, ok := awsv1.AWSToKubeArchitectures[string(i.Architecture)]
		if !ok {
			continue
		}
		p := purpose{arch, i.variant}
		if have, there := best[p]; !there || i.precedes(have, now) {
			best[p] = i
		}
	}
	var out []awsv1.AMI
	for _, i := range slices.SortedFunc(maps.Values(best), byAge) {
		requirements := append([]corev1.NodeSelectorRequirement{{
			Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{awsv1.AWSToKubeArchitectures[string(i.Architecture)]},
		}}, i.variant.requirements()...)
		out = append(out, awsv1.AMI{
			ID: awssdk.ToString(i.ImageId), Name: awssdk.ToString(i.Name), Requirements: requirements, Deprecated: i.deprecated(now),
		})
	}
	return out
}

// byAge orders images from the newest to the oldest.
func byAge(a, b image) int {
	return cmp.Or(
		cmp.Compare(awssdk.ToString(b.CreationDate), awssdk.ToString(a.CreationDate)),
		cmp.Compare(awssdk.ToString(a.ImageId), awssdk.ToString(b.ImageId)),
		cmp.Compare(a.variant, b.variant),
	)
}

// precedes reports whether nodes of one purpose get the image rather than the other one.
func (i image) precedes(other image, now time.Time) bool {
	if old := i.deprecated(now); old != other.deprecated(now) {
		return !old
	}
	return byAge(i, other) < 0
}

// deprecated reports whether the image's deprecation time has passed.
func (i image) deprecated(now time.Time) bool { return passed(awssdk.ToString(i.DeprecationTime), now) }

// passed reports whether a time in EC2's format lies in the past; false for a text that is not a time.
func passed(text string, now time.Time) bool {
	t, err := time.Parse(time.RFC3339, text)
	return err == nil && t.Before(now)
}
