package bind_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/launcher/bind"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// change makes a case of the ordinary pod: one of a ReplicaSet, with its service account's token mounted and the toleration that admission adds.
type change func(f *bind.Facts)

func ordinary() bind.Facts {
	return bind.Facts{
		Pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: "web-1", UID: "uid-web-1",
				OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", Controller: new(true)}},
			},
			Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi"),
				}}}},
				Tolerations: []corev1.Toleration{notReady(300)},
				Volumes:     []corev1.Volume{{Name: "kube-api-access-5ll4z", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}}},
			},
		},
		Taints: []corev1.Taint{
			{Key: catalog.StartingTaintKey, Effect: corev1.TaintEffectNoSchedule},
			{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule},
		},
		Setting: bind.Auto,
	}
}

func volumes(list ...corev1.Volume) change {
	return func(f *bind.Facts) { f.Pod.Spec.Volumes = list }
}

func owner(kind string) change {
	return func(f *bind.Facts) { f.Pod.OwnerReferences[0].Kind = kind }
}

func requests(name, quantity string) change {
	return func(f *bind.Facts) {
		f.Pod.Spec.Containers[0].Resources.Requests[corev1.ResourceName(name)] = resource.MustParse(quantity)
	}
}

func taint(key, value string, effect corev1.TaintEffect) change {
	return func(f *bind.Facts) { f.Taints = append(f.Taints, corev1.Taint{Key: key, Value: value, Effect: effect}) }
}

func tolerate(t corev1.Toleration) change {
	return func(f *bind.Facts) { f.Pod.Spec.Tolerations = append(f.Pod.Spec.Tolerations, t) }
}

// notReady is the toleration of the taint of a node that is not Ready.
func notReady(seconds int64) corev1.Toleration {
	return corev1.Toleration{
		Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds,
	}
}

// tolerateOnly replaces the pod's tolerations.
func tolerateOnly(list ...corev1.Toleration) change {
	return func(f *bind.Facts) { f.Pod.Spec.Tolerations = list }
}

func setting(s bind.Setting) change { return func(f *bind.Facts) { f.Setting = s } }

func hostNetwork(f *bind.Facts) { f.Pod.Spec.HostNetwork = true }

func bare(f *bind.Facts) { f.Pod.OwnerReferences = nil }

