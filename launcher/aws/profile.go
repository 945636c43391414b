package aws

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/cloud"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// profileName returns the name of the instance profile that a class owns. Another role gives another profile, so that nodes with the old
// role keep theirs. IAM allows 128 characters, EKS 100 for a cluster name.
func (c *Cloud) profileName(class *awsv1.EC2NodeClass) string {
	sum := sha256.Sum256([]byte(c.cfg.AWS.Region + "/" + string(class.UID) + "/" + class.Name + "/" + class.Spec.Role))
	return c.cfg.ClusterName + "_" + hex.EncodeToString(sum[:10])
}

// profilesPath returns the IAM path of all the cluster's instance profiles; profilePath returns that of the profiles of one class.
func (c *Cloud) profilesPath() string {
	return fmt.Sprintf("/slipway/%s/%s/", c.cfg.AWS.Region, c.cfg.ClusterName)
}

func (c *Cloud) profilePath(class *awsv1.EC2NodeClass) string {
	return c.profilesPath() + class.Name + "/"
}

// ensureProfile returns the instance profile of the class. If the class names one, it returns that one. Otherwise it returns the profile that the class
// owns, after completing it.
func (c *Cloud) ensureProfile(ctx context.Context, class *awsv1.EC2NodeClass) (string, error) {
	if own := awssdk.ToString(class.Spec.InstanceProfile); own != "" {
		return own, checkProfile(ctx, c, own)
	}
	name := c.profileName(class)
	c.profileUse.add(name)
	return c.profiles.get(ctx, name, func(ctx context.Context) (string, error) {
		return name, c.completeProfile(ctx, class, name)
	})
}

const (
	// checkWithin is how long IAM is asked for a profile that a class names: the answer can be done without.
	checkWithin = 10 * time.Second
	// uncheckedFor is how long such a profile is used before IAM is asked again, if it gave no answer.
	uncheckedFor = time.Minute
)

// checkProfile returns an error if IAM does not have a profile that a class names. One that IAM does not let the launcher look up, or gives no answer about,
// may be there. In an isolated VPC it asks IAM, which has no VPC endpoint in most regions, for nothing.
func checkProfile(ctx context.Context, c *Cloud, name string) error {
	key := "given/" + name
	if _, checked := c.profiles.peek(key); checked || c.cfg.IsolatedVPC {
		return nil
	}
	soon, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	_, err := c.iam.GetInstanceProfile(soon, &iam.GetInstanceProfileInput{InstanceProfileName: &name})
	switch {
	case isAbsent(err):
		return fmt.Errorf("spec.instanceProfile: IAM has no instance profile %s: %w", name, err)
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil || code(err).IsDenied():
		c.profiles.put(key, name, c.profiles.period)
	default:
		c.cfg.Logger.Info("IAM does not say whether it has the instance profile of an EC2NodeClass: it is used", "instanceProfile", name, "why", err.Error())
		c.profiles.put(key, name, uncheckedFor)
	}
	return nil
}

// roleName returns the name of the class's role. spec.role may have the role's IAM path in front of the name, as in Karpenter; IAM's calls take the
// name alone and reject a "/" (IAM API reference, AddRoleToInstanceProfile).
func roleName(class *awsv1.EC2NodeClass) string {
	return class.Spec.Role[strings.LastIndex(class.Spec.Role, "/")+1:]
}

// completeProfile creates the owned profile if it is missing and gives it the class's role as its only role.
func (c *Cloud) completeProfile(ctx context.Context, class *awsv1.EC2NodeClass, name string) error {
	role := roleName(class)
	var roles []iamtypes.Role
	got, err := c.iam.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: &name})
	switch {
	case isAbsent(err):
		if err := c.createProfile(ctx, class, name); err != nil {
			return err
		}
	case err != nil:
		return fmt.Errorf("reading instance profile %s: %w", name, err)
	default:
		roles = got.InstanceProfile.Roles
	}
	for _, r := range roles {
		if awssdk.ToString(r.RoleName) == role {
			return nil
		}
		if err := c.removeRole(ctx, name, awssdk.ToString(r.RoleName)); err != nil {
			return err
		}
	}
	_, err = c.iam.AddRoleToInstanceProfile(ctx, &iam.AddRoleToInstanceProfileInput{InstanceProfileName: &name, RoleName: &role})
	switch {
	case isRoleDenied(err):
		return fmt.Errorf("spec.role: role %s does not exist, or the launcher's policy does not allow iam:PassRole of it: %w", class.Spec.Role, err)
	case isAbsent(err):
		return fmt.Errorf("spec.role: IAM has no role %s: %w", class.Spec.Role, err)
	case err != nil:
		return fmt.Errorf("spec.role: adding role %s to instance profile %s: %w", class.Spec.Role, name, err)
	}
	return nil
}

