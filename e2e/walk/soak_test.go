package walk_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/aws"
	"github.com/slipway-k8s/slipway/e2e/invariants"
	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/e2e/sandbox"
)

// soak is a run of random disturbances.
type soak struct {
	*scene
	random *rand.Rand
	// apps are the scaled Deployments. The pods of the last one have do-not-disrupt.
	apps []*appsv1.Deployment
	// replicas are the numbers to which the apps are scaled.
	replicas []int
	// done counts the disturbances by name; troubles is their number.
	done     map[string]int
	troubles int
}

// trouble is one kind of disturbance; weight is how often it occurs in relation to others.
type trouble struct {
	name   string
	weight int
	// kills is true where it ends processes, whose figures then start from zero.
	kills bool
	do    func(*soak)
}

func troubles() []trouble {
	return []trouble{
		{"scale", 30, false, (*soak).scaleOne},
		{"delete a pod", 6, false, (*soak).deletePod},
		{"delete a node", 4, false, (*soak).deleteNode},
		{"delete a NodeClaim", 3, false, (*soak).deleteClaim},
		{"no capacity", 6, false, (*soak).ice},
		{"throttle", 3, false, func(s *soak) { s.AWS().Throttle(s.upTo(2 * time.Second)) }},
		{"AWS down", 2, false, func(s *soak) { s.AWS().Down(s.upTo(2 * time.Second)) }},
		{"interrupt", 5, false, func(s *soak) { _, _ = s.AWS().InterruptOne() }}, // There may be none to interrupt.
		{"no join", 3, false, func(s *soak) { s.AWS().FailNextJoins(1) }},
		{"drift", 3, false, (*soak).drift},
		{"consolidate", 2, false, func(s *soak) { s.policy(karpv1.ConsolidationPolicyWhenEmptyOrUnderutilized) }},
		{"consolidate no more", 2, false, func(s *soak) { s.policy(karpv1.ConsolidationPolicyWhenEmpty) }},
		{"terminate an instance", 2, false, (*soak).terminate},
		{"cut off", 2, true, func(s *soak) { (&stage{scene: s.scene}).stop(stop{cut: true}) }},
		{"kill the launcher", 3, true, func(s *soak) { s.kill(sandbox.Launcher) }},
		{"kill the scheduler", 3, true, func(s *soak) { s.kill(sandbox.Scheduler) }},
		{"kill both", 2, true, func(s *soak) { s.kill(sandbox.Scheduler); s.kill(sandbox.Launcher) }},
	}
}

// BenchmarkSoak makes random disturbances for a while, and checks the invariants all the time. The first half also kills
// processes. In the second half they live, and must not grow.
func BenchmarkSoak(b *testing.B) {
	seed, long := argument[uint64]("soak.seed"), argument[time.Duration]("soak")
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	b.Logf("seed %d: to do the same again: make soak SEED=%d DURATION=%s", seed, seed, long)
	s := newSoak(b, seed)
	start := s.figures()
	half := s.stretch(long/2, true)
	later := s.stretch(long/4, false)
	for process, end := range s.stretch(long/4, false) {
		b.Logf("%s: at the start %s; after the kills %s; between %s; at the end %s", process, start[process], half[process], later[process], end)
		end.check(b, process, half[process])
		b.ReportMetric(end.goroutines, process+"-goroutines")
		b.ReportMetric(end.heapMB, process+"-heap-MB")
	}
	s.checkLogs()
	b.Logf("%d troubles: %v; %d pods, %d NodeClaims, %d instances, %d effects", s.troubles, s.done,
		len(s.Recorder.Pods()), len(s.Recorder.Claims()), len(s.AWS().Instances()), s.Journal().Last())
}

func newSoak(tb testing.TB, seed uint64) *soak {
	tb.Helper()
	cfg := walkSandbox()
	cfg.Seed = seed
	s := &soak{
		scene:  newScene(tb, cfg),
		random: rand.New(rand.NewPCG(seed, 0)), done: map[string]int{},
	}
	s.Create(&policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "small"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: &intstr.IntOrString{IntVal: 2},
			Selector:       &metav1.LabelSelector{MatchLabels: map[string]string{"app": "small"}},
		},
	})
	s.apps = []*appsv1.Deployment{
		s.deployment("small", "200m", nil),
		s.deployment("large", "1500m", nil),
		s.deployment("apart", "300m", func(p *corev1.PodTemplateSpec) {
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
				LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
			}}
		}),
		s.deployment("protected", "700m", func(p *corev1.PodTemplateSpec) {
			p.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
		}),
	}
	s.replicas = make([]int, len(s.apps))
	return s
}

func (s *soak) upTo(d time.Duration) time.Duration {
	return time.Duration(1 + s.random.Int64N(int64(d)))
}

