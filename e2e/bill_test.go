package e2e_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/aws"
	"github.com/slipway-k8s/slipway/e2e/aws/meter"
	"github.com/slipway-k8s/slipway/e2e/sandbox"
	"github.com/slipway-k8s/slipway/launcher/bill"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// bill returns the recorded bill; an empty one while nothing is recorded yet.
func (w *world) bill(by bill.By) bill.Bill {
	w.t.Helper()
	out, text := bill.Bill{}, w.slipway("bill", "--by", string(by), "--days", "2", "-o", "json")
	if err := json.Unmarshal([]byte(text), &out); text != "" && err != nil {
		w.t.Fatalf("%v in:\n%s", err, text)
	}
	return out
}

// lineOf returns the line of the name; a zero one if there is none.
func lineOf(b bill.Bill, name string) bill.Line {
	for _, l := range b.Lines {
		if l.Name == name {
			return l
		}
	}
	return bill.Line{}
}

// paidFor returns what the nodes of the test cost from their launch to a time, and until when the last one was launched.
func (w *world) paidFor(to time.Time) (usd float64, last time.Time) {
	w.t.Helper()
	for _, c := range w.claimsOf(w.name) {
		cost, ok := catalog.ParseCost(c.Object.Annotations[catalog.CostAnnotation])
		launched := c.Object.StatusConditions().Get(karpv1.ConditionTypeLaunched)
		if !ok || !launched.IsTrue() {
			w.t.Fatalf("NodeClaim %s has no cost, or is not launched", c.Object.Name)
		}
		usd += cost.Total() * to.Sub(launched.LastTransitionTime.Time).Hours()
		if launched.LastTransitionTime.After(last) {
			last = launched.LastTransitionTime.Time
		}
	}
	return usd, last
}

// Pods run for two minutes. The bill has what their nodes cost, within 0.5%, and charges it to their NodePool, namespace, workload and label; lines
// and what is charged to nobody add up to the sum.
func TestBill(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "bill")
	w.pool(w.name, func(p *karpv1.NodePool) {
		onlyTypes(p, "m6i.large")
		require(p, karpv1.CapacityTypeLabelKey, "on-demand")
	})
	w.await(t, "the record to begin", func() bool { return !w.bill(bill.ByNodePool).To.IsZero() })
	w.deployment("web", 2, w.podSpec("1200m", "1Gi", nil))
	w.awaitRunning(2)
	_, last := w.paidFor(time.Now())
	begin, of := time.Now(), bill.Bill{}
	for ; of.To.Before(last.Add(2 * time.Minute)); time.Sleep(2 * time.Second) {
		if time.Since(begin) > mostPatience {
			t.Fatalf("the bill of %s to %s has not two minutes after %s; end of the launcher's log:\n%s", of.From, of.To, last, w.Tail("launcher", 40))
		}
		of = w.bill(bill.ByNodePool)
	}
	want, _ := w.paidFor(of.To)
	line := lineOf(of, w.name)
	if math.Abs(line.Total-want) > 0.005*want {
		t.Errorf("the NodePool's bill is %.6f USD until %s, its nodes cost %.6f: %+v", line.Total, of.To, want, line)
	}
	if share := line.Requested.Total() / line.Total; share < 0.3 || share > 0.7 || math.Abs(line.Requested.Total()+line.Idle.Total()-line.Total) > 1e-6 {
		t.Errorf("%.3f of the nodes is requested: %+v", share, line)
	}

	workloads, sum := w.bill(bill.ByWorkload), 0.0
	for _, l := range workloads.Lines {
		sum += l.Total
	}
	for _, usd := range workloads.Unused {
		sum += usd
	}
	if sum += workloads.Idle.Total() + workloads.Interrupted.Total() + workloads.Fee; math.Abs(sum-workloads.Total) > 1e-6 {
		t.Errorf("the lines add up to %.6f USD, the bill is %.6f", sum, workloads.Total)
	}
	web, namespace := lineOf(workloads, w.name+"/Deployment/web"), lineOf(w.bill(bill.ByNamespace), w.name)
	if web.Total < line.Requested.Total()-1e-6 || namespace.Total < web.Total-1e-6 {
		t.Errorf("the NodePool's requested share is %+v, the workload is charged %+v, the namespace %+v", line.Requested, web, namespace)
	}
	focus := strings.Split(w.slipway("bill", "--days", "2", "-o", "focus"), "\n")
	if !strings.HasPrefix(focus[0], "BilledCost,") || !slices.ContainsFunc(focus, func(row string) bool { return strings.HasSuffix(strings.TrimSpace(row), ","+w.name+",,Deployment,web") }) {
		t.Errorf("FOCUS has no row of the workload:\n%s", strings.Join(focus[:min(len(focus), 20)], "\n"))
	}
}

