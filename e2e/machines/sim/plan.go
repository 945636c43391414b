package sim

import (
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	v1helper "k8s.io/kubernetes/pkg/apis/core/v1/helper"

	"github.com/slipway-k8s/slipway/e2e/machines/delay"
)

// Annotations of a pod that set what its simulated containers do.
const (
	// RunForAnnotation is how long the containers run before they exit, for pods whose restartPolicy is not Always.
	RunForAnnotation = "sim.slipway.dev/run-for"
	// ExitCodeAnnotation is the exit code of containers that exit by themselves, in pods with restartPolicy Never.
	ExitCodeAnnotation = "sim.slipway.dev/exit-code"
	// StopsInAnnotation is how long the containers take to exit after SIGTERM.
	StopsInAnnotation = "sim.slipway.dev/stops-in"
	// HookTakesAnnotation is how long a preStop hook of the pod takes that asks a server or runs another program than sleep.
	HookTakesAnnotation = "sim.slipway.dev/hook-takes"
	// ImageSizeAnnotation is small, medium or large: how long the pod's images take to pull.
	ImageSizeAnnotation = "sim.slipway.dev/image-size"
	// ReportAnnotation is "true" on pods whose images and containers light machines report in Events, as other machines do for each pod.
	ReportAnnotation = "sim.slipway.dev/report-events"
)

const (
	// mountBackoff and mountBackoffMax are the volume manager's: pkg/util/goroutinemap/exponentialbackoff.
	mountBackoff    = 500 * time.Millisecond
	mountBackoffMax = 2*time.Minute + 2*time.Second
)

// containerPlan is one container's future. A zero time means never.
type containerPlan struct {
	name, image          string
	sidecar              bool
	start, ready, finish time.Time
	exitCode             int32
	// pull is when the kubelet looks for the image, and pulled when it is on the machine: the same where it was there.
	pull, pulled time.Time
}

func (c containerPlan) readyAt(now time.Time) bool { return !c.ready.IsZero() && !now.Before(c.ready) }

// podPlan is an admitted pod's future unless the pod is deleted. It follows from the times of admission and of the machine's
// network, and from the images on the machine.
type podPlan struct {
	admitted time.Time
	// mountTries counts the failed attempts to mount the pod's volumes before its network was ready (R12).
	mountTries int
	// sandbox is when the pod has its sandbox and its address.
	sandbox           time.Time
	inits, containers []containerPlan
	// missing are the extended resources that the pod requested and runs without (R1).
	missing []string
}

// planner holds what a pod's future on this machine depends on. It belongs to the machine's loop.
type planner struct {
	times        delay.Times
	source       delay.Source
	networkReady time.Time
	// disk has the machine's images.
	disk *disk
	// ahead is when the prefetch unit began to pull each image since the machine's start, free when it may begin the next ones.
	ahead map[string]time.Time
	free  []time.Time
}

// plan computes the future of a pod that is admitted now.
func (p *planner) plan(pod *corev1.Pod, now time.Time, node *corev1.Node) podPlan {
	key := pod.Namespace + "/" + pod.Name
	out := podPlan{admitted: now, missing: missingDevices(pod, node)}
	at := now
	if !pod.Spec.HostNetwork && now.Before(p.networkReady) {
		at = p.networkReady.Add(p.source.Draw(p.times.Resync, "resync", key))
		if mountsFromAPI(pod) {
			at, out.mountTries = nextMount(now, at, p.source)
		}
	}
	out.sandbox = at.Add(p.source.Draw(p.times.Sandbox, "sandbox", key))
	at = out.sandbox
	for _, c := range pod.Spec.InitContainers {
		plan := p.container(pod, c, at)
		if plan.sidecar = c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways; plan.sidecar {
			at = plan.ready
		} else {
			plan.finish = plan.start.Add(p.source.Draw(p.times.Init, "init", key, c.Name))
			at = plan.finish
		}
		out.inits = append(out.inits, plan)
	}
	for _, c := range pod.Spec.Containers {
		plan := p.container(pod, c, at)
		if runFor, ok := annotatedDuration(pod, RunForAnnotation); ok && pod.Spec.RestartPolicy != corev1.RestartPolicyAlways {
			plan.finish = plan.start.Add(p.source.Scale(runFor))
			if code, err := strconv.ParseInt(pod.Annotations[ExitCodeAnnotation], 10, 32); err == nil && pod.Spec.RestartPolicy == corev1.RestartPolicyNever {
				plan.exitCode = int32(code)
			}
		}
		if (c.ReadinessProbe != nil || c.StartupProbe != nil) && isPause(c.Image) {
			plan.ready = time.Time{}
		}
		out.containers = append(out.containers, plan)
	}
	return out
}

