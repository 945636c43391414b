package walk_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/invariants"
	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/e2e/sandbox"
	"github.com/slipway-k8s/slipway/e2e/sandbox/supervise"
	"github.com/slipway-k8s/slipway/e2e/testbed"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// patience is how long a wait lasts without any effect of the processes. It is much longer than any single action, including
// a fail-over. With effects, a wait lasts for mostPatience at most.
const patience, mostPatience = 3 * time.Minute, 20 * time.Minute

// secret is in the user data of every instance.
const secret = "do-not-log-0f1e2d3c4b5a"

// scene is a test's own sandbox with one namespace and one NodePool.
type scene struct {
	*testbed.Testbed
	t testing.TB
	// consolidation is the NodePool's policy.
	consolidation karpv1.ConsolidationPolicy
}

const name = "walk"

// newScene starts a sandbox and stops it at the end of the test.
func newScene(tb testing.TB, cfg sandbox.Config) *scene {
	tb.Helper()
	ctrl.SetLogger(klog.Background())
	cfg.BinDir, cfg.Taps, cfg.RestartBackoff = testbed.BinDir("../.."), true, time.Millisecond
	s := &scene{Testbed: testbed.Start(tb, cfg), t: tb, consolidation: karpv1.ConsolidationPolicyWhenEmpty}
	s.objects()
	return s
}

// objects creates the namespace, the class and the NodePool. The NodePool has spot instances, and its nodes are removed as
// soon as they are empty.
func (s *scene) objects() {
	s.t.Helper()
	class := sandbox.NodeClass("default")
	class.Spec.UserData = new("#!/bin/bash\necho " + secret + "\n")
	// Nodes may be removed as soon as they are Ready, and pods may be moved as soon as they run.
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
		catalog.NodeAgeAnnotation: "0s", catalog.PodAgeAnnotation: "0s",
	}}}
	pool.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}
	pool.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
		{Key: karpv1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{"spot"}},
		{Key: awsv1.LabelInstanceCategory, Operator: corev1.NodeSelectorOpIn, Values: []string{"c", "m", "r"}},
		{Key: awsv1.LabelInstanceCPU, Operator: corev1.NodeSelectorOpIn, Values: []string{"2", "4"}},
	}
	pool.Spec.Disruption.ConsolidationPolicy = s.consolidation
	pool.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("1s")
	pool.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "100%"}}
	s.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, class, pool)
	s.await("the NodePool to be ready", func() error {
		if err := s.API.Get(s.t.Context(), client.ObjectKeyFromObject(pool), pool); err != nil {
			return err
		}
		if !pool.StatusConditions().Root().IsTrue() {
			return fmt.Errorf("its conditions are %+v", pool.Status.Conditions)
		}
		return nil
	})
}

// deployment creates a Deployment without pods.
func (s *scene) deployment(app string, cpu string, change func(*corev1.PodTemplateSpec)) *appsv1.Deployment {
	s.t.Helper()
	labels := map[string]string{"app": app}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: app}}
	d.Spec.Replicas = new(int32(0))
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
		TerminationGracePeriodSeconds: new(int64(1)),
		Containers: []corev1.Container{{Name: "main", Image: "registry.example/main:1", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("512Mi")},
		}}},
	}}
	if change != nil {
		change(&d.Spec.Template)
	}
	s.Create(d)
	return d
}

func (s *scene) scale(d *appsv1.Deployment, n int) {
	s.t.Helper()
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n))
	if err := s.API.Patch(s.t.Context(), d.DeepCopy(), patch); err != nil {
		s.t.Fatal(err)
	}
}

// annotate sets an annotation of an object, which may be deleted already.
func (s *scene) annotate(object client.Object, key, value string) {
	s.t.Helper()
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value))
	changed, ok := object.DeepCopyObject().(client.Object)
	if !ok {
		s.t.Fatalf("%T is no object", object)
	}
	if err := client.IgnoreNotFound(s.API.Patch(s.t.Context(), changed, patch)); err != nil {
		s.t.Fatal(err)
	}
}

// policy sets the NodePool's consolidation policy.
func (s *scene) policy(policy karpv1.ConsolidationPolicy) {
	s.t.Helper()
	if s.consolidation == policy {
		return
	}
	s.patchPool(fmt.Sprintf(`{"spec":{"disruption":{"consolidationPolicy":%q}}}`, policy))
	s.consolidation = policy
}

func (s *scene) patchPool(patch string) {
	s.t.Helper()
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := s.API.Patch(s.t.Context(), pool, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		s.t.Fatal(err)
	}
}

// running returns the number of pods of an app that run and are not terminating.
func (s *scene) running(app string) int {
	n := 0
	for _, p := range s.Recorder.Pods() {
		if p.Object.Labels["app"] == app && !p.Deleted.Seen() && !p.Terminating.Seen() && p.Object.Status.Phase == corev1.PodRunning {
			n++
		}
	}
	return n
}

// claims lists the NodeClaims that exist.
func (s *scene) claims() []observe.Claim {
	var out []observe.Claim
	for _, c := range s.Recorder.Claims() {
		if !c.Deleted.Seen() {
			out = append(out, c)
		}
	}
	return out
}

func (s *scene) nothingLeft() error {
	if claims := len(s.claims()); claims > 0 {
		return fmt.Errorf("%d NodeClaims are left", claims)
	}
	return nil
}

