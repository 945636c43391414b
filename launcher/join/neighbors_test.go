package join_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/bind"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/join"
)

// spreadOut gives promised pods a topology spread over zones.
func (w *world) spreadOut(names ...string) {
	w.t.Helper()
	for _, name := range names {
		pod := &corev1.Pod{}
		if err := w.api.Get(w.t.Context(), client.ObjectKey{Namespace: "default", Name: name}, pod); err != nil {
			w.t.Fatal(err)
		}
		overZones(pod)
		if err := w.api.Update(w.t.Context(), pod); err != nil {
			w.t.Fatal(err)
		}
	}
}

// zone creates a Node in a zone of the region.
func (w *world) zone(node, letter string) {
	w.t.Helper()
	w.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, Labels: map[string]string{corev1.LabelTopologyZone: "us-east-1" + letter}}})
}

// scheduled returns a pod like the promised ones that was bound to a node some time ago.
func scheduled(name, node string, ago time.Duration) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)}, Spec: corev1.PodSpec{NodeName: node}}
	overZones(pod)
	at := metav1.NewTime(time.Now().Add(-ago))
	pod.CreationTimestamp = at
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: at}}
	return pod
}

// another creates a claim like one, for other pods, with an instance in the same zone and a Node, and returns it.
func (w *world) another(like *karpv1.NodeClaim, name string, pods ...string) *karpv1.NodeClaim {
	w.t.Helper()
	out := like.DeepCopy()
	out.ResourceVersion, out.Name, out.UID = "", name, types.UID(name)
	var refs []catalog.PodRef
	for _, pod := range pods {
		refs = append(refs, catalog.PodRef{Namespace: "default", Name: pod, UID: "uid-" + pod})
	}
	out.Annotations[catalog.PodsAnnotation] = catalog.FormatPods(refs)
	w.create(out)
	id := w.ec2.Put(cloud.Instance{InstanceType: "m7g.large", Zone: "us-east-1a", PrivateDNSName: "node-of-" + name, CapacityType: "spot"})
	out.Status = *like.Status.DeepCopy()
	out.Status.ProviderID, out.Status.NodeName = cloud.Instance{ID: id, Zone: "us-east-1a"}.ProviderID(), "node-of-"+name
	if err := w.api.Status().Update(w.t.Context(), out); err != nil {
		w.t.Fatal(err)
	}
	return out
}

// ready has the node of default-1 Ready, and looks at it.
func (w *world) ready(c *join.Controller) []string {
	w.t.Helper()
	w.looks(c, 2)
	w.kubelet("node-1", corev1.ConditionTrue)
	w.looks(c, 2)
	var out []string
	for _, line := range w.trace {
		if line, ok := strings.CutPrefix(line, "event "); ok && strings.Contains(line, "NotPreBound") {
			out = append(out, line)
		} else if strings.HasPrefix(line, "bind ") {
			out = append(out, line)
		}
	}
	slices.Sort(out)
	w.trace = nil
	return out
}