// trouble makes disturbances for a while.
func (s *soak) trouble(length time.Duration, kills bool) {
	s.t.Helper()
	all, sum := troubles(), 0
	for _, tr := range all {
		sum += tr.weight
	}
	looked := time.Now()
	for end := time.Now().Add(length); time.Now().Before(end); {
		n := s.random.IntN(sum)
		for _, tr := range all {
			if n -= tr.weight; n >= 0 {
				continue
			}
			if kills || !tr.kills {
				tr.do(s)
				s.done[tr.name]++
				s.troubles++
			}
			break
		}
		time.Sleep(s.upTo(2 * time.Second))
		if time.Since(looked) > 5*time.Second {
			looked = time.Now()
			s.look()
		}
	}
	s.look()
}

// look ends the test if an invariant is violated.
func (s *soak) look() {
	s.t.Helper()
	if broken := invariants.Always(s.evidence()); len(broken) > 0 {
		s.keep()
		s.t.Fatalf("after %d troubles (%v):\n%s", s.troubles, s.done, strings.Join(broken, "\n"))
	}
}

// stretch makes disturbances for a while, waits until the cluster is at rest, and returns the processes' figures.
func (s *soak) stretch(length time.Duration, kills bool) map[string]figures {
	s.t.Helper()
	s.trouble(length, kills)
	s.calm(4)
	s.calm(0)
	return s.figures()
}

// calm ends all disturbances and waits until n pods of each app are at rest. The app with do-not-disrupt gets none, since
// its pods would block deleted nodes.
func (s *soak) calm(n int) {
	s.t.Helper()
	s.AWS().ClearICE()
	s.AWS().FailNextJoins(0)
	protected := len(s.apps) - 1
	for i, app := range s.apps {
		s.replicas[i] = n
		if i == protected {
			s.replicas[i] = 0
		}
		s.scale(app, s.replicas[i])
	}
	s.settle("all to be at rest", func() error {
		for i, app := range s.apps {
			if err := s.runs(app.Name, s.replicas[i]); err != nil {
				return err
			}
		}
		if n == 0 {
			return s.nothingLeft()
		}
		return nil
	})
}

// figures returns the figures at rest, after a garbage collection, which happens every two minutes at least.
func (s *soak) figures() map[string]figures {
	s.t.Helper()
	out, now := map[string]figures{}, float64(time.Now().Unix())
	for _, process := range []string{sandbox.Scheduler, sandbox.Launcher} {
		err := wait.PollUntilContextTimeout(s.t.Context(), time.Second, patience, true, func(context.Context) (bool, error) {
			f, err := s.figuresOf(process)
			out[process] = f
			return f.collected > now, err
		})
		if err != nil {
			s.t.Fatalf("figures of the %s after a collection: %v", process, err)
		}
	}
	return out
}

func (s *soak) scaleOne() {
	i := s.random.IntN(len(s.apps))
	s.replicas[i] = s.random.IntN(12)
	s.scale(s.apps[i], s.replicas[i])
}

func (s *soak) deletePod() {
	var pods []observe.Pod
	for _, p := range s.Recorder.Pods() {
		if p.Object.Namespace == name && !p.Deleted.Seen() && !p.Terminating.Seen() {
			pods = append(pods, p)
		}
	}
	if len(pods) > 0 {
		s.delete(pods[s.random.IntN(len(pods))].Object)
	}
}

// pick returns a NodeClaim that is not being deleted, or nil.
func (s *soak) pick() *observe.Claim {
	var staying []observe.Claim
	for _, c := range s.claims() {
		if !c.Terminating.Seen() {
			staying = append(staying, c)
		}
	}
	if len(staying) == 0 {
		return nil
	}
	return &staying[s.random.IntN(len(staying))]
}

func (s *soak) deleteClaim() {
	if c := s.pick(); c != nil {
		s.delete(c.Object)
	}
}

// drift makes a node differ from what its NodePool asks for.
func (s *soak) drift() {
	if c := s.pick(); c != nil {
		s.annotate(c.Object, karpv1.NodePoolHashAnnotationKey, "another")
	}
}

func (s *soak) deleteNode() {
	c := s.pick()
	if c == nil {
		return
	}
	for _, n := range s.Recorder.Nodes() {
		if n.Object.Name == c.Object.Status.NodeName && !n.Deleted.Seen() {
			s.delete(n.Object)
		}
	}
}

// delete deletes an object, which may be deleted already.
func (s *soak) delete(object client.Object) {
	if err := client.IgnoreNotFound(s.API.Delete(s.t.Context(), object)); err != nil {
		s.t.Error(err)
	}
}

func (s *soak) ice() {
	zones := []string{"us-east-1a", "us-east-1b", "us-east-1c", "all"}
	kinds := []string{"c7i-flex.large", "m7g.large", "m6i.xlarge", "all"}
	zone, kind := zones[s.random.IntN(len(zones))], kinds[s.random.IntN(len(kinds))]
	s.AWS().ICE(kind, zone, aws.Spot, s.upTo(5*time.Second))
}

func (s *soak) terminate() {
	if c := s.pick(); c != nil && c.Launched.Seen() {
		_ = s.AWS().Terminate(instanceOf(*c)) // It may be on its way out.
	}
}
