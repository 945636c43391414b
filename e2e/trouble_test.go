package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/aws"
	"github.com/slipway-k8s/slipway/e2e/aws/policy"
	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/e2e/sandbox"
	"github.com/slipway-k8s/slipway/e2e/sandbox/supervise"
	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
)

// awaitLaunchRefused waits until a NodeClaim of the pool says, for the reason, that it was not launched; its message has the
// text.
func (w *world) awaitLaunchRefused(pool, reason, text string) {
	w.t.Helper()
	w.await(w.t, fmt.Sprintf("a NodeClaim of %s that was not launched: %s, with %q", pool, reason, text), func() bool {
		for _, c := range w.everClaimed(pool) {
			for _, condition := range c.Object.Status.Conditions {
				if condition.Type == karpv1.ConditionTypeLaunched && condition.Reason == reason && strings.Contains(condition.Message, text) {
					return true
				}
			}
		}
		return false
	})
}

// A policy that lacks one action: the NodeClaim names it, and when it is given, the pods run.
func TestUnauthorizedAlone(t *testing.T) {
	w := newWorld(t, "unauthorized")
	w.pool("unauthorized", func(p *karpv1.NodePool) { onlyTypes(p, "m6i.large") })
	shipped, err := sandbox.LauncherPolicy()
	if err != nil {
		t.Fatal(err)
	}
	lacking, err := policy.Parse([]byte(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","NotAction":"ec2:CreateFleet","Resource":"*"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	shared.AWS().SetPolicy(sandbox.LauncherAccessKey, &lacking)
	restore := func() { shared.AWS().SetPolicy(sandbox.LauncherAccessKey, &shipped) }
	t.Cleanup(restore)
	w.deployment("web", 1, w.podSpec("1", "1Gi", nil))
	w.awaitLaunchRefused("unauthorized", "Unauthorized", "ec2:CreateFleet")
	w.awaitLaunchRefused("unauthorized", "Unauthorized", "AWS: UnauthorizedOperation: ")
	w.logHas("Launch failed", "UnauthorizedOperation")
	restore()
	w.awaitRunning(1)
	checkOneInstanceEach(t, w, "unauthorized")
}

// An account that never used spot instances, and may not make the role for them: the NodeClaim says what to do, and the pods
// run on demand meanwhile.
func TestNoSpotRoleAlone(t *testing.T) {
	w := newWorld(t, "spot-role")
	w.pool("spot-role", func(p *karpv1.NodePool) { onlyTypes(p, "m6i.large") })
	shared.AWS().SetSpotRole(false)
	t.Cleanup(func() { shared.AWS().SetSpotRole(true) })
	w.deployment("web", 1, w.podSpec("1", "1Gi", nil))
	// The launcher asks for no spot instance for minutes; its next process does not remember that.
	t.Cleanup(func() {
		if err := shared.Kill(sandbox.Launcher); err != nil && !errors.Is(err, supervise.ErrNotRunning) {
			t.Error(err)
		}
	})
	w.awaitLaunchRefused("spot-role", "SpotSLRCreationFailed", "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com")
	w.awaitLaunchRefused("spot-role", "SpotSLRCreationFailed", "AuthFailure.ServiceLinkedRoleCreationNotPermitted in")
	w.awaitRunning(1)
	checkOneInstanceEach(t, w, "spot-role")
}

// A service control policy denies an instance type, and EC2 answers with that error alone: the other type of the NodePool is launched. A pod that
// runs on the denied type alone says so, and keeps no other pod from a node.
func TestDeniedTypeAlone(t *testing.T) {
	const denied = "m6id.large"
	w := newWorld(t, "denied")
	w.pool("denied", func(p *karpv1.NodePool) {
		onlyTypes(p, denied, "m6id.xlarge")
		require(p, karpv1.CapacityTypeLabelKey, "on-demand")
	})
	shared.AWS().Denied.Set(denied)
	t.Cleanup(func() { shared.AWS().Denied.Set() })
	w.deployment("any", 1, w.podSpec("1", "1Gi", nil))
	w.awaitRunning(1)
	w.deployment("pinned", 4, w.podSpec("1", "1Gi", func(s *corev1.PodSpec) { s.NodeSelector[corev1.LabelInstanceTypeStable] = denied }))
	w.await(t, "the pods to say what EC2 refuses", func() bool {
		return slices.ContainsFunc(w.pods(), func(p observe.Pod) bool {
			c := conditions.Pod(p.Object, corev1.PodScheduled)
			return c != nil && strings.Contains(c.Message, "UnauthorizedOperation in") && strings.Contains(c.Message, "allow the instance type in the policy")
		})
	})
	w.deployment("more", 6, w.podSpec("1", "1Gi", nil))
	w.awaitRunning(7)
	checkOneInstanceEach(t, w, "denied")
}

// The account's vCPU quota is reached: NodeClaim, Event, pod, log and `slipway status` have EC2's code and the quota to raise; nothing
// speaks of capacity. Pods that may run as spot instances do.
func TestQuotaReachedAlone(t *testing.T) {
	w := newWorld(t, "quota")
	w.pool("quota", func(p *karpv1.NodePool) { onlyTypes(p, "c6id.large", "c6id.xlarge") })
	shared.AWS().SetQuota(aws.OnDemand, 0)
	t.Cleanup(func() { shared.AWS().SetQuota(aws.OnDemand, -1) })
	w.deployment("strict", 1, w.podSpec("1", "1Gi", func(s *corev1.PodSpec) { s.NodeSelector[karpv1.CapacityTypeLabelKey] = "on-demand" }))
	w.awaitLaunchRefused("quota", "VCPULimitExceeded", "request a higher vCPU quota L-1216C47A")
	w.await(t, "the pod to say which quota is reached", func() bool {
		return slices.ContainsFunc(w.pods(), func(p observe.Pod) bool {
			c := conditions.Pod(p.Object, corev1.PodScheduled)
			return c != nil && strings.Contains(c.Message, "VcpuLimitExceeded in") && strings.Contains(c.Message, "L-1216C47A") && !strings.Contains(c.Message, "no capacity")
		})
	})
	w.await(t, "an Event with EC2's text", func() bool {
		var events corev1.EventList
		return w.client.List(t.Context(), &events, client.MatchingFields{"reason": "InsufficientCapacityError"}) == nil &&
			slices.ContainsFunc(events.Items, func(e corev1.Event) bool { return strings.Contains(e.Message, "You have requested more vCPU capacity") })
	})
	if text := w.slipway("status"); !strings.Contains(text, "Not launched (InsufficientCapacityError") || !strings.Contains(text, "VcpuLimitExceeded in") {
		t.Errorf("status:\n%s", text)
	}
	w.logHas("Launch failed", "VcpuLimitExceeded in")
	w.deployment("any", 1, w.podSpec("1", "1Gi", nil))
	w.awaitRunning(1)
	checkOneInstanceEach(t, w, "quota")
}

// logHas waits until a line of the launcher's log has all of the texts.
func (w *world) logHas(texts ...string) {
	w.t.Helper()
	w.await(w.t, fmt.Sprintf("a line of the launcher's log with %q", texts), func() bool {
		log, err := os.ReadFile(w.LogFile(sandbox.Launcher))
		if err != nil {
			w.t.Fatal(err)
		}
		for line := range strings.Lines(string(log)) {
			if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
				return true
			}
		}
		return false
	})
}

// somebody is a user of the account beside the launcher.
func somebody() awssdk.CredentialsProvider {
	return credentials.NewStaticCredentialsProvider("AKIASOMEBODY", "secret", "")
}

// Somebody deletes the launch templates, and Amazon releases new AMIs and deprecates the old: the next launch does not care.
func TestLaunchTemplatesDeletedAndImagesReleasedAlone(t *testing.T) {
	w := newWorld(t, "templates")
	w.pool("templates", func(p *karpv1.NodePool) { onlyTypes(p, "m6i.large") })
	d := w.deployment("web", 1, w.podSpec("1", "1Gi", nil))
	w.awaitRunning(1)
	client := ec2.New(ec2.Options{
		Region: sandbox.Region, BaseEndpoint: awssdk.String(shared.AWSEndpoint()),
		Credentials: somebody(),
	})
	all, err := client.DescribeLaunchTemplates(t.Context(), &ec2.DescribeLaunchTemplatesInput{})
	if err != nil || len(all.LaunchTemplates) == 0 {
		t.Fatalf("there are %d launch templates (%v)", len(all.LaunchTemplates), err)
	}
	for _, template := range all.LaunchTemplates {
		in := &ec2.DeleteLaunchTemplateInput{LaunchTemplateId: template.LaunchTemplateId}
		if _, err := client.DeleteLaunchTemplate(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
	shared.AWS().ReleaseImages("v20260801", "1.46.0")
	for _, i := range shared.AWS().Instances() {
		if i.Tags[karpv1.NodePoolLabelKey] == "templates" {
			if err := shared.AWS().DeprecateImage(i.ImageID); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.scale(d, 3)
	w.awaitRunning(3)
	checkOneInstanceEach(t, w, "templates")
}

// Many workloads at once, each with a plan of its own, never buy more than the NodePool's limits.
func TestLimitsAreExactAlone(t *testing.T) {
	w := newWorld(t, "limits-exact")
	w.pool("limits-exact", func(p *karpv1.NodePool) {
		onlyTypes(p, "m6i.large")
		p.Spec.Limits = karpv1.Limits{corev1.ResourceCPU: resource.MustParse("7")}
	})
	for i := range 6 {
		w.deployment(fmt.Sprintf("web-%d", i), 2, w.podSpec("1", "1Gi", nil))
	}
	// Three nodes of two CPUs, one pod on each: the fourth would be the eighth CPU.
	w.awaitRunning(3)
	w.await(t, "a pod that says why it waits", func() bool {
		return slices.ContainsFunc(w.events("FailedScheduling"), func(e corev1.Event) bool { return strings.Contains(e.Message, "limit") })
	})
	n := 0
	for _, i := range shared.AWS().Instances() {
		if i.Tags[karpv1.NodePoolLabelKey] == "limits-exact" {
			n++
		}
	}
	if n != 3 {
		t.Errorf("%d instances were launched, want 3", n)
	}
}

// A node for each of many pods, at once: EC2's request limits are kept, and the burst finishes.
func TestBurstInsideRequestLimitsAlone(t *testing.T) {
	const n = 12
	w := newWorld(t, "burst")
	w.pool("burst", func(p *karpv1.NodePool) { onlyTypes(p, "m6i.large") })
	begin := time.Now()
	w.deployment("web", n, w.podSpec("1", "1Gi", func(s *corev1.PodSpec) {
		s.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			}},
		}}
	}))
	w.awaitRunning(n)
	checkOneInstanceEach(t, w, "burst")
	fleets := 0
	for _, c := range shared.AWS().Calls() {
		if c.AccessKey != sandbox.LauncherAccessKey || c.At.Before(begin) {
			continue
		}
		if c.Action == "CreateFleet" {
			fleets++
		}
		if c.Error == "RequestLimitExceeded" {
			t.Errorf("EC2 refused %s: too many requests", c.Action)
		}
	}
	if fleets > n/3 {
		t.Errorf("%d CreateFleet calls for %d equal nodes", fleets, n)
	}
}
