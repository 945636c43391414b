package prefetch_test

import (
	"fmt"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/prefetch"
)

func pod(images ...string) *corev1.Pod {
	p := &corev1.Pod{}
	for _, image := range images {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Image: image})
	}
	return p
}

func with(p *corev1.Pod, change func(*corev1.Pod)) *corev1.Pod {
	change(p)
	return p
}

const digest = "@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

func TestMake(t *testing.T) {
	secret := func(p *corev1.Pod) { p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "mine"}} }
	for name, c := range map[string]struct {
		pods  []*corev1.Pod
		sizes map[string]int64
		want  prefetch.List
	}{
		"nobody": {},
		"full names, each once": {
			pods: []*corev1.Pod{pod("nginx", "nginx:latest"), pod("ghcr.io/a/b:1" + digest)},
			want: prefetch.List{Images: []string{"docker.io/library/nginx:latest", "ghcr.io/a/b" + digest}},
		},
		"what most pods wait for comes first": {
			pods: []*corev1.Pod{pod("r.io/a:1"), pod("r.io/b:1"), pod("r.io/b:1", "r.io/c:1")},
			want: prefetch.List{Images: []string{"r.io/b:1", "r.io/a:1", "r.io/c:1"}},
		},
		"counted by its bytes": {
			pods:  []*corev1.Pod{pod("r.io/big:1"), pod("r.io/big:1"), pod("r.io/small:1"), pod("r.io/unknown:1")},
			sizes: map[string]int64{"r.io/big:1": 4 << 30, "r.io/small:1": 10 << 20},
			want:  prefetch.List{Images: []string{"r.io/small:1", "r.io/unknown:1", "r.io/big:1"}},
		},
		"init containers and image volumes too, but not what may not be pulled": {
			pods: []*corev1.Pod{with(pod("r.io/a:1"), func(p *corev1.Pod) {
				p.Spec.InitContainers = []corev1.Container{{Image: "r.io/i:1"}, {Image: "r.io/never:1", ImagePullPolicy: corev1.PullNever}}
				p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "r.io/v:1"}}}, {}}
			})},
			want: prefetch.List{Images: []string{"r.io/a:1", "r.io/i:1", "r.io/v:1"}},
		},
		"a pull secret is the kubelet's to read, unless another pod needs none": {
			pods: []*corev1.Pod{with(pod("r.io/private:1", "r.io/shared:1"), secret), pod("r.io/shared:1")},
			want: prefetch.List{Images: []string{"r.io/shared:1"}, Skipped: map[prefetch.Outcome]int{prefetch.PullSecret: 1}},
		},
		"whatever anybody writes into a pod, no shell sees": {
			pods: []*corev1.Pod{pod("r.io/$(reboot):1", "r.io/a,b", "r.io/a\nb", "Upper/Case", "r.io/ok:1")},
			want: prefetch.List{Images: []string{"r.io/ok:1"}, Skipped: map[prefetch.Outcome]int{prefetch.Unreadable: 4}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := prefetch.Make(c.pods, func(image string) int64 { return c.sizes[image] })
			if c.want.Skipped == nil {
				c.want.Skipped = map[prefetch.Outcome]int{}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestMakeIsNoBook(t *testing.T) {
	var pods []*corev1.Pod
	for i := range 60 {
		pods = append(pods, pod(fmt.Sprintf("r.io/a:%d", i)))
	}
	got := prefetch.Make(pods, func(string) int64 { return 0 })
	if len(got.Images) != 50 || got.Skipped[prefetch.Surplus] != 10 {
		t.Errorf("%d images, skipped %v", len(got.Images), got.Skipped)
	}
}

func TestOn(t *testing.T) {
	class := func(alias, annotation string) *awsv1.EC2NodeClass {
		c := &awsv1.EC2NodeClass{}
		c.Spec.AMISelectorTerms = []awsv1.AMISelectorTerm{{Alias: alias}}
		if annotation != "" {
			c.Annotations = map[string]string{catalog.PrefetchAnnotation: annotation}
		}
		return c
	}
	for c, want := range map[*awsv1.EC2NodeClass]bool{
		class("al2023@latest", ""): true, class("al2023@latest", "on"): true, class("al2023@latest", "off"): false,
		class("al2@latest", ""): false, class("bottlerocket@latest", ""): false,
	} {
		if got := prefetch.On(c); got != want {
			t.Errorf("%s with annotation %q: %v", c.Spec.AMISelectorTerms[0].Alias, c.Annotations[catalog.PrefetchAnnotation], got)
		}
	}
}
