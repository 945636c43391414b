package interruptions

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"sync"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/announce"
	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/interruption"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/index"
)

const (
	// period is how often NodeClaims are looked at, and writePeriod how often what was learned is written.
	period      = 10 * time.Second
	writePeriod = 10 * time.Minute
	// within bounds one round, and atFirst the read before the first one.
	within, atFirst = 30 * time.Second, 2 * time.Second
	// newsFactor is by how much a rate must have changed to be published: each publication sends the offerings to the scheduler again.
	newsFactor = 1.25
	// mostFaults bounds the Events about one version of the priors.
	mostFaults = 10
)

// Config holds the dependencies of a Recorder. Every field but Scorer is required.
type Config struct {
	// ConfigMap is its namespace and name.
	ConfigMap types.NamespacedName
	// PerPod is what an interrupted pod costs, in USD; 0 prices nothing.
	PerPod float64
	// Client reads EC2NodeClasses from the cache, and writes the ConfigMap.
	Client client.Client
	// Claims reads NodeClaims from the cache.
	Claims index.Claims
	// Reader reads the ConfigMap, from the API server.
	Reader client.Reader
	// Offers are the cloud's.
	Offers Offers
	// Leading reports whether the launcher may act: only then it observes and writes.
	Leading func() bool
	// Changed is called when expected losses have changed; it returns at once.
	Changed func()
	// Events records what is wrong with the priors.
	Events announce.EventRecorder
	// Registerer registers the metrics.
	Registerer prometheus.Registerer
	// Scorer asks EC2 for placement scores; nil asks for none.
	Scorer Scorer
}

// Offers is the part of cloud.Cloud that lists what can be launched.
type Offers interface {
	// InstanceTypes lists what can be launched from a resolved class.
	InstanceTypes(ctx context.Context, class *awsv1.EC2NodeClass) ([]catalog.InstanceType, error)
	// Changed returns a channel that is closed when InstanceTypes may return something else.
	Changed() <-chan struct{}
}

// Recorder learns rates. It is safe for concurrent use.
type Recorder struct {
	config  Config
	counted *prometheus.CounterVec

	mu sync.Mutex
	// published are the rates in use, as a record and priors of their own.
	published interruption.Record
	priors    interruption.Priors
	// version increases with each publication; priced are the lists of the version by class.
	version uint64
	priced  map[string]pricedList
	// current means that the ConfigMap was read, by InstanceTypes or by Run, since the launcher was last seen not to lead. used is its version.
	current bool
	used    string

	// The following are of Run's goroutine alone. record is nil while the launcher does not lead, written is when it was written last.
	record  *interruption.Record
	written time.Time
	// reported is the version of the ConfigMap whose faults are reported, problem why the last round failed.
	reported, problem string
	// scores are EC2's placement scores. It is asked for none until after scoreAfter, and scoreProblem is why the last question failed.
	scores       interruption.Scores
	scoreAfter   time.Time
	scoreProblem string
}

// pricedList is an answer of the cloud, and what was made of it.
type pricedList struct {
	version  uint64
	from, to []catalog.InstanceType
}

// New returns a Recorder; Run starts it.
func New(c Config) (*Recorder, error) {
	if c.ConfigMap.Name == "" || c.Client == nil || c.Claims == nil || c.Reader == nil || c.Offers == nil || c.Leading == nil || c.Changed == nil || c.Events == nil || c.Registerer == nil {
		return nil, errors.New("interruptions: ConfigMap, Client, Claims, Reader, Offers, Leading, Changed, Events and Registerer are required")
	}
	if !(c.PerPod >= 0) || math.IsInf(c.PerPod, 1) {
		return nil, fmt.Errorf("interruptions: PerPod: USD of 0 or more are expected, got %v", c.PerPod)
	}
	out := &Recorder{config: c, priced: map[string]pricedList{}, counted: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "slipway_spot_interruptions_learned_total", Help: "Interruptions of spot nodes from which rates were learned, by instance type and zone.",
	}, []string{"instance_type", "zone"})}
	if err := c.Registerer.Register(out.counted); err != nil {
		return nil, fmt.Errorf("interruptions: %w", err)
	}
	return out, nil
}

// Changed returns the cloud's channel; a publication calls Config.Changed.
func (r *Recorder) Changed() <-chan struct{} { return r.config.Offers.Changed() }

