package e2e_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// A Deployment of one replica behind a Service, whose container serves for a while after its deletion was requested, as its preStop hook says.
// Whatever takes its node away, the node that was launched for it is initialized before the pod is evicted: without a Ready endpoint is the
// Service for a pod's start, and not for a node's boot as well. The hook covers the pod's start: kube-proxy uses endpoints that serve and
// terminate where none is Ready.
func TestOneReplicaServesWhileItsNodeIsReplaced(t *testing.T) {
	t.Parallel()
	const life = 30 * 24 * time.Hour
	for _, cause := range []struct {
		name string
		// hook is how long the pod serves when it is deleted.
		hook    int64
		prepare func(*karpv1.NodePool)
		// take begins to take the node away.
		take func(*world, observe.Claim)
	}{
		{name: "drift", hook: 300, prepare: func(p *karpv1.NodePool) { p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "1"}} }, take: func(w *world, _ observe.Claim) {
			w.change(func(p *karpv1.NodePool) { p.Spec.Template.Labels["example.com/generation"] = "2" })
		}},
		{name: "expiry", hook: 300, prepare: func(p *karpv1.NodePool) {
			p.Spec.Template.Spec.ExpireAfter = karpv1.MustParseNillableDuration(life.String())
			p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "0"}}
		}, take: func(w *world, old observe.Claim) { w.born(life+time.Second, old) }},
		{name: "consolidation", hook: 300, prepare: func(p *karpv1.NodePool) {
			onlyTypes(p, "m6i.4xlarge")
			p.Annotations = map[string]string{catalog.NodeAgeAnnotation: "0s", catalog.PodAgeAnnotation: "0s"}
			p.Spec.Disruption.ConsolidationPolicy = karpv1.ConsolidationPolicyWhenEmptyOrUnderutilized
			p.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("1s")
		}, take: func(w *world, _ observe.Claim) {
			w.change(func(p *karpv1.NodePool) { onlyTypes(p, "m6i.4xlarge", "m6i.large") })
		}},
		// Of the two minutes a spot instance has left, a pod that serves on for fifty seconds leaves half a minute to wait for its node.
		{name: "spot", hook: 50, prepare: smallSpot, take: func(w *world, old observe.Claim) {
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
			old := w.serving(cause.hook)
			claim := w.claimsOf(w.name)[0]
			cause.take(w, claim)
			w.await(t, "the pod to be Ready on another node", func() bool { return w.ready() == 1 && w.pod(old).Terminating.Seen() })
			w.servedOn(w.pod(old), cause.hook)
		})
	}
}

// serving creates the Deployment and its Service, and returns its pod when it is Ready.
func (w *world) serving(hook int64) observe.Pod {
	w.t.Helper()
	w.create(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "web"}, Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}},
	}})
	w.deployment("web", 1, w.podSpec("500m", "512Mi", func(s *corev1.PodSpec) {
		s.TerminationGracePeriodSeconds = new(hook + 5)
		s.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: hook}}}
	}))
	w.await(w.t, "the pod to be Ready and its node initialized", func() bool {
		claims := w.claimsOf(w.name)
		return w.ready() == 1 && len(claims) == 1 && claims[0].Initialized.Seen()
	})
	return w.pods()[0]
}

// servedOn checks the order of what happened to the pod, by the API server's own count, and logs how long the Service had no endpoint.
func (w *world) servedOn(old observe.Pod, hook int64) {
	w.t.Helper()
	var next observe.Pod
	for _, p := range w.pods() {
		if p.Object.UID != old.Object.UID && p.Ready.Seen() {
			next = p
		}
	}
	var node observe.Claim
	for _, c := range w.everClaimed(w.name) {
		if c.Object.Status.NodeName == next.Object.Spec.NodeName {
			node = c
		}
	}
	if !node.Initialized.Before(old.Terminating) {
		w.t.Errorf("pod %s was evicted before its next node %s was initialized", old.Object.Name, next.Object.Spec.NodeName)
	}
	if old.Failed.Seen() {
		w.t.Errorf("pod %s died with its node instead of being evicted", old.Object.Name)
	}
	unready := next.Ready.At.Sub(old.Terminating.At).Seconds()
	serves := float64(hook) / speed
	w.t.Logf("no Ready endpoint for %.1f s; the old pod served for %.1f s of them; the machines' delays are divided by %d", unready, min(unready, serves), speed)
	// A machine however busy starts a pod within half a minute.
	if hook >= 30*speed && next.Ready.At.After(old.Terminating.At.Add(time.Duration(hook)*time.Second/speed)) {
		w.t.Errorf("the Service had neither a Ready endpoint nor one that serves for %.1f s", unready-serves)
	}
	if err := client.IgnoreNotFound(w.client.Delete(w.t.Context(), old.Object, client.GracePeriodSeconds(0))); err != nil {
		w.t.Error(err)
	}
}