// metered returns what AWS's meter has for the instances of the test, what so many seconds of them cost, and whether all have ended.
func (w *world) metered(seconds float64) (usd, slack float64, over bool) {
	lines := map[string]meter.Line{}
	now := time.Now()
	for _, l := range shared.AWS().Meter.Bill(now).Lines {
		lines[l.ID] = l
	}
	over = true
	for _, i := range shared.AWS().Instances() {
		if i.Tags[karpv1.NodePoolLabelKey] != w.name {
			continue
		}
		line := lines[i.ID]
		usd += line.Total()
		over = over && i.State == aws.StateTerminated
		if line.Hours > 0 {
			slack += line.Total() / line.Hours * seconds / 3600
		}
	}
	return usd, slack, over && usd > 0
}

// Pods come and go, and so do their nodes, with a public address and a larger volume of more IOPS. The bill is AWS's, by the meter that the
// sandbox's EC2 keeps and that shares nothing with slipway: within 0.5%, and three seconds of each instance. A condition's time is in whole seconds, which is one at
// the launch and one at the end; for the third an instance is pending, which EC2 does not bill. Over an hour three seconds are 0.1%.
func TestBillIsThatOfAWS(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "bill-meter")
	w.classOf(w.name, func(spec *awsv1.EC2NodeClassSpec) {
		spec.AssociatePublicIPAddress = new(true)
		spec.BlockDeviceMappings = []*awsv1.BlockDeviceMapping{
			{DeviceName: new("/dev/xvda"), RootVolume: true, EBS: &awsv1.BlockDevice{
				VolumeType: new("gp3"), VolumeSize: new(resource.MustParse("30Gi")), IOPS: new(int64(4000)), Throughput: new(int64(175)),
			}},
		}
	})
	w.pool(w.name, func(p *karpv1.NodePool) {
		p.Spec.Template.Spec.NodeClassRef.Name = w.name
		onlyTypes(p, "m6i.large")
		require(p, karpv1.CapacityTypeLabelKey, "on-demand")
		p.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("0s")
	})
	w.await(t, "the record to begin", func() bool { return !w.bill(bill.ByNodePool).To.IsZero() })
	web := w.deployment("web", 3, w.podSpec("1200m", "1Gi", nil))
	w.awaitRunning(3)
	time.Sleep(75 * time.Second)
	w.scale(web, 1)
	time.Sleep(30 * time.Second)
	w.scale(web, 0)
	w.await(t, "the instances to end", func() bool { _, _, over := w.metered(0); return over })
	ended := time.Now()
	want, slack, _ := w.metered(3)
	of := bill.Bill{}
	w.await(t, "the record to have all of it", func() bool { of = w.bill(bill.ByNodePool); return of.To.After(ended.Add(20 * time.Second)) })
	got := lineOf(of, w.name).Total
	t.Logf("slipway's bill is %.6f USD, AWS's %.6f: %.2f%% off; three seconds of all instances are %.6f", got, want, 100*(got/want-1), slack)
	if off := math.Abs(got - want); off > 0.005*want+slack {
		t.Errorf("slipway's bill is %.6f USD, AWS's %.6f: they differ by more than 0.5%% and %.6f", got, want, slack)
	}
}

// EC2 charges nothing for a spot instance that it takes back in its first hour: the bill gives back what the instance was charged for, also what a process of
// the launcher recorded that has ended since. Its volumes stay charged. The pod's hook takes longer than the notice, so that the launcher does not terminate it.
func TestBillOfAnInstanceTakenBackAlone(t *testing.T) {
	w := newWorld(t, "bill-taken")
	w.pool(w.name, smallSpot)
	web := w.deployment("web", 1, w.podSpec("1", "1Gi", func(s *corev1.PodSpec) {
		s.TerminationGracePeriodSeconds = new(int64(3600))
		s.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 3600}}}
	}))
	w.awaitRunning(1)
	claim := w.claimsOf(w.name)[0]
	charged := func(by bill.By, name string) bill.Parts {
		line := lineOf(w.bill(by), name)
		out := line.Requested
		for _, p := range []*bill.Parts{line.Idle, line.Interrupted} {
			if p != nil {
				out = out.Plus(*p)
			}
		}
		return out
	}
	workload := w.name + "/Deployment/web"
	w.await(t, "the instance to be in the record", func() bool { return charged(bill.ByWorkload, workload).Instance > 0 })
	before := charged(bill.ByNodePool, w.name)
	if before.Volumes <= 0 {
		t.Errorf("the NodePool is charged %+v", before)
	}
	w.kill(sandbox.Launcher)
	w.scale(web, 0)
	if err := shared.AWS().Interrupt(instanceID(claim)); err != nil {
		t.Fatal(err)
	}
	w.await(t, "EC2 to take the instance back", func() bool { return claimGone(w.cluster, claim) })
	gone := time.Now()
	w.await(t, "the record to have all of it", func() bool { return w.bill(bill.ByNodePool).To.After(gone) })
	for by, name := range map[bill.By]string{bill.ByNodePool: w.name, bill.ByWorkload: workload} {
		if after := charged(by, name); math.Abs(after.Instance) > 1e-6 || after.Volumes <= 0 {
			t.Errorf("%s is charged %+v for an instance that EC2 took back in its first hour, before that %+v", name, after, before)
		}
	}
}
