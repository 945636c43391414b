package kubelets_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-k8s/slipway/e2e/kubelets/figures"
	"github.com/slipway-k8s/slipway/e2e/machines/kubelet"
	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// attempt is one kubelet's start with the pods of one way.
type attempt struct {
	*world
	cell
	how way
	// name begins the names of its pods.
	name string
	// release lets its machine go.
	release func()
	// claim and node are there once the machine waits to be let go.
	claim observe.Claim
	node  string
}

// round is all ways of a cell, measured once.
type round struct {
	attempts []*attempt
	// cleared is closed once the machines that were started last are gone, err says which are not.
	cleared chan struct{}
	err     error
}

// noRound has nothing to clear.
func noRound() *round {
	r := &round{cleared: make(chan struct{})}
	close(r.cleared)
	return r
}

// measure has the kubelets of all ways start, so many at the same moment, and returns how long each took until its pods ran. The
// machines are made ready together: whatever can be there before a kubelet is when they start. Each waits without one until those
// before it, also of the round before, are gone.
func (w *world) measure(c cell, ways []way, beside int, before *round) (*round, []figures.Figure, error) {
	w.t.Helper()
	w.starts++
	r := noRound()
	defer func() {
		for _, a := range r.attempts {
			a.release()
		}
	}()
	for _, how := range ways {
		a := &attempt{world: w, cell: c, how: how, name: fmt.Sprintf("s%d-%s", w.starts, how.label()), release: w.HoldMachines(w.poolOf(how))}
		a.create()
		r.attempts = append(r.attempts, a)
	}
	for _, a := range r.attempts {
		if err := a.ready(); err != nil {
			return r, nil, err
		}
	}
	var out []figures.Figure
	for group := range slices.Chunk(r.attempts, beside) {
		if <-before.cleared; before.err != nil {
			return r, nil, before.err
		}
		if <-r.cleared; r.err != nil {
			return r, nil, r.err
		}
		w.recorder.Forget()
		for _, a := range group {
			a.release()
		}
		for _, a := range group {
			took, err := a.took()
			if err != nil {
				return r, nil, err
			}
			out = append(out, figures.Figure{Cell: c.String(), Way: a.how.name, Seconds: took.Seconds()})
		}
		r.clear(group)
	}
	return r, out, nil
}

// clear pulls the plugs of machines and removes what was on them, beside what comes next. Their nodes take no pods from the moment it
// returns: those of the next round would fit.
func (r *round) clear(attempts []*attempt) {
	cleared := make(chan struct{})
	r.cleared = cleared
	for _, a := range attempts {
		r.err = errors.Join(r.err, a.cordon())
	}
	go func() {
		defer close(cleared)
		for _, a := range attempts {
			r.err = errors.Join(r.err, a.clear())
		}
	}()
}

// create creates the pods.
func (a *attempt) create() {
	// Together they fill a node of four cores.
	spec := a.spec(fmt.Sprintf("%dm", 3400/a.cell.pods), 0, func(p *corev1.PodSpec) {
		p.Containers[0].Image = fmt.Sprintf("example.com/%s/%s:1", a.world.name, a.image)
		p.NodeSelector[wayKey] = a.how.label()
		p.TerminationGracePeriodSeconds = new(int64(1))
	})
	switch a.how.bound {
	case "auto":
		a.deployment(a.name, int32(a.cell.pods), spec)
	case "scheduler":
		a.alone(spec)
	case "launch":
		// A node is launched for a pod of its own.
		seed := *spec.DeepCopy()
		seed.Containers[0].Image = "example.com/seed:1"
		a.deployment(a.seed(), 1, seed)
		spec.SchedulerName = "nobody"
		spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(1, resource.DecimalSI)
		a.alone(spec)
	}
}

// alone creates pods without a controller.
func (a *attempt) alone(spec corev1.PodSpec) {
	for i := range a.cell.pods {
		meta := metav1.ObjectMeta{Namespace: a.world.name, Name: fmt.Sprintf("%s-%d", a.name, i)}
		a.world.create(&corev1.Pod{ObjectMeta: meta, Spec: *spec.DeepCopy()})
	}
}

func (a *attempt) seed() string { return "seed-" + a.name }

// mine are the pods whose start is measured.
func (a *attempt) mine() []observe.Pod { return a.world.pods(a.name + "-") }

