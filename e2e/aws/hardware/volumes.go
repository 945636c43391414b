package hardware

import (
	"cmp"
	"slices"

	"github.com/slipway-k8s/slipway/e2e/aws/wire"
)

// Volume is an EBS volume of an instance.
type Volume struct {
	// ID such as vol-0123456789abcdef0; set by the launch.
	ID string
	// Device is the name of the block device.
	Device string
	// Type such as gp3.
	Type string
	// KMSKey is the key of an encrypted volume, empty for the account's default; Snapshot is what the volume is made of, empty for none.
	KMSKey string
	// Snapshot of the volume.
	Snapshot string
	// GiB is the size, MiBps the throughput, InitMiBps the rate at which it is initialized; 0 for EC2's defaults.
	GiB, IOPS, MiBps, InitMiBps int
	// Encrypted, and Delete if the volume ends with its instance.
	Encrypted, Delete bool
}

// Volumes reads the block devices of a launch. The AMI has a root device, whose size and snapshot a mapping of the same name may replace.
func Volumes(data wire.Params, rootDevice string, rootGiB int) ([]Volume, *wire.Error) {
	out := []Volume{{Device: rootDevice, Type: "gp2", GiB: rootGiB, Delete: true}}
	seen := map[string]bool{}
	for _, spec := range data.Each("BlockDeviceMapping") {
		v := Volume{Device: spec.Get("DeviceName"), Type: "gp2", Delete: true}
		isRoot := v.Device == rootDevice
		if isRoot {
			v = out[0]
		}
		switch {
		case v.Device == "":
			return nil, wire.Errorf("InvalidBlockDeviceMapping", "The request must contain the parameter DeviceName")
		case seen[v.Device]:
			return nil, wire.Errorf("InvalidBlockDeviceMapping", "The device '%s' is used in more than one block-device mapping", v.Device)
		}
		seen[v.Device] = true
		if err := v.read(spec.At("Ebs"), isRoot, rootGiB); err != nil {
			return nil, err
		}
		if isRoot {
			out[0] = v
		} else {
			out = append(out, v)
		}
	}
	return out, nil
}

func (v *Volume) read(ebs wire.Params, isRoot bool, rootGiB int) *wire.Error {
	v.Type = cmp.Or(ebs.Get("VolumeType"), v.Type)
	v.KMSKey, v.Snapshot = ebs.Get("KmsKeyId"), ebs.Get("SnapshotId")
	v.Encrypted = ebs.Bool("Encrypted")
	if ebs.At("DeleteOnTermination").Given() {
		v.Delete = ebs.Bool("DeleteOnTermination")
	}
	for name, into := range map[string]*int{"VolumeSize": &v.GiB, "Iops": &v.IOPS, "Throughput": &v.MiBps, "VolumeInitializationRate": &v.InitMiBps} {
		n, err := ebs.Int(name, *into)
		if err != nil || n < 0 || n == 0 && ebs.At(name).Given() {
			return wire.Errorf("InvalidParameterValue", "Value (%s) for parameter %s is invalid.", ebs.Get(name), name)
		}
		*into = n
	}
	if err := v.refuseType(isRoot, rootGiB); err != nil {
		return err
	}
	return v.refuseRates(isRoot)
}

// refuseType returns what EC2 says about an unknown type, a missing size or a key without encryption.
func (v *Volume) refuseType(isRoot bool, rootGiB int) *wire.Error {
	switch {
	case !slices.Contains([]string{"gp2", "gp3", "io1", "io2", "st1", "sc1", "standard"}, v.Type):
		return wire.Errorf("InvalidParameterValue", "Invalid volume type '%s'.", v.Type)
	case v.GiB == 0 && v.Snapshot == "":
		return wire.Errorf("InvalidBlockDeviceMapping", "The request must contain the parameter size or snapshotId")
	case isRoot && v.GiB < rootGiB:
		return wire.Errorf("InvalidBlockDeviceMapping", "Volume of size %dGB is smaller than the snapshot of the AMI, expect size >= %dGB", v.GiB, rootGiB)
	case v.KMSKey != "" && !v.Encrypted:
		return wire.Errorf("InvalidParameterDependency", "The parameter KmsKeyId requires the parameter Encrypted to be set.")
	}
	return nil
}

// refuseRates returns what EC2 says about operations, throughput and initialization that the type does not have.
func (v *Volume) refuseRates(isRoot bool) *wire.Error {
	provisioned := v.Type == "io1" || v.Type == "io2"
	switch {
	case v.IOPS > 0 && !provisioned && v.Type != "gp3":
		return wire.Errorf("InvalidParameterCombination", "The parameter iops is not supported for %s volumes.", v.Type)
	case v.IOPS == 0 && provisioned:
		return wire.Errorf("MissingParameter", "The request must contain the parameter iops for %s volumes.", v.Type)
	case v.MiBps > 0 && v.Type != "gp3":
		return wire.Errorf("InvalidParameterCombination", "The parameter throughput is not supported for %s volumes.", v.Type)
	case v.InitMiBps > 0 && (v.InitMiBps < 100 || v.InitMiBps > 300):
		return wire.Errorf("InvalidParameterValue", "Value (%d) for parameter volumeInitializationRate is invalid: it is between 100 and 300 MiB/s.", v.InitMiBps)
	case v.InitMiBps > 0 && v.Snapshot == "" && !isRoot:
		return wire.Errorf("InvalidParameterCombination", "The parameter volumeInitializationRate requires a snapshot.")
	}
	return nil
}

// VolumeXML is a volume in the answer of DescribeVolumes.
type VolumeXML struct {
	// ID of the volume.
	ID string `xml:"volumeId"`
	// Type such as gp3.
	Type string `xml:"volumeType"`
	// GiB is its size.
	GiB int `xml:"size"`
	// IOPS is absent for EC2's default, as are the following numbers.
	IOPS int `xml:"iops,omitempty"`
	// MiBps is the throughput.
	MiBps int `xml:"throughput,omitempty"`
	// InitMiBps is the rate of initialization.
	InitMiBps int `xml:"volumeInitializationRate,omitempty"`
	// Encrypted with KMSKey.
	Encrypted bool `xml:"encrypted"`
	// KMSKey is absent for the account's default.
	KMSKey string `xml:"kmsKeyId,omitempty"`
	// Snapshot is absent for none.
	Snapshot string `xml:"snapshotId"`
	// Zone of the volume.
	Zone string `xml:"availabilityZone"`
	// Status is in-use.
	Status string `xml:"status"`
	// Attached is the attachment to the instance.
	Attached wire.Set[VolumeAttachmentXML] `xml:"attachmentSet"`
}

// VolumeAttachmentXML says to which instance a volume is attached.
type VolumeAttachmentXML struct {
	// Instance and Device are where it is.
	Instance string `xml:"instanceId"`
	// Device is the name of the block device.
	Device string `xml:"device"`
	// Status is attached.
	Status string `xml:"status"`
	// Delete is true where the volume ends with its instance.
	Delete bool `xml:"deleteOnTermination"`
}

// Described returns the volume as DescribeVolumes does.
func (v Volume) Described(instance, zone string) VolumeXML {
	return VolumeXML{
		ID: v.ID, Type: v.Type, GiB: v.GiB, IOPS: v.IOPS, MiBps: v.MiBps, InitMiBps: v.InitMiBps, Encrypted: v.Encrypted, KMSKey: v.KMSKey,
		Snapshot: v.Snapshot, Zone: zone, Status: "in-use",
		Attached: wire.NewSet(VolumeAttachmentXML{instance, v.Device, "attached", v.Delete}),
	}
}
