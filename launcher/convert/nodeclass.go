package convert

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// nodeTemplate converts v1alpha1's AWSNodeTemplate.
func (c *conversion) nodeTemplate(f *fields) []map[string]any {
	metadata := f.metadata()
	return []map[string]any{c.oldClass(f, f.within("spec"), metadata)}
}

// inlineClass returns the EC2NodeClass of a Provisioner with an inline provider. It has the Provisioner's name.
func (c *conversion) inlineClass(f, provider *fields) map[string]any {
	provider.drop("apiVersion", "kind")
	return c.oldClass(f, provider, map[string]any{"name": f.name})
}

// oldClass converts what AWSNodeTemplate and inline provider have in common.
func (c *conversion) oldClass(f, spec *fields, metadata map[string]any) map[string]any {
	out := map[string]any{}
	if spec.has("launchTemplate") {
		spec.lost("launchTemplate", "v1 has no launch templates of one's own: set userData, blockDeviceMappings and the like, and amiFamily Custom if need be")
		spec.drop("launchTemplate")
	}
	set(out, "subnetSelectorTerms", spec.selector("subnetSelector"))
	set(out, "securityGroupSelectorTerms", spec.selector("securityGroupSelector"))
	c.images(f, spec, out, spec.imageSelector("amiSelector"))
	c.identity(f, spec, out)
	c.sameInBoth(spec, out)
	c.requireSelectors(f, out)
	return map[string]any{"apiVersion": nodeClassVersion, "kind": nodeClassKind, "metadata": metadata, "spec": out}
}

// nodeClass converts v1beta1's EC2NodeClass.
func (c *conversion) nodeClass(f *fields) []map[string]any {
	metadata := f.metadata()
	spec := f.within("spec")
	out := map[string]any{}
	set(out, "subnetSelectorTerms", spec.terms("subnetSelectorTerms"))
	set(out, "securityGroupSelectorTerms", spec.terms("securityGroupSelectorTerms"))
	terms, _ := spec.take("amiSelectorTerms").([]any)
	c.images(f, spec, out, terms)
	c.identity(f, spec, out)
	c.sameInBoth(spec, out)
	set(out, "associatePublicIPAddress", spec.take("associatePublicIPAddress"))
	set(out, "instanceStorePolicy", spec.take("instanceStorePolicy"))
	c.requireSelectors(f, out)
	return []map[string]any{{"apiVersion": nodeClassVersion, "kind": nodeClassKind, "metadata": metadata, "spec": out}}
}

// sameInBoth takes the fields that are the same in all versions.
func (c *conversion) sameInBoth(spec *fields, out map[string]any) {
	for _, key := range []string{"userData", "context", "detailedMonitoring"} {
		set(out, key, spec.take(key))
	}
	if _, set := out["blockDeviceMappings"]; !set || spec.has("blockDeviceMappings") {
		if value := spec.take("blockDeviceMappings"); value != nil {
			out["blockDeviceMappings"] = value
		}
	}
	set(out, "tags", spec.tags())
	options := spec.within("metadataOptions")
	values := maps.Clone(options.values)
	options.values = nil
	if values["httpPutResponseHopLimit"] == nil {
		values["httpPutResponseHopLimit"] = json.Number("2")
		spec.assumed("spec.metadataOptions.httpPutResponseHopLimit",
			"2 was the default and 1 is v1's: written out, since pods that ask for the node's role need it; 1 is safer")
	}
	out["metadataOptions"] = values
}

// tags takes the tags of instances, without slipway's and Karpenter's own.
func (f *fields) tags() map[string]any {
	tags := f.within("tags")
	out := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(tags.values)) {
		value := tags.take(key)
		if strings.HasPrefix(key, "kubernetes.io/cluster") || slices.Contains([]string{
			"eks:eks-cluster-name", "karpenter.sh/nodepool", "karpenter.sh/nodeclaim", "karpenter.k8s.aws/ec2nodeclass",
		}, key) {
			tags.lost(key, "instances get this tag anyway, and v1 refuses it here")
			continue
		}
		out[key] = value
	}
	return out
}

