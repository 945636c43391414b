package sleep

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/announce"
	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/internal/window"
	"github.com/slipway-k8s/slipway/launcher/leadership"
)

const (
	// period is how often namespaces are looked at.
	period = time.Second
	// settle is how long after a sleep was noticed the first pod is evicted: the scheduler must know of it as well.
	settle = 3 * time.Second
	// mostAtOnce is how many pods of one namespace are evicted in a period.
	mostAtOnce = 50
	// refusedFor is how long an eviction waits that the API server refused.
	refusedFor = 10 * time.Second
	// quietFor is how long pods are not looked at after none was to be evicted.
	quietFor = 10 * time.Second
)

// Config holds the dependencies of a Keeper. Every field is required.
type Config struct {
	// Client reads from the cache, and evicts.
	Client client.Client
	// Guard allows effects only while this replica leads.
	Guard leadership.Guard
	// Events records Events.
	Events announce.EventRecorder
	// Ours reports whether the launcher manages a claim.
	Ours func(claim *karpv1.NodeClaim) bool
	// Registerer registers the metrics.
	Registerer prometheus.Registerer
}

// Keeper evicts the pods of namespaces that sleep.
type Keeper struct {
	config Config
	// asleep is how many namespaces sleep, evicted how many pods were evicted.
	asleep  prometheus.Gauge
	evicted prometheus.Counter
	// known is what is remembered of each namespace. A restart loses nothing of it that counts. Run's goroutine owns it.
	known map[types.UID]*known
}

// known is what is remembered of one namespace.
type known struct {
	// text is the annotation that was read last, and windows are its windows.
	text    string
	windows window.Windows
	// since is when its sleep was noticed; zero while it is awake.
	since time.Time
	// span is its sleep.
	span window.Span
	// again is when its pods are looked at again, after a look that found none to evict.
	again time.Time
	// said means that its sleep was announced.
	said bool
	// refused is until when an eviction waits that was refused, by pod.
	refused map[types.UID]time.Time
}

// New returns a Keeper; Run starts it.
func New(c Config) (*Keeper, error) {
	if c.Client == nil || c.Guard == nil || c.Events == nil || c.Ours == nil || c.Registerer == nil {
		return nil, errors.New("sleep: every field of Config is required")
	}
	k := &Keeper{
		config: c, known: map[types.UID]*known{},
		asleep: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "slipway_namespaces_asleep", Help: "Namespaces that sleep; 0 while another replica leads.",
		}),
		evicted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "slipway_sleep_evictions_total", Help: "Pods that were evicted since their namespace sleeps.",
		}),
	}
	return k, errors.Join(c.Registerer.Register(k.asleep), c.Registerer.Register(k.evicted))
}

// Run looks at all namespaces every second until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	failed := func(err error) {
		klog.FromContext(ctx).Error(err, "Pods of namespaces that sleep could not be evicted, will retry")
	}
	leadership.Every(ctx, k.config.Guard, period, failed, func(ctx context.Context) error { return k.Pass(ctx, time.Now()) })
	return nil
}

// Pass looks at all namespaces once. ctx ends with leadership.
func (k *Keeper) Pass(ctx context.Context, now time.Time) error {
	namespaces := &corev1.NamespaceList{}
	if err := k.config.Client.List(ctx, namespaces, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing Namespaces: %w", err)
	}
	var errs []error
	there := map[types.UID]*known{}
	var disrupts func(string) bool
	for i := range namespaces.Items {
		namespace := &namespaces.Items[i]
		of := k.known[namespace.UID]
		if of == nil && namespace.Annotations[window.SleepAnnotation] == "" || namespace.DeletionTimestamp != nil {
			continue
		}
		if of == nil {
			of = &known{refused: map[types.UID]time.Time{}}
		}
		there[namespace.UID] = of
		if !k.look(namespace, of, now) {
			continue
		}
		if disrupts == nil {
			var err error
			if disrupts, err = k.nodes(ctx, now); err != nil {
				return err
			}
		}
		errs = append(errs, k.keep(ctx, namespace, of, disruption.Sleep{Now: now, Since: of.noticed(), Disrupts: disrupts}))
	}
	k.known = there
	asleep := 0
	for _, of := range there {
		if !of.since.IsZero() {
			asleep++
		}
	}
	k.asleep.Set(float64(asleep))
	return errors.Join(errs...)
}

// noticed is when the sleep began, or was noticed if that was later.
func (o *known) noticed() time.Time {
	if at := o.since.Add(settle); at.After(o.span.Since) {
		return at
	}
	return o.span.Since
}

