package buffer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	autoscalingv1beta1 "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"

	"github.com/slipway-k8s/slipway/internal/buffersize"
	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// template is what a buffer's reference names.
type template struct {
	pod corev1.PodTemplateSpec
	// name and generation are those of a PodTemplate.
	name       string
	generation int64
	// replicas are those of a workload; nil for a PodTemplate.
	replicas *int32
	// selector of the pods.
	selector *metav1.LabelSelector
}

// template reads what the buffer refers to. A Failure is the user's, an error is not.
func (c *Controller) template(ctx context.Context, cb *autoscalingv1beta1.CapacityBuffer) (template, *buffersize.Failure, error) {
	unsupported := buffersize.Unsupported(&cb.Spec)
	switch why := cb.Annotations[catalog.UnreadableAnnotation]; {
	case why != "":
		return template{}, failed("%s", why), nil
	case unsupported != "":
		return template{}, failed("spec.provisioningStrategy: %s", unsupported), nil
	case cb.Spec.PodTemplateRef != nil:
		return c.podTemplate(ctx, cb)
	case cb.Spec.ScalableRef != nil:
		return c.workload(ctx, cb)
	}
	return template{}, failed("Neither podTemplateRef nor scalableRef is set"), nil
}

func failed(format string, args ...any) *buffersize.Failure {
	return &buffersize.Failure{Reason: buffersize.ResolutionFailed, Message: fmt.Sprintf(format, args...)}
}

func (c *Controller) podTemplate(ctx context.Context, cb *autoscalingv1beta1.CapacityBuffer) (template, *buffersize.Failure, error) {
	object := &corev1.PodTemplate{}
	if why, err := c.get(ctx, cb, cb.Spec.PodTemplateRef.Name, object); why != "" || err != nil {
		return template{}, &buffersize.Failure{Reason: buffersize.PodTemplateNotFound, Message: why}, err
	}
	own := &metav1.LabelSelector{MatchLabels: object.Template.Labels}
	return template{pod: object.Template, name: object.Name, generation: object.Generation, selector: own}, nil, nil
}

func (c *Controller) workload(ctx context.Context, cb *autoscalingv1beta1.CapacityBuffer) (template, *buffersize.Failure, error) {
	ref := cb.Spec.ScalableRef
	if ref.APIGroup != "" && ref.APIGroup != appsv1.GroupName {
		return template{}, failed("unsupported scalableRef API group %q", ref.APIGroup), nil
	}
	deployment, statefulSet, replicaSet := &appsv1.Deployment{}, &appsv1.StatefulSet{}, &appsv1.ReplicaSet{}
	var object client.Object
	switch ref.Kind {
	case autoscalingv1beta1.KindDeployment:
		object = deployment
	case autoscalingv1beta1.KindStatefulSet:
		object = statefulSet
	case autoscalingv1beta1.KindReplicaSet:
		object = replicaSet
	default:
		return template{}, failed("unsupported kind %q", ref.Kind), nil
	}
	if why, err := c.get(ctx, cb, ref.Name, object); why != "" || err != nil {
		return template{}, &buffersize.Failure{Reason: buffersize.ScalableRefNotFound, Message: why}, err
	}
	out := template{pod: deployment.Spec.Template, replicas: deployment.Spec.Replicas, selector: deployment.Spec.Selector}
	switch ref.Kind {
	case autoscalingv1beta1.KindStatefulSet:
		out = template{pod: statefulSet.Spec.Template, replicas: statefulSet.Spec.Replicas, selector: statefulSet.Spec.Selector}
	case autoscalingv1beta1.KindReplicaSet:
		out = template{pod: replicaSet.Spec.Template, replicas: replicaSet.Spec.Replicas, selector: replicaSet.Spec.Selector}
	}
	if out.replicas == nil {
		out.replicas = new(int32(1)) // The API server's default.
	}
	return out, nil, nil
}

// takersOf returns which pods may take the room of a buffer; nil where any may.
func takersOf(cb *autoscalingv1beta1.CapacityBuffer, t template) (*api.Takers, *buffersize.Failure) {
	if buffersize.Strategy(&cb.Spec) == buffersize.StrategyActive {
		return nil, nil
	}
	takers, err := buffersize.TakersOf(cb, t.selector)
	if err != nil {
		return nil, failed("%v", err)
	}
	return &api.Takers{Selector: takers.Selector, Priority: takers.Priority}, nil
}

// podsOnNodes returns the pods on nodes, by namespace.
type podsOnNodes func() (map[string][]*corev1.Pod, error)

// onNodes lists the pods at the first call and has them after that, which are the cache's.
func (c *Controller) onNodes(ctx context.Context) podsOnNodes {
	return sync.OnceValues(func() (map[string][]*corev1.Pod, error) {
		all, err := c.config.Cache.Pods.All(ctx)
		if err != nil {
			return nil, err
		}
		out := map[string][]*corev1.Pod{}
		for _, p := range all {
			if p.Spec.NodeName != "" {
				out[p.Namespace] = append(out[p.Namespace], p)
			}
		}
		return out, nil
	})
}