// nextMount returns the first attempt to mount volumes after the pod's worker has registered the pod's ConfigMaps and
// Secrets, and the number of attempts. The earlier attempts, from the pod's admission on, fail and double the delay (R12).
func nextMount(admitted, registered time.Time, source delay.Source) (time.Time, int) {
	at, tries, wait := admitted, 0, mountBackoff
	for at.Before(registered) {
		at = at.Add(source.Scale(wait))
		wait = min(2*wait, mountBackoffMax)
		tries++
	}
	return at, tries
}

// mountsFromAPI reports whether the pod has volumes that the kubelet fills from the API server.
func mountsFromAPI(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Secret != nil || v.ConfigMap != nil || v.Projected != nil
	})
}

// container computes when c runs and is ready, if from that moment only its image delays it.
func (p *planner) container(pod *corev1.Pod, c corev1.Container, from time.Time) containerPlan {
	key := pod.Namespace + "/" + pod.Name
	pulled := p.pulled(pod, c, from)
	start := pulled.Add(p.source.Draw(p.times.Container, "container", key, c.Name))
	ready := start
	for _, probe := range []*corev1.Probe{c.StartupProbe, c.ReadinessProbe} {
		if probe != nil {
			ready = ready.Add(p.source.Scale(time.Duration(probe.InitialDelaySeconds) * time.Second))
		}
	}
	return containerPlan{name: c.Name, image: c.Image, start: start, ready: ready, pull: from, pulled: pulled}
}

// isPause reports whether an image is Kubernetes' pause container, under whatever registry: nothing in it answers a probe.
func isPause(image string) bool {
	name := image[strings.LastIndex(image, "/")+1:]
	name, _, _ = strings.Cut(name, "@")
	name, _, _ = strings.Cut(name, ":")
	return name == "pause"
}

// pulled returns when the image of c is on the machine. Pulls run in parallel, and pods with the same image wait for one
// pull. How large an image is the pod says, which the prefetch unit did not know.
func (p *planner) pulled(pod *corev1.Pod, c corev1.Container, from time.Time) time.Time {
	takes := p.source.Draw(p.pullTime(pod, c.Image), "pull", c.Image)
	if begun, ok := p.ahead[c.Image]; ok && pod.Annotations[ImageSizeAnnotation] != "" {
		return later(begun.Add(takes), from)
	}
	done := from.Add(takes)
	return later(p.disk.pulled(c.Image, done), from)
}

// pullTime returns the size class of an image: the pod's annotation, else what the image's name suggests.
func (p *planner) pullTime(pod *corev1.Pod, image string) delay.Distribution {
	switch pod.Annotations[ImageSizeAnnotation] {
	case "small":
		return p.times.PullSmall
	case "medium":
		return p.times.PullMedium
	case "large":
		return p.times.PullLarge
	}
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(image, w) })
	}
	switch {
	case has("pause", "busybox", "alpine", "distroless", "agnhost"):
		return p.times.PullSmall
	case has("cuda", "pytorch", "tensorflow", "jupyter", "spark"):
		return p.times.PullLarge
	default:
		return p.times.PullMedium
	}
}

// missingDevices returns the extended resources that the pod requests and its node does not list. The kubelet admits such a
// pod, and its device manager skips resources without a plugin (R1).
func missingDevices(pod *corev1.Pod, node *corev1.Node) []string {
	var out []string
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for name, q := range c.Resources.Requests {
			if _, shown := node.Status.Allocatable[name]; v1helper.IsExtendedResourceName(name) && !shown && !q.IsZero() {
				out = append(out, string(name))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// stopping returns what the end of a pod's containers depends on, if the kubelet begins to stop them at signaled.
func (p *planner) stopping(pod *corev1.Pod, plan podPlan, signaled time.Time) stopping {
	out := stopping{pod: pod, plan: plan, source: p.source, signaled: signaled}
	if said, ok := annotatedDuration(pod, StopsInAnnotation); ok {
		out.needed = p.source.Scale(said)
	} else {
		out.needed = p.source.Draw(p.times.Stop, "stop", pod.Namespace+"/"+pod.Name)
	}
	return out
}

func annotatedDuration(pod *corev1.Pod, key string) (time.Duration, bool) {
	d, err := time.ParseDuration(pod.Annotations[key])
	return d, err == nil && d >= 0
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