// The cases cite what early binding once broke in Karpenter (R1 to R8) and what it costs in a kubelet of today (R12).
func TestAt(t *testing.T) {
	emptyDir := corev1.Volume{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
	secret := corev1.Volume{Name: "tls", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "tls"}}}
	config := corev1.Volume{Name: "conf", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}}
	claimed := corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}
	cases := []struct {
		name    string
		changes []change
		want    bind.Moment
		reason  string
	}{
		{"R12: an ordinary pod mounts a token that the API server backs", nil, bind.Ready, "volume kube-api-access would"},
		{"R12: a Secret", []change{volumes(emptyDir, secret)}, bind.Ready, "volume tls"},
		{"R12: a ConfigMap", []change{volumes(config)}, bind.Ready, "volume conf"},
		{"R12: no volume that the API server backs", []change{volumes(emptyDir)}, bind.Launch, "no volume"},
		{"R12: no volume at all", []change{volumes()}, bind.Launch, "no volume"},
		{"R12: the host's network", []change{hostNetwork}, bind.Launch, "host's network"},
		{"R8: a Job's pod is not bound before boot", []change{owner("Job"), volumes()}, bind.Ready, "Job"},
		{"R8: nor with the host's network", []change{owner("Job"), hostNetwork}, bind.Ready, "Job"},
		{"R8: a pod without a controller", []change{bare, hostNetwork}, bind.Scheduler, "controller"},
		{"R8: a StatefulSet's pod", []change{owner("StatefulSet")}, bind.Ready, "volume kube-api-access"},
		{"R1: a GPU", []change{requests("nvidia.com/gpu", "1")}, bind.Scheduler, "nvidia.com/gpu"},
		{"R1: a GPU in an init container", []change{func(f *bind.Facts) {
			f.Pod.Spec.InitContainers = []corev1.Container{{Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")},
			}}}
		}}, bind.Scheduler, "nvidia.com/gpu"},
		{"R1: resource claims", []change{func(f *bind.Facts) {
			f.Pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}}
		}}, bind.Scheduler, "resource claims"},
		{"R1: a resource of Kubernetes itself is none", []change{requests("ephemeral-storage", "1Gi"), requests("batch.kubernetes.io/x", "1")}, bind.Ready, "volume"},
		{"R2: security groups for pods", []change{requests("vpc.amazonaws.com/pod-eni", "1")}, bind.Scheduler, "pod-eni"},
		{"R5: an unbound volume claim", []change{func(f *bind.Facts) { f.UnboundVolume = "data-web-1" }}, bind.Scheduler, "data-web-1"},
		{"R5: a volume of a driver that has not registered", []change{func(f *bind.Facts) { f.VolumeLabel = "example.com/zone" }}, bind.Scheduler, "example.com/zone"},
		{"R9: what the scheduler keeps to itself", []change{func(f *bind.Facts) { f.SchedulerOnly = "plugin X reserves" }}, bind.Scheduler, "plugin X reserves"},
		{"R3: a startup taint that is not tolerated", []change{taint("node.cilium.io/agent-not-ready", "true", corev1.TaintEffectNoSchedule)}, bind.Scheduler, "agent-not-ready"},
		{"R3: and one that is", []change{
			taint("dedicated", "web", corev1.TaintEffectNoSchedule), tolerate(corev1.Toleration{Key: "dedicated", Value: "web"}),
		}, bind.Ready, "volume"},
		{"another value is another taint", []change{
			taint("dedicated", "web", corev1.TaintEffectNoSchedule), tolerate(corev1.Toleration{Key: "dedicated", Value: "db"}),
		}, bind.Scheduler, "dedicated=web"},
		{"another effect is another taint", []change{
			taint("dedicated", "", corev1.TaintEffectNoExecute),
			tolerate(corev1.Toleration{Key: "dedicated", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}),
		}, bind.Scheduler, "dedicated:NoExecute"},
		{"a preference keeps nobody off", []change{taint("soft", "", corev1.TaintEffectPreferNoSchedule)}, bind.Ready, "volume"},
		{"who tolerates everything", []change{
			taint("dedicated", "web", corev1.TaintEffectNoExecute), tolerate(corev1.Toleration{Operator: corev1.TolerationOpExists}),
		}, bind.Ready, "volume"},
		{"R3: NoExecute tolerated for 59 s", []change{
			taint(corev1.TaintNodeNotReady, "", corev1.TaintEffectNoExecute), tolerateOnly(notReady(59)),
		}, bind.Scheduler, "not-ready:NoExecute"},
		{"R3: NoExecute tolerated for 300 s, as admission adds", []change{
			taint(corev1.TaintNodeNotReady, "", corev1.TaintEffectNoExecute),
		}, bind.Ready, "volume"},
		{"R3: of two tolerations the shorter counts", []change{
			taint(corev1.TaintNodeNotReady, "", corev1.TaintEffectNoExecute),
			tolerate(corev1.Toleration{Operator: corev1.TolerationOpExists, TolerationSeconds: new(int64(0))}),
		}, bind.Scheduler, "not-ready:NoExecute"},
		{"R3: evicted while the node boots", []change{hostNetwork, tolerateOnly(notReady(10))}, bind.Ready, "not-ready:NoExecute for 1m0s"},
		{"R3: or at once, without a toleration", []change{volumes(), tolerateOnly()}, bind.Ready, "not-ready:NoExecute for 1m0s"},
		{"R3: whatever the setting", []change{setting(bind.AtLaunch), tolerateOnly(notReady(59))}, bind.Ready, "not-ready:NoExecute for 1m0s"},
		{"R3: evicted after a minute, or never", []change{
			hostNetwork, tolerateOnly(notReady(60), corev1.Toleration{Operator: corev1.TolerationOpExists}),
		}, bind.Launch, "host's network"},
		{"R5: a bound volume claim waits for its driver, too", []change{hostNetwork, volumes(claimed)}, bind.Ready, "volume data needs its CSI driver"},
		{"R5: a volume of a driver's own", []change{volumes(corev1.Volume{Name: "s", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{}}})}, bind.Ready, "volume s"},
		{"R12: the network is there when the kubelet starts", []change{func(f *bind.Facts) { f.NetworkAtStart = true }}, bind.Launch, "network ready when"},
		{"R12: but Jobs wait all the same", []change{owner("Job"), func(f *bind.Facts) { f.NetworkAtStart = true }}, bind.Ready, "Job"},
		{"R8: kubelets of the NodePool rejected pods again and again", []change{func(f *bind.Facts) { f.SwitchedOff = "2 pods were rejected" }}, bind.Scheduler, "2 pods were rejected"},
		{"R8: whatever the setting", []change{setting(bind.AtLaunch), func(f *bind.Facts) { f.SwitchedOff = "2 pods were rejected" }}, bind.Scheduler, "off for its NodePool"},
		{"R1: none of a device is no device", []change{requests("nvidia.com/gpu", "0")}, bind.Ready, "volume"},
		{"bindAt never", []change{setting(bind.Never), hostNetwork}, bind.Scheduler, "bindAt is never"},
		{"bindAt ready", []change{setting(bind.AtReady), hostNetwork}, bind.Ready, "bindAt is ready"},
		{"bindAt launch", []change{setting(bind.AtLaunch)}, bind.Launch, "bindAt is launch"},
		{"bindAt launch does not lose bare pods", []change{setting(bind.AtLaunch), bare}, bind.Scheduler, "controller"},
		{"bindAt launch does not break GPUs", []change{setting(bind.AtLaunch), requests("nvidia.com/gpu", "1")}, bind.Scheduler, "nvidia.com/gpu"},
	}
	decided := map[string]bool{}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := ordinary()
			for _, change := range c.changes {
				change(&f)
			}
			got := bind.Rules().At(f)
			if got.Moment != c.want || !strings.Contains(got.Reason, c.reason) {
				t.Errorf("%+v, want moment %q because of %q", got, c.want, c.reason)
			}
			decided[got.Code] = true
		})
	}
	for _, r := range bind.Rules() {
		if !decided[r.Code] {
			t.Errorf("no case shows rule %s", r.Code)
		}
	}
}

// Codes stand in annotations and documents: each names one rule.
func TestRulesHaveNamesOfTheirOwn(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range bind.Rules() {
		if r.Code == "" || seen[r.Code] {
			t.Errorf("code %q is empty or of two rules", r.Code)
		}
		seen[r.Code] = true
	}
}

func TestParseSetting(t *testing.T) {
	for _, good := range []string{"auto", "launch", "ready", "never"} {
		if s, err := bind.ParseSetting(good); err != nil || string(s) != good {
			t.Errorf("%s: %q, %v", good, s, err)
		}
	}
	if _, err := bind.ParseSetting("soon"); err == nil || !strings.Contains(err.Error(), `bindAt: "soon"`) {
		t.Errorf("error %v", err)
	}
}
