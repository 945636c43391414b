package ondemand_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/ondemand"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// pods are n pods of a ReplicaSet whose annotation is the share; none without one.
func pods(set string, from, n int, share string) []*corev1.Pod {
	var out []*corev1.Pod
	for i := from; i < from+n; i++ {
		name := fmt.Sprintf("%s-%d", set, i)
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "apps/v1", Kind: "ReplicaSet", Name: set, UID: types.UID(set), Controller: new(true),
		}}}}
		if share != "" {
			p.Annotations = map[string]string{catalog.OnDemandShareAnnotation: share}
		}
		out = append(out, p)
	}
	return out
}

// source is a plan for pending pods, all in one class, beside those that run on nodes.
func source(shares ondemand.Shares, pending []*corev1.Pod, nodes ...plan.Node) ondemand.Source {
	c, byUID := plan.Class{Key: "k", Pod: pending[0]}, map[string]*corev1.Pod{}
	for _, p := range pending {
		c.Pods = append(c.Pods, catalog.PodRefOf(p))
		byUID[string(p.UID)] = p
	}
	return ondemand.Source{
		Shares: shares, Classes: []plan.Class{c}, Nodes: nodes,
		Pod: func(ref catalog.PodRef) *corev1.Pod { return byUID[ref.UID] },
	}
}

func node(pool, capacityType string, pods ...*corev1.Pod) plan.Node {
	return plan.Node{Labels: map[string]string{"karpenter.sh/nodepool": pool, "karpenter.sh/capacity-type": capacityType}, Pods: pods}
}

// count returns how many pods of the plan may be anywhere, and how many not on spot.
func count(classes []plan.Class) (free, kept int) {
	for _, c := range classes {
		if c.OffSpot == "" {
			free += len(c.Pods)
		} else {
			kept += len(c.Pods)
		}
	}
	return free, kept
}

func TestSplit(t *testing.T) {
	for name, c := range map[string]struct {
		source     ondemand.Source
		free, kept int
	}{
		"no share":                      {source(nil, pods("web", 0, 10, "")), 10, 0},
		"a workload's own":              {source(nil, pods("web", 0, 10, "30%")), 7, 3},
		"rounded up":                    {source(nil, pods("web", 0, 10, "31%")), 6, 4},
		"a single replica":              {source(nil, pods("web", 0, 1, "1%")), 0, 1},
		"all":                           {source(nil, pods("web", 0, 10, "100%")), 0, 10},
		"none":                          {source(nil, pods("web", 0, 10, "0%")), 10, 0},
		"unreadable counts as none":     {source(nil, pods("web", 0, 10, "a third")), 10, 0},
		"a NodePool's":                  {source(ondemand.Shares{"p": 0.5}, pods("web", 0, 5, "")), 2, 3},
		"the larger holds":              {source(ondemand.Shares{"p": 0.5}, pods("web", 0, 10, "80%")), 2, 8},
		"running on demand":             {source(nil, pods("web", 0, 2, "30%"), node("p", "on-demand", pods("web", 2, 8, "30%")...)), 2, 0},
		"running on spot":               {source(nil, pods("web", 0, 2, "30%"), node("p", "spot", pods("web", 2, 8, "30%")...)), 0, 2},
		"running half":                  {source(nil, pods("web", 0, 4, "50%"), node("p", "spot", pods("web", 4, 4, "50%")...), node("p", "on-demand", pods("web", 8, 2, "50%")...)), 1, 3},
		"another NodePool's spot":       {source(ondemand.Shares{"p": 0.5}, pods("web", 0, 2, ""), node("q", "spot", pods("web", 2, 8, "")...)), 2, 0},
		"reserved is not interruptible": {source(nil, pods("web", 0, 1, "50%"), node("p", "reserved", pods("web", 1, 1, "50%")...)), 1, 0},
		"another workload's pods":       {source(nil, pods("web", 0, 2, "50%"), node("p", "on-demand", pods("db", 0, 9, "50%")...)), 1, 1},
		"capacity type unknown yet":     {source(nil, pods("web", 0, 2, "50%"), plan.Node{Labels: map[string]string{"karpenter.sh/nodepool": "p"}, Pods: pods("web", 2, 2, "50%")}), 0, 2},
		"a node of no NodePool":         {source(nil, pods("web", 0, 2, "50%"), plan.Node{Pods: pods("web", 2, 2, "50%")}), 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			classes, _ := ondemand.Split(c.source)
			if free, kept := count(classes); free != c.free || kept != c.kept {
				t.Errorf("%d pods may be on spot and %d not, want %d and %d", free, kept, c.free, c.kept)
			}
		})
	}
}