// look reports whether pods of the namespace are evicted now, and announces that it sleeps no more.
func (k *Keeper) look(namespace *corev1.Namespace, of *known, now time.Time) bool {
	if text := namespace.Annotations[window.SleepAnnotation]; text != of.text {
		windows, err := window.ReadSleep(namespace.Name, namespace.Annotations)
		switch {
		case err != nil && len(windows) > 0:
			k.config.Events.Eventf(namespace, corev1.EventTypeWarning, "SleepUnreadable", "The namespace sleeps in its other windows alone: %v", err)
		case err != nil:
			k.config.Events.Eventf(namespace, corev1.EventTypeWarning, "SleepUnreadable", "The namespace does not sleep: %v", err)
		}
		of.text, of.windows = text, windows
	}
	span, asleep := of.windows.Span(now)
	if !asleep {
		if of.said {
			k.config.Events.Eventf(namespace, corev1.EventTypeNormal, "NamespaceAwake", "Its pods are scheduled")
		}
		of.since, of.again, of.said = time.Time{}, time.Time{}, false
		clear(of.refused)
		return false
	}
	if of.span = span; of.since.IsZero() {
		of.since = now
	}
	return now.Sub(of.since) >= settle && !now.Before(of.again) && span.Evicts(now)
}

// keep evicts pods of a namespace that sleeps.
func (k *Keeper) keep(ctx context.Context, namespace *corev1.Namespace, of *known, f disruption.Sleep) error {
	list := &corev1.PodList{}
	if err := k.config.Client.List(ctx, list, client.InNamespace(namespace.Name), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing pods of Namespace %s: %w", namespace.Name, err)
	}
	for i := range list.Items {
		f.Pods = append(f.Pods, &list.Items[i])
	}
	plan := disruption.FallAsleep(f)
	if !of.said {
		of.said = true
		k.config.Events.Eventf(namespace, corev1.EventTypeNormal, "NamespaceAsleep", "It sleeps until %s: %s", of.span.Until.UTC().Format(time.RFC3339), plan)
		klog.FromContext(ctx).Info("A namespace sleeps", "namespace", namespace.Name, "until", of.span.Until, "evicted", len(plan.Evict), "plan", plan.String())
	}
	if len(plan.Evict) == 0 {
		of.again = f.Now.Add(quietFor)
	}
	var errs []error
	most := mostAtOnce
	for _, pod := range plan.Evict {
		if f.Now.Before(of.refused[pod.UID]) {
			continue
		}
		if most--; most < 0 {
			break
		}
		errs = append(errs, k.evict(ctx, namespace, of, pod, f.Now))
	}
	return errors.Join(errs...)
}

// evict asks the API server to evict one pod. A refusal is not an error: the eviction is tried again.
func (k *Keeper) evict(ctx context.Context, namespace *corev1.Namespace, of *known, pod *corev1.Pod, now time.Time) error {
	err := k.config.Client.SubResource("eviction").Create(ctx, pod.DeepCopy(), &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}},
	})
	switch {
	case err == nil:
		k.evicted.Inc()
		klog.FromContext(ctx).V(2).Info("Evicted a pod of a namespace that sleeps", "pod", klog.KObj(pod), "node", pod.Spec.NodeName)
		k.config.Events.Eventf(pod, corev1.EventTypeNormal, "Evicted", "Evicted pod: namespace %s sleeps until %s", pod.Namespace, of.span.Until.UTC().Format(time.RFC3339))
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // Deleted, or another pod of that name.
	case apierrors.IsTooManyRequests(err), apierrors.IsInternalError(err): // One budget keeps it, or several do.
		if _, again := of.refused[pod.UID]; !again {
			k.config.Events.Eventf(namespace, corev1.EventTypeWarning, "SleepDelayed", "Pod %s runs on, its eviction is tried again: %v", pod.Name, err)
		}
		of.refused[pod.UID] = now.Add(refusedFor)
	default:
		return fmt.Errorf("evicting pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// nodes returns which nodes slipway may disrupt: its own, of NodePools that are not paused, without do-not-disrupt.
func (k *Keeper) nodes(ctx context.Context, now time.Time) (func(string) bool, error) {
	pools := &karpv1.NodePoolList{}
	if err := k.config.Client.List(ctx, pools, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing NodePools: %w", err)
	}
	paused := map[string]bool{}
	for i := range pools.Items {
		paused[pools.Items[i].Name] = disruption.Paused(&pools.Items[i])
	}
	claims := &karpv1.NodeClaimList{}
	if err := k.config.Client.List(ctx, claims, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing NodeClaims: %w", err)
	}
	nodes := &corev1.NodeList{}
	if err := k.config.Client.List(ctx, nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Nodes: %w", err)
	}
	out, protected := map[string]bool{}, map[string]bool{}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		protected[node.Name] = disruption.ProtectionOfNode(node.Annotations, node.CreationTimestamp.Time, now).Active
	}
	for i := range claims.Items {
		claim := &claims.Items[i]
		if name := claim.Status.NodeName; name != "" && k.config.Ours(claim) && !paused[claim.Labels[karpv1.NodePoolLabelKey]] {
			out[name] = !protected[name]
		}
	}
	return func(node string) bool { return out[node] }, nil
}
