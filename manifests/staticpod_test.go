package manifests_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/slipway-k8s/slipway/launcher"
	"github.com/slipway-k8s/slipway/manifests"
)

const staticFolder = "/etc/kubernetes/slipway/"

// The static Pod equals the Deployment's Pod, except for what a static Pod cannot have: service accounts and ConfigMaps.
func TestStaticPod(t *testing.T) {
	t.Parallel()
	var pod corev1.Pod
	strictly(t, "static-pod/slipway.yaml", &pod)
	if pod.Kind != "Pod" || pod.Namespace != "kube-system" || pod.Spec.ServiceAccountName != "" {
		t.Errorf("a static Pod is a Pod of kube-system without a service account, not %s %s/%s", pod.Kind, pod.Namespace, pod.Name)
	}
	if s := pod.Spec.SecurityContext; s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot {
		t.Error("the Pod may run as root")
	}
	chart, err := os.ReadFile("kustomize/base/slipway.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range pod.Spec.Containers {
		if !strings.Contains(string(chart), "image: "+c.Image+"\n") {
			t.Errorf("container %s: image %s is not the chart's", c.Name, c.Image)
		}
		staticContainer(t, pod, c)
	}
}

// staticContainer holds that a container of the static Pod is confined, and sees the socket, its own files and no others. AWS credentials
// are the launcher's alone.
func staticContainer(t *testing.T, pod corev1.Pod, c corev1.Container) {
	t.Helper()
	if c.SecurityContext.ReadOnlyRootFilesystem == nil || !*c.SecurityContext.ReadOnlyRootFilesystem || c.SecurityContext.Capabilities.Drop[0] != "ALL" {
		t.Errorf("container %s: security context %+v", c.Name, c.SecurityContext)
	}
	program := map[string]string{"scheduler": "scheduler", "controller": "launcher"}[c.Name]
	want := []string{"/run", staticFolder + program + ".conf", staticFolder + program + ".yaml"}
	var mounted []string
	for _, m := range c.VolumeMounts {
		mounted = append(mounted, m.MountPath)
		for _, v := range pod.Spec.Volumes {
			if v.Name == m.Name && v.HostPath != nil && v.HostPath.Path != m.MountPath {
				t.Errorf("container %s: %s is the host's %s", c.Name, m.MountPath, v.HostPath.Path)
			}
		}
	}
	slices.Sort(mounted)
	slices.Sort(want)
	if diff := cmp.Diff(want, mounted); diff != "" {
		t.Errorf("container %s mounts other paths; -want +got\n%s", c.Name, diff)
	}
	aws := slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return strings.HasPrefix(e.Name, "AWS_") })
	if aws != (program == "launcher") {
		t.Errorf("container %s has settings of the AWS SDK: %t", c.Name, aws)
	}
}

func TestStaticPodSettings(t *testing.T) {
	t.Parallel()
	want, err := manifests.SchedulerConfig("scheduler/replace.yaml", staticFolder+"scheduler.conf", nil)
	if err != nil {
		t.Fatal(err)
	}
	var shipped, expected map[string]any
	strictly(t, "static-pod/scheduler.yaml", &shipped)
	if err := yaml.Unmarshal(want, &expected); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(expected, shipped); diff != "" {
		t.Errorf("static-pod/scheduler.yaml is not scheduler/replace.yaml with a kubeconfig; -want +got\n%s", diff)
	}
	settings := launcher.Defaults()
	if err := settings.Load("static-pod/launcher.yaml"); err != nil {
		t.Fatal(err)
	}
	if err := settings.Validate(); err != nil {
		t.Error(err)
	}
}

func strictly(t *testing.T, path string, into any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(data, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}