func (s *scene) evidence() invariants.Evidence {
	return invariants.Evidence{
		Pods: s.Recorder.Pods(), Nodes: s.Recorder.Nodes(), Claims: s.Recorder.Claims(),
		Instances: s.AWS().Instances(), Effects: s.Journal().Since(0),
	}
}

// settle waits until done returns no error and all invariants of a cluster at rest hold.
func (s *scene) settle(what string, done func() error) {
	s.t.Helper()
	s.await(what, func() error {
		if err := done(); err != nil {
			return err
		}
		if broken := invariants.Settled(s.evidence()); len(broken) > 0 {
			return errors.New(strings.Join(broken, "\n"))
		}
		return nil
	})
}

// await waits until done returns no error. If the processes have no effects any more, it ends the test with the last error.
func (s *scene) await(what string, done func() error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), mostPatience)
	defer cancel()
	var last error
	begin, seen := time.Now(), s.Journal().Last()
	moved, collected := begin, begin
	err := s.Recorder.Await(ctx, what, func() bool {
		for _, e := range s.Journal().Since(seen) {
			if seen = e.Number; counted(e) != "" {
				moved = time.Now()
			}
		}
		if time.Since(moved) > patience {
			cancel()
		}
		if time.Since(collected) > time.Second {
			collected = time.Now()
			s.collectPods()
		}
		last = done()
		return last == nil
	})
	if err == nil {
		return
	}
	s.keep()
	s.t.Fatalf("not within %s, the last effect %s ago: %s: %v", time.Since(begin).Round(time.Second), time.Since(moved).Round(time.Second), what, last)
}

// collectPods deletes terminating pods whose Node does not exist, which no kubelet can end. kube-controller-manager would do
// so only after 40 seconds.
func (s *scene) collectPods() {
	nodes := map[string]bool{}
	for _, n := range s.Recorder.Nodes() {
		nodes[n.Object.Name] = !n.Deleted.Seen()
	}
	for _, p := range s.Recorder.Pods() {
		node, o := p.Object.Spec.NodeName, p.Object
		if p.Deleted.Seen() || !p.Terminating.Seen() || node == "" || nodes[node] {
			continue
		}
		err := s.API.Delete(s.t.Context(), o, client.GracePeriodSeconds(0), client.Preconditions{UID: &o.UID})
		if client.IgnoreNotFound(err) != nil && s.t.Context().Err() == nil {
			s.t.Error(err)
		}
	}
}

// keep prints the ends of the logs, and writes all logs and effects to the folder of `go test -artifacts`.
func (s *scene) keep() {
	s.t.Helper()
	for _, process := range []string{sandbox.Scheduler, sandbox.Launcher} {
		s.t.Logf("end of the %s's log:\n%s", process, s.Tail(process, 30))
		s.dump(process)
		data, err := os.ReadFile(s.LogFile(process))
		if err == nil {
			err = os.WriteFile(filepath.Join(s.t.ArtifactDir(), process+".log"), data, 0o600)
		}
		if err != nil {
			s.t.Error(err)
		}
	}
	var b strings.Builder
	for _, e := range s.Journal().Since(0) {
		fmt.Fprintf(&b, "%d %s %s %s %s -> %d %s\n", e.Number, e.Arrived.Format("15:04:05.000"), e.Process, e.Name, e.Object, e.Status, e.Holder)
	}
	for _, c := range s.Recorder.Claims() {
		fmt.Fprintf(&b, "%s created %s, deleted %s, pods %s\n", c.Object.Name, c.Created.At.Format("15:04:05.000"), c.Deleted.At.Format("15:04:05.000"),
			c.Object.Annotations[catalog.PodsAnnotation])
	}
	if err := os.WriteFile(filepath.Join(s.t.ArtifactDir(), "effects.txt"), []byte(b.String()), 0o600); err != nil {
		s.t.Error(err)
	}
}

// dump makes a process log the stacks of its goroutines and end.
func (s *scene) dump(process string) {
	pid := s.PID(process)
	if pid == 0 || syscall.Kill(pid, syscall.SIGQUIT) != nil {
		return
	}
	for deadline := time.Now().Add(10 * time.Second); s.PID(process) == pid && time.Now().Before(deadline); {
		time.Sleep(50 * time.Millisecond)
	}
}

// kill ends a process, which may have ended already.
func (s *scene) kill(process string) {
	if err := s.Kill(process); err != nil && !errors.Is(err, supervise.ErrNotRunning) {
		s.t.Error(err)
	}
}

// checkLogs searches the output of all processes for the secret.
func (s *scene) checkLogs() {
	s.t.Helper()
	e := invariants.Evidence{Secrets: []string{secret}, Logs: map[string]string{}}
	for _, process := range []string{sandbox.Scheduler, sandbox.Launcher} {
		data, err := os.ReadFile(s.LogFile(process))
		if err != nil {
			s.t.Fatal(err)
		}
		e.Logs[process] = string(data)
	}
	for _, broken := range invariants.Always(e) {
		s.t.Error(broken)
	}
}

// instanceOf returns the instance id of a claim.
func instanceOf(c observe.Claim) string {
	id := c.Object.Status.ProviderID
	return id[strings.LastIndexByte(id, '/')+1:]
}