// ready waits until the machine waits to be let go, and all is there that comes before its kubelet: bindings of pods that are bound at
// launch, the list of images for those that prefetch.
func (a *attempt) ready() error {
	err := a.until("a Node and the pods of "+a.name, func() bool {
		claims := a.claims(a.poolOf(a.how))
		if len(claims) == 0 {
			return false
		}
		a.claim = claims[len(claims)-1]
		a.node = a.claim.Object.Status.NodeName
		return a.node != "" && a.world.node(a.node) != nil && len(a.mine()) == a.cell.pods
	})
	if err != nil {
		return err
	}
	if a.how.bound == "launch" {
		for _, p := range a.mine() {
			binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: a.node}}
			if err := a.client.SubResource("binding").Create(a.t.Context(), p.Object, binding); err != nil {
				return err
			}
		}
	}
	prefetches := a.image != "main" && !a.how.off && a.how.bound != "launch"
	return a.until("the machine of "+a.name, func() bool {
		if prefetches && a.world.node(a.node).Object.Annotations[catalog.PrefetchAnnotation] == "" {
			return false
		}
		_, err := os.Stat(a.file(kubelet.WaitingFile))
		return err == nil
	})
}

// until asks every quarter of a second, since looking at every change costs what the machines need.
func (a *attempt) until(what string, done func() bool) error {
	err := wait.PollUntilContextTimeout(a.t.Context(), 250*time.Millisecond, benchPatience, true, func(context.Context) (bool, error) {
		return done(), nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w", what, err)
	}
	return nil
}

// file is one of the machine'a.
func (a *attempt) file(name string) string {
	return filepath.Join(a.Folder(), "machines", a.instance(), name)
}

// instance is the id of the machine's instance.
func (a *attempt) instance() string {
	id := a.claim.Object.Status.ProviderID
	return id[strings.LastIndexByte(id, '/')+1:]
}

// took waits until all pods run, and returns how long after the kubelet's start that was. When a pod ran is recorded.
func (a *attempt) took() (time.Duration, error) {
	err := a.until("the pods of "+a.name+" to run", func() bool {
		waiting := slices.ContainsFunc(a.mine(), func(p observe.Pod) bool { return !p.Running.Seen() })
		return !waiting && len(a.mine()) == a.cell.pods
	})
	if err != nil {
		return 0, err
	}
	var last time.Time
	for _, p := range a.mine() {
		if p.Object.Spec.NodeName != a.node {
			return 0, fmt.Errorf("pod %s runs on node %s, not %s", p.Object.Name, p.Object.Spec.NodeName, a.node)
		}
		if p.Running.At.After(last) {
			last = p.Running.At
		}
	}
	started, err := os.Stat(a.file(kubelet.StartedFile))
	if err != nil {
		return 0, err
	}
	return last.Sub(started.ModTime()), nil
}

// cordon cordons the node, and waits until those who watch nodes know.
func (a *attempt) cordon() error {
	seen := a.world.node(a.node)
	if seen == nil {
		return nil
	}
	node := seen.Object.DeepCopy()
	node.Spec.Unschedulable = true
	if err := a.client.Patch(a.t.Context(), node, client.MergeFrom(seen.Object)); err != nil {
		return client.IgnoreNotFound(err)
	}
	return a.until("the node of "+a.name+" to be cordoned", func() bool {
		seen := a.world.node(a.node)
		return seen == nil || seen.Object.Spec.Unschedulable
	})
}

// clear removes the pods and pulls the machine's plug, and waits until the machine is gone. The pods go first: those of a Deployment
// would be replaced, and another machine launched for them.
func (a *attempt) clear() error {
	var errs []error
	remove := func(obj client.Object, options ...client.DeleteOption) {
		errs = append(errs, client.IgnoreNotFound(a.client.Delete(a.t.Context(), obj, options...)))
	}
	for _, name := range []string{a.name, a.seed()} {
		remove(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: a.world.name, Name: name}}, client.PropagationPolicy(metav1.DeletePropagationForeground))
	}
	orphans := a.how.bound != "auto"
	errs = append(errs, a.until("the pods of "+a.name+" to be gone", func() bool {
		left := false
		for _, p := range append(a.mine(), a.world.pods(a.seed()+"-")...) {
			if p.Deleted.Seen() {
				continue
			}
			left = true
			// What belongs to a Deployment would be replaced before that goes.
			if p.Terminating.Seen() || orphans && metav1.GetControllerOf(p.Object) == nil {
				remove(p.Object.DeepCopy(), client.GracePeriodSeconds(0))
			}
		}
		return !left
	}))
	errs = append(errs, a.AWS().Terminate(a.instance()))
	remove(a.claim.Object.DeepCopy())
	// What the launcher then does to bury it is little.
	errs = append(errs, a.until("the machine of "+a.name+" to be gone", func() bool {
		_, err := os.Stat(a.file("."))
		return errors.Is(err, fs.ErrNotExist)
	}))
	return errors.Join(errs...)
}