func (c *Cloud) createProfile(ctx context.Context, class *awsv1.EC2NodeClass, name string) error {
	var tags []iamtypes.Tag
	all := class.InstanceProfileTags(c.cfg.ClusterName, c.cfg.AWS.Region)
	for _, key := range sortedKeys(all) {
		tags = append(tags, iamtypes.Tag{Key: awssdk.String(key), Value: awssdk.String(all[key])})
	}
	_, err := c.iam.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{
		InstanceProfileName: &name, Path: awssdk.String(c.profilePath(class)), Tags: tags,
	})
	if err != nil && !isThere(err) {
		return fmt.Errorf("creating instance profile %s: %w", name, err)
	}
	return nil
}

func (c *Cloud) removeRole(ctx context.Context, profile, role string) error {
	_, err := c.iam.RemoveRoleFromInstanceProfile(ctx, &iam.RemoveRoleFromInstanceProfileInput{
		InstanceProfileName: &profile, RoleName: &role,
	})
	if err != nil && !isAbsent(err) {
		return fmt.Errorf("removing role %s from instance profile %s: %w", role, profile, err)
	}
	return nil
}

// sweepProfiles deletes this cluster's instance profiles that no class and no instance uses any more, such as the profile of a class's
// earlier role. In an isolated VPC they stay.
func (c *Cloud) sweepProfiles(ctx context.Context) error {
	if c.cfg.IsolatedVPC {
		return nil
	}
	since := time.Now().Add(-c.cfg.Periods.Profiles)
	pages := iam.NewListInstanceProfilesPaginator(c.iam, &iam.ListInstanceProfilesInput{PathPrefix: awssdk.String(c.profilesPath())})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return fmt.Errorf("listing instance profiles: %w", err)
		}
		for _, p := range page.InstanceProfiles {
			if !c.profileUse.idle(awssdk.ToString(p.InstanceProfileName), since) {
				continue
			}
			using, err := c.describeInstances(ctx, []ec2types.Filter{filter("iam-instance-profile.arn", awssdk.ToString(p.Arn))})
			if err != nil {
				return err
			}
			if slices.ContainsFunc(using, func(i cloud.Instance) bool { return i.State != cloud.StateTerminated }) {
				continue
			}
			if err := c.deleteProfile(ctx, p); err != nil {
				return err
			}
			c.cfg.Logger.Info("Deleted an instance profile that no EC2NodeClass has", "instanceProfile", awssdk.ToString(p.InstanceProfileName))
		}
	}
	return nil
}

// deleteProfiles deletes the instance profiles that the class owns, including those of its earlier roles. In an isolated VPC a class without a role
// is taken to own none.
func (c *Cloud) deleteProfiles(ctx context.Context, class *awsv1.EC2NodeClass) error {
	if c.cfg.IsolatedVPC && class.Spec.Role == "" {
		return nil
	}
	pages := iam.NewListInstanceProfilesPaginator(c.iam, &iam.ListInstanceProfilesInput{
		PathPrefix: awssdk.String(c.profilePath(class)),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return fmt.Errorf("listing instance profiles of EC2NodeClass %s: %w", class.Name, err)
		}
		for _, p := range page.InstanceProfiles {
			if err := c.deleteProfile(ctx, p); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Cloud) deleteProfile(ctx context.Context, p iamtypes.InstanceProfile) error {
	name := awssdk.ToString(p.InstanceProfileName)
	for _, r := range p.Roles {
		if err := c.removeRole(ctx, name, awssdk.ToString(r.RoleName)); err != nil {
			return err
		}
	}
	_, err := c.iam.DeleteInstanceProfile(ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: &name})
	if err != nil && !isAbsent(err) {
		return fmt.Errorf("deleting instance profile %s: %w", name, err)
	}
	c.profiles.forget(name)
	c.profileUse.forget(name)
	return nil
}
