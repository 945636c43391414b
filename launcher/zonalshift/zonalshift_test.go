package zonalshift_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
	"github.com/slipway-k8s/slipway/launcher/leadership/leadershiptest"
	"github.com/slipway-k8s/slipway/launcher/zonalshift"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// offers has an instance type in two zones, one of which may be shifted.
type offers struct {
	mu      sync.Mutex
	shifted string
	changed chan struct{}
}

// InstanceTypes implements zonalshift.Offers.
func (o *offers) InstanceTypes(context.Context, *awsv1.EC2NodeClass) ([]catalog.InstanceType, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	t := catalog.InstanceType{Name: "m7g.large"}
	for _, zone := range []string{"a", "b"} {
		of := catalog.Offering{Zone: zone, ZoneID: "id-" + zone, Available: true}
		if zone == o.shifted {
			of.Available, of.Refusal.Code = false, ec2error.ZonalShift
		}
		t.Offerings = append(t.Offerings, of)
	}
	return []catalog.InstanceType{t}, nil
}

// Changed implements zonalshift.Offers.
func (o *offers) Changed() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.changed
}

func (o *offers) shift(zone string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.shifted = zone
	close(o.changed)
	o.changed = make(chan struct{})
}

func pool(name, key string, values ...string) *karpv1.NodePool {
	p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.UID = types.UID(name)
	p.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Name: "default"}
	if key != "" {
		p.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}}
	}
	return p
}

// NodePools that may launch in the zone are told once when it is shifted and once when it is back; the others are not, nor are those of another provider.
func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		theirs, labeled := pool("theirs", ""), pool("labeled", "")
		labeled.Spec.Template.Labels = map[string]string{corev1.LabelTopologyZone: "b"}
		theirs.Spec.Template.Spec.NodeClassRef.Group = "eks.amazonaws.com"
		objects := []client.Object{
			theirs,
			&awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}},
			pool("any", ""), pool("other", "failure-domain.beta.kubernetes.io/zone", "b"), pool("by-id", awsv1.LabelTopologyZoneID, "id-a"), labeled,
		}
		market, events := &offers{changed: make(chan struct{})}, record.NewFakeRecorder(20)
		subject, err := zonalshift.New(zonalshift.Config{
			Client: fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).Build(), Offers: market, Guard: leadershiptest.Always{}, Events: events,
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- subject.Run(ctx) }()
		told := func() []string {
			time.Sleep(5 * time.Second)
			synctest.Wait()
			var out []string
			for len(events.Events) > 0 {
				out = append(out, <-events.Events)
			}
			slices.Sort(out)
			return out
		}
		active := "Warning ZonalShiftActive Zonal shift detected: offerings in zone a (id-a) are unavailable for this NodePool"
		cleared := "Normal ZonalShiftCleared Zonal shift cleared: offerings in zone a (id-a) are restored for this NodePool"
		for _, step := range []struct {
			zone string
			want []string
		}{{"", nil}, {"a", []string{active, active}}, {"a", nil}, {"", []string{cleared, cleared}}, {"", nil}} {
			market.shift(step.zone)
			if got := told(); !slices.Equal(got, step.want) {
				t.Errorf("zone %q: Events %q, want %q", step.zone, got, step.want)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestNewNeedsItsDependencies(t *testing.T) {
	if _, err := zonalshift.New(zonalshift.Config{}); err == nil {
		t.Error("no error without any dependency")
	}
}
