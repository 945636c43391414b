package e2e_test

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// A Deployment of one replica behind a Service. Whatever takes its node away, where a surge is possible the pod's replacement is Ready before the
// pod is evicted, so that the Service has a Ready endpoint all the time. Where none is possible, the node that was launched for it is initialized
// before: the Service has no Ready endpoint for a pod's start, and not for a node's boot as well. A preStop hook covers that: kube-proxy uses
// endpoints that serve and terminate where none is Ready.
func TestOneReplicaServesWhileItsNodeIsReplaced(t *testing.T) {
	t.Parallel()
	const life = 30 * 24 * time.Hour
	for _, cause := range []struct {
		name string
		// hook is how long the pod serves when it is deleted.
		hook int64
		// strategy is the Deployment's; empty for the default, which allows a surge.
		strategy appsv1.DeploymentStrategyType
		prepare  func(*karpv1.NodePool)
		// take begins to take the node away.
		take func(*world, observe.Claim)
	}{
		{name: "drift", prepare: oneAtATime, take: anotherLabel},
		{name: "recreate", hook: 300, strategy: appsv1.RecreateDeploymentStrategyType, prepare: oneAtATime, take: anotherLabel},
		{name: "expiry", prepare: func(p *karpv1.NodePool) {
			p.Spec.Template.Spec.ExpireAfter = karpv1.MustParseNillableDuration(life.String())
			p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "0"}}
		}, take: func(w *world, old observe.Claim) { w.born(life+time.Second, old) }},
		{name: "consolidation", prepare: func(p *karpv1.NodePool) {
			onlyTypes(p, "m6i.4xlarge")
			p.Annotations = map[string]string{catalog.NodeAgeAnnotation: "0s", catalog.PodAgeAnnotation: "0s"}
			p.Spec.Disruption.ConsolidationPolicy = karpv1.ConsolidationPolicyWhenEmptyOrUnderutilized
			p.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("1s")
		}, take: func(w *world, _ observe.Claim) {
			w.change(func(p *karpv1.NodePool) { onlyTypes(p, "m6i.4xlarge", "m6i.large") })
		}},
		// Of the two minutes a spot instance has left, a pod that serves on for ten seconds leaves more than one to wait for its node.
		{name: "spot", hook: 10, prepare: smallSpot, take: func(w *world, old observe.Claim) {
			if err := shared.AWS().SendRaw(spotWarning(instanceID(old))); err != nil {
				w.t.Fatal(err)
			}
		}},
	} {
		t.Run(cause.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "serving-"+cause.name)
			w.pool(w.name, func(p *karpv1.NodePool) {
				require(p, karpv1.CapacityTypeLabelKey, karpv1.CapacityTypeOnDemand)
				cause.prepare(p)
			})
			old := w.serving(cause.hook, cause.strategy)
			claim := w.claimsOf(w.name)[0]
			cause.take(w, claim)
			w.await(t, "the pod to be Ready on another node", func() bool { return w.ready() == 1 && w.pod(old).Terminating.Seen() })
			next := w.servedOn(w.pod(old), cause.hook)
			switch evicted := w.pod(old).Terminating; {
			case cause.strategy == "" && !next.Ready.Before(evicted):
				t.Errorf("pod %s was evicted before pod %s was Ready in its place", old.Object.Name, next.Object.Name)
			case cause.strategy != "" && !w.nodeOf(next).Initialized.Before(evicted):
				t.Errorf("pod %s was evicted before its next node %s was initialized", old.Object.Name, next.Object.Spec.NodeName)
			}
			w.end(old)
		})
	}
}

// oneAtATime lets one node be replaced at a time.
func oneAtATime(p *karpv1.NodePool) { p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "1"}} }

// anotherLabel has the nodes drift.
func anotherLabel(w *world, _ observe.Claim) {
	w.change(func(p *karpv1.NodePool) { p.Spec.Template.Labels["example.com/generation"] = "2" })
}

// serving creates the Deployment and its Service, and returns its pod when it is Ready.
func (w *world) serving(hook int64, strategy appsv1.DeploymentStrategyType) observe.Pod {
	w.t.Helper()
	w.create(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "web"}, Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}},
	}})
	web := w.deployment("web", 1, w.podSpec("500m", "512Mi", func(s *corev1.PodSpec) {
		s.TerminationGracePeriodSeconds = new(hook + 5)
		if hook > 0 {
			s.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: hook}}}
		}
	}))
	if strategy != "" {
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"strategy":{"type":%q,"rollingUpdate":null}}}`, strategy))
		if err := w.client.Patch(w.t.Context(), web, patch); err != nil {
			w.t.Fatal(err)
		}
	}
	w.await(w.t, "the pod to be Ready and its node initialized", func() bool {
		claims := w.claimsOf(w.name)
		return w.ready() == 1 && len(claims) == 1 && claims[0].Initialized.Seen()
	})
	return w.pods()[0]
}

// servedOn checks the order of what happened to the pod, by the API server's own count, logs how long the Service had no endpoint, and returns
// the pod's replacement.
func (w *world) servedOn(old observe.Pod, hook int64) observe.Pod {
	w.t.Helper()
	var next observe.Pod
	for _, p := range w.pods() {
		if p.Object.UID != old.Object.UID && p.Ready.Seen() {
			next = p
		}
	}
	if old.Failed.Seen() {
		w.t.Errorf("pod %s died with its node instead of being evicted", old.Object.Name)
	}
	unready := max(0, next.Ready.At.Sub(old.Terminating.At).Seconds())
	serves := float64(hook) / speed
	w.t.Logf("no Ready endpoint for %.1f s; the old pod served for %.1f s of them; the machines' delays are divided by %d", unready, min(unready, serves), speed)
	// A machine however busy starts a pod within half a minute.
	if hook >= 30*speed && next.Ready.At.After(old.Terminating.At.Add(time.Duration(hook)*time.Second/speed)) {
		w.t.Errorf("the Service had neither a Ready endpoint nor one that serves for %.1f s", unready-serves)
	}
	return next
}

// nodeOf returns the NodeClaim of the pod's node.
func (w *world) nodeOf(pod observe.Pod) observe.Claim {
	var node observe.Claim
	for _, c := range w.everClaimed(w.name) {
		if c.Object.Status.NodeName == pod.Object.Spec.NodeName {
			node = c
		}
	}
	return node
}

// end ends the pod at once.
func (w *world) end(pod observe.Pod) {
	w.t.Helper()
	if err := client.IgnoreNotFound(w.client.Delete(w.t.Context(), pod.Object, client.GracePeriodSeconds(0))); err != nil {
		w.t.Error(err)
	}
}