// identity converts the nodes' IAM identity: v1 requires a role or an instance profile.
func (c *conversion) identity(f, spec *fields, out map[string]any) {
	set(out, "role", spec.take("role"))
	set(out, "instanceProfile", spec.take("instanceProfile"))
	if out["role"] != nil || out["instanceProfile"] != nil {
		return
	}
	switch {
	case c.options.Role != "":
		out["role"] = c.options.Role
		f.assumed("spec.role", c.options.Role+", from --role")
	case c.options.InstanceProfile != "":
		out["instanceProfile"] = c.options.InstanceProfile
		f.assumed("spec.instanceProfile", c.options.InstanceProfile+", from --instance-profile")
	default:
		c.report(Missing, f.object, "spec.role", "v1 requires the nodes' role or an instance profile: give --role or --instance-profile")
	}
}

func (c *conversion) requireSelectors(f *fields, out map[string]any) {
	for _, key := range []string{"subnetSelectorTerms", "securityGroupSelectorTerms"} {
		if out[key] == nil {
			c.report(Missing, f.object, "spec."+key, "v1 requires at least one term")
		}
	}
}

// images converts amiFamily and amiSelectorTerms; v1 requires the latter.
func (c *conversion) images(f, spec *fields, out map[string]any, terms []any) {
	family := text(spec.take("amiFamily"))
	if family == "Ubuntu" {
		c.ubuntu(f, out, len(terms) > 0)
		family = "AL2"
	}
	if len(terms) > 0 {
		if family == "" {
			family = "AL2"
			f.assumed("spec.amiFamily", "AL2 was the default, v1 has none: user data is written as AL2's images read it")
		}
		out["amiFamily"], out["amiSelectorTerms"] = family, terms
		return
	}
	wanted := c.options.AMIAlias
	switch family {
	case "Custom":
		out["amiFamily"] = family
		c.report(Missing, f.object, "spec.amiSelectorTerms", "amiFamily Custom needs terms that find its images")
		return
	case "AL2023", "Bottlerocket", "Windows2019", "Windows2022":
		alias := strings.ToLower(family) + "@latest"
		if given, _, _ := strings.Cut(wanted, "@"); strings.EqualFold(given, family) {
			alias = wanted
		}
		f.assumed("spec.amiSelectorTerms", alias+" is what "+family+" meant; pin a version to decide yourself when nodes are replaced")
		out["amiSelectorTerms"] = alias1(alias)
		return
	}
	if wanted == "" {
		wanted = DefaultAMIAlias
	}
	f.assumed("spec.amiSelectorTerms", wanted+": "+orAL2(family)+" has no images for Kubernetes 1.33 and later; --ami-alias chooses others")
	if spec.has("userData") && !strings.HasPrefix(wanted, "al2@") {
		f.assumed("spec.userData", "it was written for AL2: shell scripts run on AL2023 too, but /etc/eks/bootstrap.sh is not there")
	}
	out["amiSelectorTerms"] = alias1(wanted)
}

func orAL2(family string) string {
	if family == "" {
		return "AL2, the default then,"
	}
	return family
}

func alias1(alias string) []any { return []any{map[string]any{"alias": alias}} }

// ubuntu converts the family Ubuntu, which v1 does not have: its images read AL2's user data and have another root device.
func (c *conversion) ubuntu(f *fields, out map[string]any, selected bool) {
	if !selected {
		c.report(Lost, f.object, "spec.amiFamily", "v1 does not find Ubuntu's images: name them in amiSelectorTerms, with amiFamily AL2")
		return
	}
	f.assumed("spec.amiFamily", "Ubuntu is AL2 in v1, whose user data its images read, with the root device /dev/sda1")
	out["blockDeviceMappings"] = []any{map[string]any{
		"deviceName": "/dev/sda1",
		"ebs":        map[string]any{"encrypted": true, "volumeSize": "20Gi", "volumeType": "gp3"},
	}}
}