// What a claim promises in another zone counts there though it is not bound: of two pods here and one there, one newcomer here is one too many, and not two.
func TestNewcomerInTheZone(t *testing.T) {
	const refused = "web-1 NotPreBound: Left to the scheduler: pod new was bound in us-east-1a meanwhile: topology spread over topology.kubernetes.io/zone would have a skew of 2, 1 at most"
	for name, c := range map[string]struct {
		newcomer *corev1.Pod
		// promises means that the NodeClaim of its node promises it.
		promises bool
		want     []string
	}{
		"there is none":     {want: []string{"bind web-1", "bind web-2"}},
		"after the plan":    {newcomer: scheduled("new", "old-a", time.Second), want: []string{"bind web-2", refused}},
		"before the plan":   {newcomer: scheduled("new", "old-a", time.Hour), want: []string{"bind web-1", "bind web-2"}},
		"in the other zone": {newcomer: scheduled("new", "old-b", time.Second), want: []string{"bind web-1", "bind web-2"}},
		"as it is promised": {newcomer: scheduled("new", "node-of-default-3", time.Second), promises: true, want: []string{"bind web-1", "bind web-2"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			claim := w.claim(time.Minute, "web-1", "web-2")
			w.create(newScenario().slot("web-3").Pod)
			w.spreadOut("web-1", "web-2", "web-3")
			w.zone("old-a", "a")
			w.zone("old-b", "b")
			there := claim.DeepCopy()
			there.Labels[corev1.LabelTopologyZone] = "us-east-1b"
			w.another(there, "default-2", "web-3")
			if c.promises {
				w.another(claim, "default-3", "new")
				w.zone("node-of-default-3", "a")
			}
			if c.newcomer != nil {
				w.create(c.newcomer)
			}
			if got := w.ready(w.controller()); !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// A pod is bound before the status of its NodeClaim names the node. It is no newcomer meanwhile: else the pods of one plan would keep each other from their
// nodes.
func TestBoundBeforeTheNodeIsNamed(t *testing.T) {
	for _, by := range []string{"the instance", "what was sent"} {
		t.Run(by, func(t *testing.T) {
			w := newWorld(t)
			claim := w.claim(time.Minute, "web-1")
			w.spreadOut("web-1")
			w.zone("old-b", "b")
			w.zone("node-of-default-2", "a")
			beside, web2 := w.another(claim, "default-2", "web-2"), scheduled("web-2", "", 0)
			w.create(web2)
			config := w.config()
			if errs := config.Binder.All(t.Context(), []bind.Binding{{Pod: web2, Node: beside.Status.NodeName}}); errs[0] != nil {
				t.Fatal(errs[0])
			}
			node := w.node(beside.Status.NodeName)
			node.Spec.ProviderID = beside.Status.ProviderID
			beside.Status.NodeName = ""
			if by == "the instance" {
				config = w.config() // The process has started again, and has bound nothing.
			} else {
				beside.Status.ProviderID = ""
			}
			c, err := join.New(config)
			if err := errors.Join(err, w.api.Update(t.Context(), node), w.api.Status().Update(t.Context(), beside)); err != nil {
				t.Fatal(err)
			}
			if got := w.ready(c); !slices.Contains(got, "bind web-1") {
				t.Errorf("%q", got)
			}
		})
	}
}

// A cache may show that a node is initialized before another one shows that its pod was bound, or the pod before its node. The pod counts in its zone all
// the time.
func TestBoundBeforeItIsSeen(t *testing.T) {
	for _, unseen := range []string{"the binding", "the node"} {
		t.Run(unseen, func(t *testing.T) {
			w := newWorld(t)
			claim := w.claim(time.Minute, "web-1")
			pod := newScenario().slot("web-2").Pod
			w.create(pod)
			w.spreadOut("web-1", "web-2")
			w.zone("old-a", "a")
			w.zone("old-b", "b")
			w.create(scheduled("new", "old-a", time.Second))
			there := claim.DeepCopy()
			there.Labels[corev1.LabelTopologyZone] = "us-east-1b"
			there = w.another(there, "default-2", "web-2")
			there.StatusConditions().SetTrue(karpv1.ConditionTypeInitialized)
			config := w.config()
			if errs := config.Binder.All(t.Context(), []bind.Binding{{Pod: pod, Node: there.Status.NodeName}}); errs[0] != nil {
				t.Fatal(errs[0])
			}
			if err := errors.Join(w.api.Status().Update(t.Context(), there), w.api.Get(t.Context(), client.ObjectKeyFromObject(pod), pod)); err != nil {
				t.Fatal(err)
			}
			if unseen == "the binding" {
				pod.Spec.NodeName = ""
			} else {
				config = w.config()
			}
			c, err := join.New(config)
			if err := errors.Join(err, w.api.Update(t.Context(), pod)); err != nil {
				t.Fatal(err)
			}
			if got := w.ready(c); !slices.Contains(got, "bind web-1") {
				t.Errorf("%q", got)
			}
		})
	}
}

// Where topology spread counts no newcomer, no other pod of the namespace matters: none of those that wait is looked up among the promised ones.
func TestNewcomersThatDoNotCount(t *testing.T) {
	const waiting = 5
	other := scheduled("new", "old-a", time.Second)
	other.Labels = map[string]string{"app": "api"}
	for name, c := range map[string]struct {
		newcomer *corev1.Pod
		counts   bool
	}{
		"none":              {},
		"of another app":    {newcomer: other},
		"in the other zone": {newcomer: scheduled("new", "old-b", time.Second)},
		"one that counts":   {newcomer: scheduled("new", "old-a", time.Second), counts: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.claim(time.Minute, "web-1")
			w.spreadOut("web-1")
			w.zone("old-a", "a")
			w.zone("old-b", "b")
			for i := range waiting {
				w.create(scheduled(fmt.Sprint("waits-", i), "", 0))
			}
			w.create(scheduled("there", "old-b", time.Hour))
			if c.newcomer != nil {
				w.create(c.newcomer)
			}
			lookups := 0
			w.api = interceptor.NewClient(w.api, interceptor.Funcs{
				List: func(ctx context.Context, api client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
					all := (&client.ListOptions{}).ApplyOptions(opts)
					if all.FieldSelector != nil && strings.Contains(all.FieldSelector.String(), index.ClaimPromised) {
						lookups++
					}
					return api.List(ctx, list, opts...)
				},
			})
			if got := w.ready(w.controller()); !slices.Equal(got, []string{"bind web-1"}) {
				t.Errorf("%q", got)
			}
			if c.counts != (lookups >= waiting) || !c.counts && lookups > 0 {
				t.Errorf("%d lookups of %d pods that wait", lookups, waiting)
			}
		})
	}
}

// A pod that one node has left to the scheduler no longer counts in its zone: else one newcomer would have each node of the zone leave one.
func TestOneNewcomerIsOnePodTooMany(t *testing.T) {
	w := newWorld(t)
	claim := w.claim(time.Minute, "web-1")
	w.create(newScenario().slot("web-2").Pod)
	w.spreadOut("web-1", "web-2")
	w.zone("old-a", "a")
	w.zone("old-b", "b")
	w.create(scheduled("there", "old-b", time.Hour), scheduled("new", "old-a", time.Second))
	second := w.another(claim, "default-2", "web-2")
	c := w.controller()
	w.looks(c, 2)
	w.kubelet("node-1", corev1.ConditionTrue)
	w.looks(c, 1) // It is not initialized yet: what it promises may still be bound.
	if !slices.ContainsFunc(w.trace, func(line string) bool { return strings.HasPrefix(line, "event web-1 NotPreBound") }) {
		t.Errorf("the first node: %q", w.trace)
	}
	for range 2 {
		if _, err := c.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: second.Name}}); err != nil {
			t.Fatal(err)
		}
		if w.node(second.Status.NodeName) != nil {
			w.kubelet(second.Status.NodeName, corev1.ConditionTrue)
		}
	}
	if !slices.Contains(w.trace, "bind web-2") {
		t.Errorf("the second node: %q", w.trace)
	}
}