// booking returns how far a one-shot buffer is.
func booking(cb *autoscalingv1beta1.CapacityBuffer, takers *api.Takers, onNodes podsOnNodes) (*buffersize.Booking, *buffersize.Failure, error) {
	b, err := buffersize.BookingOf(cb)
	if err != nil {
		return nil, failed("%v", err), nil
	}
	if !b.Provisioned() {
		return &b, nil, nil
	}
	matcher, err := buffersize.Takers{Selector: takers.GetSelector(), Priority: takers.Priority}.Matcher(cb.Namespace)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the selector of CapacityBuffer %s/%s: %w", cb.Namespace, cb.Name, err)
	}
	pods, err := onNodes()
	if err != nil {
		return nil, nil, err
	}
	for namespace, of := range pods {
		if takers.Priority == nil && namespace != cb.Namespace {
			continue
		}
		for _, p := range of {
			if b.Took(p) && matcher.Match(p) {
				b.Came++
			}
		}
	}
	return &b, nil, nil
}

// get reads an object of the buffer's namespace. why is set where there is none.
func (c *Controller) get(ctx context.Context, cb *autoscalingv1beta1.CapacityBuffer, name string, into client.Object) (why string, err error) {
	err = c.config.Client.Get(ctx, client.ObjectKey{Namespace: cb.Namespace, Name: name}, into)
	switch {
	case apierrors.IsNotFound(err):
		return err.Error(), nil
	case err != nil:
		return "", fmt.Errorf("getting what CapacityBuffer %s/%s refers to: %w", cb.Namespace, cb.Name, err)
	}
	return "", nil
}

// encode returns what the scheduler needs of a template.
func encode(pod corev1.PodTemplateSpec) ([]byte, *buffersize.Failure, error) {
	bare := corev1.PodTemplateSpec{Spec: pod.Spec}
	bare.Labels = pod.Labels
	text, err := bare.Marshal()
	if err == nil && len(text) > buffersize.MostTemplate {
		return nil, failed("the pod template has %d bytes, at most %d are read", len(text), buffersize.MostTemplate), nil
	}
	return text, nil, err
}

// items resolves all buffers, by namespace, oldest first. Of those beyond the limits, and of one-shot buffers that keep no room any more, nothing is read.
func (c *Controller) items(ctx context.Context, pods podsOnNodes) (map[string][]*item, error) {
	buffers, err := c.buffers(ctx)
	if err != nil {
		return nil, err
	}
	out, now := map[string][]*item{}, time.Now()
	for i := range buffers {
		if cb := &buffers[i]; cb.DeletionTimestamp == nil {
			out[cb.Namespace] = append(out[cb.Namespace], &item{stored: cb})
		}
	}
	for _, of := range out {
		slices.SortFunc(of, func(a, b *item) int {
			if by := a.stored.CreationTimestamp.Compare(b.stored.CreationTimestamp.Time); by != 0 {
				return by
			}
			return strings.Compare(a.stored.Name, b.stored.Name)
		})
		taken, older := 0, 0
		for _, it := range of {
			if it.end(now); it.settled {
				continue
			}
			if failure := buffersize.TooMany(older); failure != nil {
				it.resolution = buffersize.Resolution{Failure: failure, Limited: failure.Message}
				continue
			}
			if err := c.resolve(ctx, it, taken, pods); err != nil {
				return nil, err
			}
			taken += int(it.wanted.GetPods())
			if it.booking == nil || !it.booking.Expired(now) {
				older++
			}
		}
	}
	return out, nil
}

// end finds out whether the time of a one-shot buffer is over. Its status says so even where its template is gone.
func (it *item) end(now time.Time) {
	it.settled = buffersize.Settled(it.stored, now)
	if b, err := buffersize.BookingOf(it.stored); err == nil && b.Expired(now) && buffersize.Strategy(&it.stored.Spec) == buffersize.StrategyOneShot {
		it.booking = &b
	}
}

// resolve computes what a buffer is given, where taken are the pods of the older buffers of its namespace.
func (c *Controller) resolve(ctx context.Context, it *item, taken int, pods podsOnNodes) error {
	cb := it.stored
	t, failure, err := c.template(ctx, cb)
	if err != nil {
		return err
	}
	standby := buffersize.Strategy(&cb.Spec) == buffersize.StrategyStandby
	if failure == nil && standby {
		it.disk, failure = t.standby(cb)
	}
	spec, note := cb.Spec, ""
	if failure == nil {
		if spec, note, err = buffersize.SpecAt(cb, time.Now()); err != nil {
			failure, err = failed("%v", err), nil
		}
	}
	var text []byte
	if failure == nil {
		if text, failure, err = encode(t.pod); err != nil {
			return fmt.Errorf("encoding the pod template of CapacityBuffer %s/%s: %w", cb.Namespace, cb.Name, err)
		}
	}
	var takers *api.Takers
	if failure == nil {
		takers, failure = takersOf(cb, t)
	}
	if failure == nil && buffersize.Strategy(&cb.Spec) == buffersize.StrategyOneShot {
		it.booking, failure, err = booking(cb, takers, pods)
	}
	if failure != nil || err != nil {
		it.resolution.Failure = failure
		return err
	}
	r := buffersize.Resolution{PodTemplate: t.name, Generation: t.generation, Note: note}
	q := &api.Buffer{Name: cb.Name, Uid: string(cb.UID), Template: text, Takers: takers, Standby: standby}
	wanted := buffersize.Wanted(&spec, &t.pod.Spec, t.replicas)
	open := wanted
	if b := it.booking; b != nil {
		open, q.Whole, q.NoLaunch = b.Open(wanted, time.Now()), !b.Provisioned(), b.Provisioned()
	}
	q.Pods, r.Limited = buffersize.Grant(open, taken, it.booking != nil)
	r.Replicas = wanted - open + q.GetPods()
	it.resolution = r
	if q.GetPods() > 0 {
		it.wanted = q
	}
	return nil
}
