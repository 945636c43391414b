package terminate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/cloud/memory"
	"github.com/slipway-k8s/slipway/launcher/leadership/leadershiptest"
)

// guarding is a cloud that does not terminate one of its instances.
type guarding struct {
	*memory.Cloud
	protected string

	mu    sync.Mutex
	calls [][]string
}

// made returns the calls so far.
func (g *guarding) made() [][]string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.calls)
}

// Terminate implements Instances.
func (g *guarding) Terminate(ctx context.Context, ids []string) error {
	g.mu.Lock()
	g.calls = append(g.calls, ids)
	g.mu.Unlock()
	var errs []error
	var rest []string
	for _, id := range ids {
		if id == g.protected {
			errs = append(errs, &cloud.TerminationError{InstanceID: id, Err: errors.New("OperationNotPermitted: the instance may not be terminated")})
			continue
		}
		rest = append(rest, id)
	}
	return errors.Join(append(errs, g.Cloud.Terminate(ctx, rest))...)
}

// An instance that EC2 refuses to terminate holds up no others: these are terminated with one call, seen as terminated, and have no failure.
func TestRefusedInstanceHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ec2 := &guarding{Cloud: memory.New(memory.Config{TerminatedAfter: 10 * time.Second})}
		var ids []string
		for range 3 {
			ids = append(ids, ec2.Put(cloud.Instance{Zone: "us-east-1a"}))
		}
		ec2.protected = ids[1]
		e := newEnds(ec2, leadershiptest.Always{})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = e.run(ctx) }()
		claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.Now()}}
		for i, id := range ids {
			e.end(id, owner{claim: fmt.Sprint("claim-", i)}, claim)
		}
		time.Sleep(30 * time.Second)
		synctest.Wait()
		for i, id := range ids {
			why := e.failed(id)
			if gone := e.end(id, owner{claim: fmt.Sprint("claim-", i)}, claim); gone == (id == ec2.protected) || (why != "") != (id == ec2.protected) {
				t.Errorf("instance %d: terminated %v, failure %q", i, gone, why)
			}
			if id == ec2.protected && !strings.Contains(why, "OperationNotPermitted") {
				t.Errorf("the failure does not say why: %s", why)
			}
		}
		if first, last := ec2.made()[0], ec2.made()[len(ec2.made())-1]; len(first) != 3 || len(last) != 1 {
			t.Errorf("the first call is for %v, the last one for %v: want all, and then the refused one alone", first, last)
		}
		before := len(ec2.made())
		time.Sleep(10 * time.Minute)
		next := ec2.Put(cloud.Instance{Zone: "us-east-1a"})
		e.end(next, owner{claim: "next"}, claim)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if calls := ec2.made()[before:]; len(calls) > 2*20+1 {
			t.Errorf("%d calls in 20 minutes", len(calls))
		}
		for _, ids := range ec2.made()[before:] {
			if len(ids) > 1 {
				t.Errorf("one call for %v, one of which EC2 refuses", ids)
			}
		}
		cancel()
		synctest.Wait()
	})
}
