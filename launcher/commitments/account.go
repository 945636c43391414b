package commitments

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/launcher/catalog/commitment"
)

// Account is the commitments of an AWS account.
type Account interface {
	// Commitments returns those that may pay for nodes, and those that are left out because of what AWS returned about them. The caller does not
	// change them.
	Commitments(ctx context.Context) ([]commitment.Commitment, []commitment.Fault, error)
}

const (
	// accountPeriod is how often AWS is asked, and accountAgain how soon after it could not be.
	accountPeriod = time.Hour
	accountAgain  = time.Minute
	// accountWithin bounds one reading of AWS.
	accountWithin = 5 * time.Minute
	// mostAccount bounds the commitments of an account.
	mostAccount = 1000
)

// followAccount reads AWS until ctx ends.
func (c *Commitments) followAccount(ctx context.Context) {
	for {
		wait := accountPeriod
		if !c.readAccount(ctx) {
			wait = accountAgain
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// readAccount reads AWS once. If it cannot be read, what it returned last stays in use.
func (c *Commitments) readAccount(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, accountWithin)
	defer cancel()
	list, faults, err := c.config.Account.Commitments(ctx)
	if len(list) > mostAccount {
		faults = append(faults, commitment.Fault{Entry: "account", Message: "it has more than 1000 commitments, the first 1000 by ID are used"})
		slices.SortFunc(list, func(a, b commitment.Commitment) int { return strings.Compare(a.ID, b.ID) })
		list = list[:mostAccount]
	}
	if errors.Is(err, context.Canceled) {
		return false
	}
	leading := c.config.Leading()
	if err != nil {
		c.failAccount(ctx, err, leading)
		return false
	}
	c.mu.Lock()
	c.account, c.accountProblem, c.accountReported = list, "", ""
	c.answers++
	c.mu.Unlock()
	select {
	case c.answered <- struct{}{}:
	default: // The refresh that is due sees this answer.
	}
	klog.FromContext(ctx).V(2).Info("Commitments of the AWS account were read", "commitments", len(list), "leftOut", len(faults))
	if leading {
		c.leaveOut(ctx, c.object(), faults)
	}
	return true
}

// failAccount records why AWS cannot be read. The log has each reason once, and the leader records one Event of it.
func (c *Commitments) failAccount(ctx context.Context, err error, leading bool) {
	problem := err.Error()
	c.mu.Lock()
	logged, reported := c.accountProblem == problem, c.accountReported == problem
	c.accountProblem = problem
	if leading {
		c.accountReported = problem
	}
	c.mu.Unlock()
	if !logged {
		klog.FromContext(ctx).Error(err, "Commitments of the AWS account cannot be read: the last ones stay in use")
	}
	if leading && !reported {
		c.config.Events.Eventf(c.object(), corev1.EventTypeWarning, "CommitmentsUnreadable", "AWS: %s; the commitments that were read last stay in use", problem)
	}
}

// object returns the ConfigMap, which need not exist, for Events.
func (c *Commitments) object() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: c.config.ConfigMap.Namespace, Name: c.config.ConfigMap.Name}}
}

// running returns the commitments of AWS that have not ended, and reports those that have.
func (c *Commitments) running(ctx context.Context, now time.Time) []commitment.Commitment {
	c.mu.Lock()
	list := c.account
	c.mu.Unlock()
	if !slices.ContainsFunc(list, func(x commitment.Commitment) bool { return x.Ended(now) }) {
		clear(c.ended)
		return list
	}
	var out []commitment.Commitment
	var faults []commitment.Fault
	leading := c.config.Leading()
	for _, x := range list {
		switch {
		case !x.Ended(now):
			out = append(out, x)
		case leading && !c.ended[x.ID]:
			c.ended[x.ID] = true
			faults = append(faults, commitment.Fault{Entry: x.ID, Message: "end: it ended at " + x.End.UTC().Format(time.RFC3339)})
		}
	}
	c.leaveOut(ctx, c.object(), faults)
	return out
}

// Merge returns the commitments of the ConfigMap, and those of AWS whose IDs it does not have: the user's entry is used in place of AWS's.
func Merge(own, account []commitment.Commitment) []commitment.Commitment {
	if len(account) == 0 {
		return own
	}
	has := map[string]bool{}
	for i := range own {
		has[own[i].ID] = true
	}
	out := slices.Clone(own)
	for i := range account {
		if !has[account[i].ID] {
			out = append(out, account[i])
		}
	}
	return out
}

// Shared returns the commitments with a share of the share that each has.
func Shared(list []commitment.Commitment, share float64) []commitment.Commitment {
	if share == 1 || len(list) == 0 {
		return list
	}
	out := slices.Clone(list)
	for i := range out {
		out[i].Share *= share
	}
	return out
}