// A pod that ends counts no more, and one that moves counts once, as the worse of its two nodes.
func TestSplitCountsEachPodOnce(t *testing.T) {
	ending := pods("web", 2, 2, "50%")
	for _, p := range ending {
		p.DeletionTimestamp = &metav1.Time{}
	}
	classes, _ := ondemand.Split(source(nil, pods("web", 0, 2, "50%"), node("p", "on-demand", ending...)))
	if free, kept := count(classes); free != 1 || kept != 1 {
		t.Errorf("beside pods that end %d and %d, want 1 and 1", free, kept)
	}
	moving := pods("web", 2, 2, "50%")
	classes, _ = ondemand.Split(source(nil, pods("web", 0, 2, "50%"), node("p", "on-demand", moving...), node("p", "spot", moving...)))
	if free, kept := count(classes); free != 0 || kept != 2 {
		t.Errorf("beside pods that move to spot %d and %d, want 0 and 2", free, kept)
	}
}

// The pods that are kept off spot are as they were, and have terms of their own beside: those of a NodePool's share may use the spot nodes of other
// NodePools.
func TestSplitKeepsPodsAsTheyAre(t *testing.T) {
	pending := pods("web", 0, 2, "")
	before := pending[0].DeepCopy()
	classes, _ := ondemand.Split(source(ondemand.Shares{"p": 0.5, "q": 0.1}, pending))
	if len(classes) != 2 || classes[0].Key == classes[1].Key || classes[0].Pod == classes[1].Pod {
		t.Fatalf("classes %+v", classes)
	}
	var got []string
	for _, term := range classes[1].OffSpotTerms {
		for key, set := range term {
			got = append(got, key+" "+set.String())
		}
	}
	want := "karpenter.sh/capacity-type not in [spot]|karpenter.sh/nodepool not in [p q]"
	if strings.Join(got, "|") != want {
		t.Errorf("terms %q, want %q", got, want)
	}
	if !equality.Semantic.DeepEqual(before, classes[1].Pod) || !equality.Semantic.DeepEqual(before, pending[0]) || len(classes[0].OffSpotTerms) > 0 {
		t.Error("the pod was changed, or pods that may be on spot are kept off it")
	}
	if why := classes[1].OffSpot; why != "ReplicaSet shop/web: NodePool p's minimum on-demand share of 50% allows 1 of 2 pods on spot nodes" {
		t.Errorf("says %q", why)
	}
}

// An annotation that cannot be read is a problem of its pod, once for each workload.
func TestSplitReportsUnreadable(t *testing.T) {
	_, problems := ondemand.Split(source(nil, pods("web", 0, 3, "-5%")))
	if len(problems) != 1 || problems[0].Object != "Pod shop/web-0" || problems[0].Field != "metadata.annotations[slipway.dev/min-on-demand-share]" ||
		!strings.Contains(problems[0].Message, "a percentage from 0 to 100 is expected") {
		t.Errorf("problems %+v", problems)
	}
}

// One pod after the other, the rule never lets a workload fall below its share, and demands no more than it.
func TestRefusalKeepsShare(t *testing.T) {
	spot := map[string]string{"karpenter.sh/nodepool": "p", "karpenter.sh/capacity-type": "spot"}
	onDemand := map[string]string{"karpenter.sh/nodepool": "p", "karpenter.sh/capacity-type": "on-demand"}
	for _, share := range []float64{0.01, 0.3, 0.5, 0.99, 1} {
		shares, tally := ondemand.Shares{"p": share}, ondemand.Tally{}
		pod := pods("web", 0, 1, "")[0]
		for n := 1; n <= 100; n++ {
			if why := shares.Refusal(pod, tally, onDemand); why != "" {
				t.Fatalf("share %v refuses on-demand: %s", share, why)
			}
			if shares.Refusal(pod, tally, spot) == "" {
				tally.Add(spot)
			} else {
				tally.Add(onDemand)
			}
			kept := float64(n - tally.Spot["p"])
			if kept < share*float64(n)-1e-6 || kept >= share*float64(n)+1 {
				t.Fatalf("share %v: %v of %d pods are not on spot", share, kept, n)
			}
		}
	}
	own := pods("web", 0, 1, "50%")[0]
	if why := (ondemand.Shares{}).Refusal(own, ondemand.Tally{Pods: 3, Spot: map[string]int{"q": 2}}, spot); !strings.Contains(why, "its minimum on-demand share of 50% allows 2 of 4 pods") {
		t.Errorf("says %q", why)
	}
}