// A bound pod of another namespace keeps promised pods away by anti-affinity over zones.
func TestRepelledByAnotherNamespace(t *testing.T) {
	for zone, want := range map[string][]string{
		"a": {"web-1 NotPreBound: Left to the scheduler: the anti-affinity of pod other/lonely, which is bound, keeps it away"},
		"b": {"bind web-1"},
	} {
		w := newWorld(t)
		w.claim(time.Minute, "web-1")
		w.zone("old", zone)
		w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", Labels: map[string]string{"team": "shop"}}})
		lonely := scheduled("lonely", "old", time.Hour)
		lonely.Namespace = "other"
		lonely.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: corev1.LabelTopologyZone, LabelSelector: &metav1.LabelSelector{},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "shop"}},
		}}}}
		w.create(lonely)
		if got := w.ready(w.controller()); !slices.Equal(got, want) {
			t.Errorf("zone %s: %q, want %q", zone, got, want)
		}
	}
}

// A pod that must be beside others looks for them in the namespaces that its terms select, and at promised ones too.
func TestPartedFromItsPods(t *testing.T) {
	for name, want := range map[string]string{
		"bound elsewhere": "web-1 NotPreBound: Left to the scheduler: the pods that its affinity requires beside it are bound in us-east-1b",
		"promised here":   "bind web-1",
		"promised here, by a claim that ends too": "bind web-1",
	} {
		w := newWorld(t)
		claim := w.claim(time.Minute, "web-1")
		pod := &corev1.Pod{}
		if err := w.api.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "web-1"}, pod); err != nil {
			t.Fatal(err)
		}
		pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: corev1.LabelTopologyZone, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "shop"}},
		}}}}
		if err := w.api.Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": "shop"}}})
		w.zone("old-b", "b")
		bound, promised := scheduled("bound", "old-b", time.Hour), scheduled("promised", "", 0)
		bound.Namespace, promised.Namespace = "shop", "shop"
		w.create(bound)
		if strings.HasPrefix(name, "promised here") {
			w.create(promised)
			w.another(claim, "default-2", "promised")
		}
		if strings.HasSuffix(name, "ends too") {
			ends := w.another(claim, "default-0", "promised")
			ends.Finalizers = []string{"example.com/stays"}
			if err := errors.Join(w.api.Update(t.Context(), ends), w.api.Delete(t.Context(), ends)); err != nil {
				t.Fatal(err)
			}
		}
		if got := w.ready(w.controller()); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
