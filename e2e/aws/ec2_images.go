package aws

import (
	"context"
	"slices"
	"time"

	"github.com/slipway-k8s/slipway/e2e/aws/wire"
)

type (
	imageXML struct {
		ID          string              `xml:"imageId"`
		Location    string              `xml:"imageLocation"`
		State       string              `xml:"imageState"`
		OwnerID     string              `xml:"imageOwnerId"`
		OwnerAlias  string              `xml:"imageOwnerAlias,omitempty"`
		Created     string              `xml:"creationDate"`
		Deprecated  string              `xml:"deprecationTime"`
		Public      bool                `xml:"isPublic"`
		Arch        string              `xml:"architecture"`
		Type        string              `xml:"imageType"`
		Name        string              `xml:"name"`
		Description string              `xml:"description"`
		RootType    string              `xml:"rootDeviceType"`
		RootName    string              `xml:"rootDeviceName"`
		Devices     wire.Set[deviceXML] `xml:"blockDeviceMapping"`
		Virtual     string              `xml:"virtualizationType"`
		Hypervisor  string              `xml:"hypervisor"`
		ENA         bool                `xml:"enaSupport"`
		IMDS        string              `xml:"imdsSupport"`
		Platform    string              `xml:"platformDetails"`
		PlatformOf  string              `xml:"platform,omitempty"`
		Usage       string              `xml:"usageOperation"`
		Tags        wire.Set[tagXML]    `xml:"tagSet"`
	}
	deviceXML struct {
		Name string `xml:"deviceName"`
		EBS  ebsXML `xml:"ebs"`
	}
	ebsXML struct {
		SnapshotID string `xml:"snapshotId"`
		GiB        int64  `xml:"volumeSize"`
		Delete     bool   `xml:"deleteOnTermination"`
		Type       string `xml:"volumeType"`
		Encrypted  bool   `xml:"encrypted"`
	}
)

// deprecatedAfter is the age at which Amazon deprecates an AMI.
const deprecatedAfter = 2 * 365 * 24 * time.Hour

func (s *Server) describeImages(_ context.Context, r request) (any, error) {
	items := s.images.list()
	if owners := r.Params.Strings("Owner"); len(owners) > 0 {
		items = slices.DeleteFunc(items, func(i image) bool {
			return !slices.Contains(owners, i.Owner) && !slices.Contains(owners, i.Alias)
		})
	}
	if !r.Params.Bool("IncludeDeprecated") && !r.Params.At("ImageId").Given() {
		now := time.Now()
		items = slices.DeleteFunc(items, func(i image) bool { return i.deprecated().Before(now) })
	}
	page, next, err := listOf[image]{
		items: items, key: func(i image) string { return i.ID }, idParam: "ImageId",
		notFound: func(id string) error {
			return wire.Errorf("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", id)
		},
		attributes: func(i image) wire.Attribute {
			return wire.Tagged(i.Tags, fixed(map[string]string{
				"architecture": i.Arch, "creation-date": wire.Timestamp(i.Created), "description": i.Description, "hypervisor": "xen",
				"image-id": i.ID, "image-type": "machine", "is-public": "true", "name": i.Name, "owner-alias": i.Alias, "owner-id": i.Owner,
				"platform": i.platform(), "root-device-name": i.RootDevice, "root-device-type": "ebs", "state": "available", "virtualization-type": "hvm",
			}))
		},
		pages: wire.Pages{Min: 1, Max: 1000},
	}.answer(r.Params)
	if err != nil {
		return nil, err
	}
	out := struct {
		Set  wire.Set[imageXML] `xml:"imagesSet"`
		Next string             `xml:"nextToken,omitempty"`
	}{Next: next}
	for _, i := range page {
		out.Set.Items = append(out.Set.Items, i.shape())
	}
	return out, nil
}

// deprecated returns when the AMI is or was deprecated.
func (i image) deprecated() time.Time {
	if i.Deprecated.IsZero() {
		return i.Created.Add(deprecatedAfter)
	}
	return i.Deprecated
}

// platform is windows for AMIs of Windows and empty for others, as in EC2.
func (i image) platform() string {
	if i.Windows {
		return "windows"
	}
	return ""
}

// details is the platform as the bill names it.
func (i image) details() string {
	if i.Windows {
		return "Windows"
	}
	return "Linux/UNIX"
}

// usage is the operation of RunInstances on the bill (EC2 user guide, "AMI billing information fields").
func (i image) usage() string {
	if i.Windows {
		return "RunInstances:0002"
	}
	return "RunInstances"
}

func (i image) shape() imageXML {
	return imageXML{
		ID: i.ID, Location: "amazon/" + i.Name, State: "available", OwnerID: i.Owner, OwnerAlias: i.Alias,
		Created: wire.Timestamp(i.Created), Deprecated: wire.Timestamp(i.deprecated()), Public: true,
		Arch: i.Arch, Type: "machine", Name: i.Name, Description: i.Description, RootType: "ebs", RootName: i.RootDevice,
		Devices: wire.NewSet(deviceXML{i.RootDevice, ebsXML{fixedID("snap", i.Name), i.RootGiB, true, "gp3", false}}),
		Virtual: "hvm", Hypervisor: "xen", ENA: true, IMDS: "v2.0", Platform: i.details(), PlatformOf: i.platform(), Usage: i.usage(), Tags: tagSet(i.Tags),
	}
}
