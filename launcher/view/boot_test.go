package view_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/view"
)

// booted returns a NodeClaim of a type and AMI that was launched at created, and initialized so many seconds later; never for zero.
func booted(name, instanceType, ami string, seconds int) *karpv1.NodeClaim {
	c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: after(-2), Labels: map[string]string{corev1.LabelInstanceTypeStable: instanceType}}}
	c.Status.ImageID, c.Status.ProviderID = ami, "aws:///a/i-"+name
	c.Status.Conditions = []status.Condition{{Type: karpv1.ConditionTypeLaunched, Status: metav1.ConditionTrue, LastTransitionTime: after(0)}}
	if seconds > 0 {
		c.Status.Conditions = append(c.Status.Conditions, status.Condition{Type: karpv1.ConditionTypeInitialized, Status: metav1.ConditionTrue, LastTransitionTime: after(seconds)})
	}
	return c
}

// The estimate is of the boots of the node's type and AMI, of all where those are few, and of the longer ones as time passes.
func TestEstimates(t *testing.T) {
	var claims []*karpv1.NodeClaim
	for i := range 10 {
		claims = append(claims, booted(fmt.Sprint("m", i), "m7g.large", "ami-1", 10*(i+1))) // 10 s to 100 s
	}
	claims = append(claims, booted("p", "p5.48xlarge", "ami-1", 600), booted("q", "p5.48xlarge", "ami-1", 700))
	for _, c := range []struct {
		name, instanceType, ami string
		now, half, most, boots  int
		of                      string
		late                    bool
	}{
		{"at once", "m7g.large", "ami-1", 0, 50, 90, 10, "m7g.large, ami-1", false},
		{"after 45 seconds", "m7g.large", "ami-1", 45, 70, 90, 10, "m7g.large, ami-1", false},
		{"late", "m7g.large", "ami-1", 101, 50, 90, 10, "m7g.large, ami-1", true},
		{"few of the type", "p5.48xlarge", "ami-1", 0, 60, 100, 12, "", false},
		{"another AMI", "m7g.large", "ami-2", 0, 60, 100, 12, "", false},
	} {
		one := booted("new", c.instanceType, c.ami, 0)
		in := view.Objects{NodeClaims: append(slices.Clip(claims), one), Now: after(c.now).Time}
		got := view.ReadyOf(one, in)
		want := view.Estimate{Half: after(c.half).Time, Most: after(c.most).Time, Boots: c.boots, Of: c.of, Late: c.late}
		if got == nil || *got != want {
			t.Errorf("%s: %+v, want %+v", c.name, got, want)
		}
		if row := view.New(in).Nodes[len(claims)-2]; row.Ready == nil || *row.Ready != want {
			t.Errorf("%s: the row %s has %+v", c.name, row.NodeClaim, row.Ready)
		}
	}
	for name, c := range map[string]*karpv1.NodeClaim{"ready": claims[0], "terminating": {ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: time.Now()}}}} {
		if got := view.ReadyOf(c, view.Objects{NodeClaims: claims, Now: after(5).Time}); got != nil {
			t.Errorf("%s: %+v, want none", name, got)
		}
	}
	if got := view.ReadyOf(booted("new", "a", "b", 0), view.Objects{Now: after(5).Time}); got != nil {
		t.Errorf("without boots: %+v, want none", got)
	}
}

// Status and explain say it in a line.
func TestEstimatesAreShown(t *testing.T) {
	one := booted("new", "m7g.large", "ami-1", 0)
	in := view.Objects{Now: after(5).Time, NodeClaims: []*karpv1.NodeClaim{one}}
	for i := range 3 {
		in.NodeClaims = append(in.NodeClaims, booted(fmt.Sprint("m", i), "m7g.large", "ami-1", 30+i))
	}
	var status, explained strings.Builder
	if err := view.New(in).Write(&status, view.FormatTable); err != nil || !strings.Contains(status.String(), "launched (~26s)") {
		t.Errorf("%v\n%s", err, status.String())
	}
	if err := view.ExplainNode(&explained, "new", in); err != nil || !strings.Contains(explained.String(), "ready in about 26s, at most 26s in 9 of 10 cases (3 boots known, m7g.large, ami-1)") {
		t.Errorf("%v\n%s", err, explained.String())
	}
	in.Now = after(60).Time
	status.Reset()
	if err := view.New(in).Write(&status, view.FormatTable); err != nil || !strings.Contains(status.String(), "launched (late)") {
		t.Errorf("%v\n%s", err, status.String())
	}
}
