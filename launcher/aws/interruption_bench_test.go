package aws_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/aws"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/interrupt"
	"github.com/slipway-k8s/slipway/launcher/leadership/leadershiptest"
)

// BenchmarkInterruptions drains a queue over SQS's own protocol. Each message is about another node. Four kinds occur equally often, as in
// Karpenter's benchmark: spot interruptions, scheduled changes, state changes, and messages of an unknown kind.
func BenchmarkInterruptions(b *testing.B) {
	for _, n := range []int{100, 1000, 10000} {
		b.Run(fmt.Sprintf("%dmessages", n), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				took := drainQueue(b, n)
				b.StartTimer()
				b.ReportMetric(float64(n)/took.Seconds(), "messages/s")
			}
		})
	}
}

func drainQueue(b *testing.B, n int) time.Duration {
	b.Helper()
	server := startAWS(b)
	for i := range n {
		if err := server.SendRaw(message(i)); err != nil {
			b.Fatal(err)
		}
	}
	queue := &counted{Cloud: newCloud(b, server)}
	ended := &ending{}
	subject, err := interrupt.New(interrupt.Config{
		Client: claims{}, Launching: func() bool { return false }, Queue: queue, Checker: queue, Guard: leadershiptest.Always{}, Ender: ended, Events: ended,
		Leading: func() bool { return true }, Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	start := time.Now()
	go func() { done <- subject.Run(ctx) }()
	for int(queue.deleted.Load()) < n {
		time.Sleep(5 * time.Millisecond)
	}
	took := time.Since(start)
	cancel()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
	if got := int(ended.begun.Load()); got < n*3/4 {
		b.Fatalf("%d nodes were ended, want %d", got, n*3/4)
	}
	return took
}

// counted counts the messages that are done with.
type counted struct {
	*aws.Cloud
	deleted atomic.Int64
}

func (c *counted) Delete(ctx context.Context, receipt string) error {
	err := c.Cloud.Delete(ctx, receipt)
	if err == nil {
		c.deleted.Add(1)
	}
	return err
}

// message is the i-th, about instance i.
func message(i int) string {
	source, kind, detail := "aws.ec2", "", ""
	switch id := fmt.Sprintf("i-%017x", i); i % 4 {
	case 0:
		kind, detail = "EC2 Spot Instance Interruption Warning", fmt.Sprintf(`{"instance-id":%q,"instance-action":"terminate"}`, id)
	case 1:
		source, kind = "aws.health", "AWS Health Event"
		detail = fmt.Sprintf(`{"service":"EC2","eventTypeCategory":"scheduledChange","affectedEntities":[{"entityValue":%q}]}`, id)
	case 2:
		kind, detail = "EC2 Instance State-change Notification", fmt.Sprintf(`{"instance-id":%q,"state":"stopping"}`, id)
	default:
		kind, detail = "EBS Volume Notification", `{}`
	}
	return fmt.Sprintf(`{"version":"0","id":"7bf73129-1428-4cd3-a780-95db273d1602","detail-type":%q,"source":%q,"account":"123456789012",
"time":%q,"region":"us-east-1","resources":[],"detail":%s}`, kind, source, time.Now().UTC().Format(time.RFC3339), detail)
}

// claims is an API server in which every instance has a NodeClaim with a Node.
type claims struct{ client.Client }

func (claims) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	found, ok := list.(*karpv1.NodeClaimList)
	if !ok {
		return nil // No pod is on any node.
	}
	o := (&client.ListOptions{}).ApplyOptions(opts)
	id, asked := o.FieldSelector.RequiresExactMatch(index.ClaimInstanceID)
	if !asked {
		return nil // Nothing is being launched.
	}
	claim := karpv1.NodeClaim{}
	claim.Name, claim.Status.ProviderID, claim.Status.NodeName = id, "aws:///us-east-1a/"+id, "node-of-"+id
	found.Items = []karpv1.NodeClaim{claim}
	return nil
}

func (claims) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	o.SetName(key.Name)
	return nil
}

// ending counts what is begun. Each step takes as long as an API server's answer.
type ending struct{ begun atomic.Int64 }

func (*ending) Cordon(context.Context, string, string) error {
	time.Sleep(5 * time.Millisecond)
	return nil
}

func (e *ending) Begin(context.Context, *karpv1.NodeClaim, string) error {
	time.Sleep(10 * time.Millisecond)
	e.begun.Add(1)
	return nil
}

func (e *ending) BeginNoticed(ctx context.Context, claim *karpv1.NodeClaim, reason string, _ time.Time) error {
	return e.Begin(ctx, claim, reason)
}

func (e *ending) BeginNow(ctx context.Context, claim *karpv1.NodeClaim, reason string) error {
	return e.Begin(ctx, claim, reason)
}

func (*ending) Eventf(runtime.Object, string, string, string, ...any) {}
