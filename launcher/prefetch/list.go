package prefetch

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

const (
	// most is the maximum number of images in a list: it bounds the size of the Node.
	most = 50
	// unknownSize is the assumed size of an image that no node has reported.
	unknownSize = 200 << 20
)

// Outcome is how an image is handled.
type Outcome string

// The outcomes.
const (
	// Listed images are in the node's list.
	Listed Outcome = "listed"
	// PullSecret images are left to the kubelet: it may read a pod's Secrets only once the pod is bound to it.
	PullSecret Outcome = "pull_secret"
	// Unreadable images have an invalid name.
	Unreadable Outcome = "unreadable"
	// Surplus images are those beyond the maximum length of a list.
	Surplus Outcome = "surplus"
)

// List is the list of images for a node.
type List struct {
	// Images are in the order of pulling, with their full names.
	Images []string
	// Skipped counts the images that are not listed, by the reason.
	Skipped map[Outcome]int
}

// String returns the value of the annotation.
func (l List) String() string { return strings.Join(l.Images, ",") }

// Make lists the images of pods. The order does not change the node's bandwidth, so images that most pods wait for come first, weighted by
// their bytes: this minimizes the pods' total wait. size returns the bytes of an image, 0 if unknown.
func Make(pods []*corev1.Pod, size func(image string) int64) List {
	waiting, skipped := map[string]int{}, map[string]Outcome{}
	for _, pod := range pods {
		for _, image := range imagesOf(pod) {
			name, err := Name(image)
			switch {
			case err != nil:
				skipped[image] = Unreadable
			case len(pod.Spec.ImagePullSecrets) > 0:
				skipped[name] = PullSecret
			default:
				waiting[name]++
			}
		}
	}
	weight := func(image string) float64 {
		bytes := size(image)
		if bytes <= 0 {
			bytes = unknownSize
		}
		return float64(waiting[image]) / float64(bytes)
	}
	list := List{Skipped: map[Outcome]int{}}
	list.Images = slices.SortedFunc(maps.Keys(waiting), func(a, b string) int {
		return cmp.Or(cmp.Compare(weight(b), weight(a)), cmp.Compare(a, b))
	})
	if n := len(list.Images) - most; n > 0 {
		list.Images, list.Skipped[Surplus] = list.Images[:most], n
	}
	for name, outcome := range skipped {
		if waiting[name] == 0 {
			list.Skipped[outcome]++
		}
	}
	return list
}

// imagesOf returns the images that a pod's start needs, each once, except those that may not be prefetched.
func imagesOf(pod *corev1.Pod) []string {
	var out []string
	add := func(image string, policy corev1.PullPolicy) {
		if image != "" && policy != corev1.PullNever && !slices.Contains(out, image) {
			out = append(out, image)
		}
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		add(c.Image, c.ImagePullPolicy)
	}
	for _, v := range pod.Spec.Volumes {
		if v.Image != nil {
			add(v.Image.Reference, v.Image.PullPolicy)
		}
	}
	return out
}

// Name returns the full name of an image, as containerd keeps it: with the registry, and with a tag or a digest.
func Name(image string) (string, error) {
	named, err := reference.ParseDockerRef(image)
	if err != nil {
		return "", err
	}
	return named.String(), nil
}

// On reports whether nodes of the class prefetch: those of AL2023 unless the class disables it.
func On(class *awsv1.EC2NodeClass) bool {
	return class.AMIFamily() == catalog.FamilyAL2023 && class.Annotations[catalog.PrefetchAnnotation] != catalog.PrefetchOff
}
