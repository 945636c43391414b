package commitments

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-k8s/slipway/launcher/catalog/commitment"
)

// account is what AWS returns.
type account struct {
	mu     sync.Mutex
	list   []commitment.Commitment
	faults []commitment.Fault
	err    error
	reads  int
}

// Commitments implements Account.
func (a *account) Commitments(context.Context) ([]commitment.Commitment, []commitment.Fault, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reads++
	return a.list, a.faults, a.err
}

func (a *account) set(err error, list ...commitment.Commitment) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list, a.err = list, err
}

func (a *account) leaveOut(faults ...commitment.Fault) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.faults = faults
}

// asked is how often it was read.
func (a *account) asked() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.reads
}

func plan(id string, usd float64, end time.Time) commitment.Commitment {
	return commitment.Commitment{ID: id, Kind: commitment.ComputeSavingsPlan, USDPerHour: usd, Discount: 0.2, Share: 1, End: end}
}

// The account is read each hour, and after a minute if it could not be. The ConfigMap's entry of the same ID is used in place of AWS's, a plan that
// ends is left out, and what was read last stays in use.
func TestAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, aws := newWorld(t), &account{}
		w.read.config.Account = aws
		w.write("- {id: b, kind: ComputeSavingsPlan, usdPerHour: 7, discountPercent: 20}\n")
		aws.set(nil, plan("a", 1, time.Now().Add(90*time.Minute)), plan("b", 1, time.Time{}))
		aws.leaveOut(commitment.Fault{Entry: "c", Message: `currency: USD is expected, got "CNY"`})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.read.Run(ctx) }()
		is := func(after time.Duration, ids string, usd float64, event string) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			var got []string
			sum := 0.0
			for _, c := range w.read.List() {
				got, sum = append(got, c.ID), sum+c.USDPerHour
			}
			if strings.Join(got, " ") != ids || sum != usd {
				t.Errorf("commitments %q of %v USD/h, want %q of %v", got, sum, ids, usd)
			}
			if all := strings.Join(w.taken(), "\n"); (event == "") != (all == "") || !strings.Contains(all, event) {
				t.Errorf("Events %q, want one with %q", all, event)
			}
		}
		is(15*time.Second, "b a", 8, "CommitmentLeftOut: c: currency: USD")
		is(50*time.Minute, "b a", 8, "")
		aws.leaveOut()
		is(10*time.Minute, "b a", 8, "")
		is(30*time.Minute, "b", 7, "CommitmentLeftOut: a: end: it ended at ")
		aws.set(errors.New("describing Savings Plans: denied"))
		is(30*time.Minute, "b", 7, "CommitmentsUnreadable: AWS: describing Savings Plans: denied; ")
		reads := aws.asked()
		is(5*time.Minute, "b", 7, "")
		if got := aws.asked() - reads; got != 5 {
			t.Errorf("%d reads within five minutes, want 5", got)
		}
		if _, got := w.read.unread(); got != 1 {
			t.Errorf("the metric is %v", got)
		}
		aws.set(nil, plan("d", 2, time.Time{}))
		is(2*time.Minute, "b d", 9, "")
		if _, got := w.read.unread(); got != 0 {
			t.Errorf("the metric is %v", got)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// More commitments than any account has are not all used.
func TestAccountIsBounded(t *testing.T) {
	w, aws := newWorld(t), &account{}
	w.read.config.Account = aws
	for range mostAccount + 5 {
		aws.list = append(aws.list, plan("x", 1, time.Time{}))
	}
	w.read.readAccount(t.Context())
	w.has(time.Now(), strings.TrimSuffix(strings.Repeat("x ", mostAccount), " "), "", 1)
}