// InstanceTypes returns those of the cloud with the expected loss for each pod. It is the same list while neither has changed. The first call reads
// the ConfigMap: nothing is planned without what was learned before.
func (r *Recorder) InstanceTypes(ctx context.Context, class *awsv1.EC2NodeClass) ([]catalog.InstanceType, error) {
	list, err := r.config.Offers.InstanceTypes(ctx, class)
	if err != nil || len(list) == 0 {
		return list, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.catchUp(ctx)
	if have, ok := r.priced[class.Name]; ok && have.version == r.version && len(have.from) == len(list) && &have.from[0] == &list[0] {
		return have.to, nil
	}
	known := interruption.Known{Record: r.published, Priors: r.priors}
	out := known.Apply(list, r.config.PerPod)
	r.priced[class.Name] = pricedList{r.version, list, out}
	return out, nil
}

// catchUp reads what another replica, or this one before a restart, has learned, until Run does. Should that fail, Run tries it again.
func (r *Recorder) catchUp(ctx context.Context) {
	if r.current {
		return
	}
	r.current = true
	ctx, cancel := context.WithTimeout(ctx, atFirst)
	defer cancel()
	object, err := r.read(ctx)
	if err != nil || object.ResourceVersion == "" || object.ResourceVersion == r.used {
		return
	}
	known, _ := interruption.Read(object.Data) // Run reports what is wrong.
	if r.config.Scorer == nil {
		known.Priors.Scores = nil
	}
	r.published, r.priors, r.used = known.Record, known.Priors, object.ResourceVersion
	r.version++
}

// Run observes and writes until ctx ends.
func (r *Recorder) Run(ctx context.Context) error {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		r.round(ctx, time.Now())
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// round observes once. The log has each reason of a failure once; the record goes on at the next round.
func (r *Recorder) round(ctx context.Context, now time.Time) {
	if !r.config.Leading() {
		r.record = nil // Another replica goes on with the record.
		r.mu.Lock()
		r.current = false
		r.mu.Unlock()
		return
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	problem := ""
	if err := r.observe(ctx, now); err != nil {
		problem = err.Error()
		if problem != r.problem && !errors.Is(err, context.Canceled) {
			klog.FromContext(ctx).Error(err, "Interruptions could not be recorded; it is tried again")
		}
	}
	r.problem = problem
}

func (r *Recorder) observe(ctx context.Context, now time.Time) error {
	if r.record == nil {
		if err := r.load(ctx); err != nil {
			return err
		}
		r.written = now
	}
	if err := r.forgetClasses(ctx); err != nil {
		return err
	}
	claims, err := r.config.Claims.All(ctx)
	if err != nil {
		return fmt.Errorf("observing spot nodes: %w", err)
	}
	nodes := spotNodes(claims)
	before := r.record.Counted
	news := r.record.Observe(now, nodes)
	for _, n := range nodes {
		if n.Interrupted && !before[n.ID] {
			r.counted.WithLabelValues(n.Offering.InstanceType, n.Offering.Zone).Inc()
			klog.FromContext(ctx).V(1).Info("Learned from an interruption", "offering", n.Offering.String(), "perHour", r.record.PerHour(n.Offering, r.priors))
		}
	}
	news = r.score(ctx, now, nodes) || news
	r.publish(news)
	if !news && now.Sub(r.written) < writePeriod {
		return nil
	}
	if err := r.write(ctx); err != nil {
		return err
	}
	r.written = now
	return nil
}

// forgetClasses drops the lists of EC2NodeClasses that are gone.
func (r *Recorder) forgetClasses(ctx context.Context) error {
	classes, have := &awsv1.EC2NodeClassList{}, map[string]bool{}
	if err := r.config.Client.List(ctx, classes, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing EC2NodeClasses: %w", err)
	}
	for i := range classes.Items {
		have[classes.Items[i].Name] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.priced, func(class string, _ pricedList) bool { return !have[class] })
	return nil
}

// spotNodes returns the launched claims that EC2 may take back at short notice. They are the cache's, and only read.
func spotNodes(claims []*karpv1.NodeClaim) []interruption.Node {
	var out []interruption.Node
	for _, c := range claims {
		o := interruption.Offering{InstanceType: c.Labels[corev1.LabelInstanceTypeStable], Zone: c.Labels[corev1.LabelTopologyZone]}
		launched := conditions.Claim(c, karpv1.ConditionTypeLaunched)
		if !catalog.CapacityTypeOf(c.Labels[karpv1.CapacityTypeLabelKey]).Interruptible || c.Status.ProviderID == "" || o.InstanceType == "" || o.Zone == "" || !launched.IsTrue() {
			continue
		}
		why := conditions.Claim(c, karpv1.ConditionTypeDisruptionReason)
		out = append(out, interruption.Node{
			ID: string(c.UID), Offering: o, Since: launched.LastTransitionTime.Time,
			Interrupted: c.DeletionTimestamp != nil && why.IsTrue() && why.Reason == string(cloud.SpotInterrupted),
		})
	}
	return out
}

// publish puts what was learned into use if there was an interruption, or if a rate or how long nodes last has changed enough.
func (r *Recorder) publish(news bool) {
	r.mu.Lock()
	for _, seen := range []map[interruption.Offering]interruption.Seen{r.record.Seen, r.published.Seen} {
		for o := range seen {
			was, is := r.published.PerHour(o, r.priors), r.record.PerHour(o, r.priors)
			lasted, lasts := float64(r.published.Lasts(o)), float64(r.record.Lasts(o))
			news = news || is > was*newsFactor || was > is*newsFactor || lasts > lasted*newsFactor
		}
	}
	if news {
		priors := r.priors
		priors.Scores = r.scores
		r.publishLocked(priors)
	}
	r.mu.Unlock()
	if news {
		r.config.Changed()
	}
}

func (r *Recorder) publishLocked(priors interruption.Priors) {
	r.published, r.priors = interruption.Record{Through: r.record.Through, Seen: maps.Clone(r.record.Seen), Zones: maps.Clone(r.record.Zones)}, priors
	r.version++
	r.current = true
}

// load reads the ConfigMap. One that does not exist, or cannot be read, has learned nothing.
func (r *Recorder) load(ctx context.Context) error {
	object, err := r.read(ctx)
	if err != nil {
		return err
	}
	record, err := interruption.Decode(object.Data[interruption.LearnedKey])
	if err != nil {
		klog.FromContext(ctx).Error(err, "What was learned of interruptions cannot be read; it is learned from scratch", "configMap", r.config.ConfigMap)
	}
	r.record = &record
	r.loadScores(ctx, object)
	priors := r.priorsOf(ctx, object)
	r.mu.Lock()
	r.publishLocked(priors)
	r.mu.Unlock()
	r.config.Changed()
	return nil
}

func (r *Recorder) read(ctx context.Context) (*corev1.ConfigMap, error) {
	object := &corev1.ConfigMap{}
	err := r.config.Reader.Get(ctx, r.config.ConfigMap, object)
	if apierrors.IsNotFound(err) {
		return &corev1.ConfigMap{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading ConfigMap %s: %w", r.config.ConfigMap, err)
	}
	return object, nil
}

// priorsOf reads the user's priors, and reports each version's faults once.
func (r *Recorder) priorsOf(ctx context.Context, object *corev1.ConfigMap) interruption.Priors {
	text := object.Data[interruption.PriorsKey]
	out, faults, err := interruption.ParsePriors(text)
	if err != nil {
		faults = []error{err}
	}
	out.Scores = r.scores
	if text == r.reported {
		return out
	}
	r.reported = text
	for i, fault := range faults {
		if i == mostFaults {
			break
		}
		klog.FromContext(ctx).Error(fault, "A prior of interruptions is left out", "configMap", r.config.ConfigMap)
		r.config.Events.Eventf(object, corev1.EventTypeWarning, "InterruptionPriorLeftOut", "data[%s]: %v", interruption.PriorsKey, fault)
	}
	return out
}

// write stores what was learned beside the user's priors, which it reads again.
func (r *Recorder) write(ctx context.Context) error {
	text, err := r.record.Encode()
	if err != nil {
		return err
	}
	object, err := r.read(ctx)
	if err != nil {
		return err
	}
	if object.Data[interruption.PriorsKey] != r.reported {
		priors := r.priorsOf(ctx, object)
		r.mu.Lock()
		r.publishLocked(priors)
		r.mu.Unlock()
		r.config.Changed()
	}
	if object.Data == nil {
		object.Data = map[string]string{}
	}
	object.Data[interruption.LearnedKey] = text
	if err := r.storeScores(object.Data); err != nil {
		return err
	}
	object.Data["about"] = "How often EC2 interrupted spot nodes of this cluster, as slipway learned it. priors.yaml may have what is known of instance types before."
	if object.ResourceVersion == "" {
		object.ObjectMeta = metav1.ObjectMeta{Namespace: r.config.ConfigMap.Namespace, Name: r.config.ConfigMap.Name}
		err = r.config.Client.Create(ctx, object)
	} else {
		err = r.config.Client.Update(ctx, object)
	}
	if err != nil {
		return fmt.Errorf("writing ConfigMap %s: %w", r.config.ConfigMap, err)
	}
	return nil
}
