package commitments

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-k8s/slipway/launcher/catalog/commitment"
)

// start runs the reader of an account; the result ends it.
func (w *world) start(aws Account) (stop func()) {
	w.read.config.Account = aws
	ctx, cancel := context.WithCancel(w.t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		if err := w.read.Run(ctx); err != nil {
			w.t.Error(err)
		}
	})
	return func() {
		cancel()
		group.Wait()
	}
}

// restart replaces the reader by a new one, as of a new process.
func (w *world) restart() {
	w.t.Helper()
	config := w.read.config
	w.registry = prometheus.NewRegistry()
	config.Registerer = w.registry
	var err error
	if w.read, err = New(config); err != nil {
		w.t.Fatal(err)
	}
}

// ids returns those of the list.
func (w *world) ids() string {
	var out []string
	for _, c := range w.read.List() {
		out = append(out, c.ID)
	}
	return strings.Join(out, " ")
}

// written returns the IDs of the ConfigMap that keeps AWS's answer; false if there is none.
func (w *world) written() (string, bool) {
	w.t.Helper()
	object := &corev1.ConfigMap{}
	err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: "kube-system", Name: KeptName}, object)
	if apierrors.IsNotFound(err) {
		return "", false
	}
	if err != nil {
		w.t.Fatal(err)
	}
	list, err := decode(object.BinaryData[keptKey])
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, c := range list {
		out = append(out, c.ID)
	}
	return strings.Join(out, " "), true
}

// What AWS returned is used at once, and after a restart as well: while AWS cannot be read, covered nodes would otherwise count as expensive and be
// replaced, although they are paid for.
func TestAccountOverARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, aws := newWorld(t), &account{}
		is := func(what, ids string) {
			t.Helper()
			synctest.Wait()
			if got := w.ids(); got != ids {
				t.Errorf("%s: commitments %q, want %q", what, got, ids)
			}
		}
		aws.set(nil, plan("a", 1, time.Now().Add(90*time.Minute)), plan("b", 2, time.Time{}))
		stop := w.start(aws)
		is("AWS answers", "a b")
		stop()
		aws.set(errors.New("describing Savings Plans: denied"))
		w.restart()
		stop = w.start(aws)
		is("AWS fails after a restart", "a b")
		if _, got := w.read.unread(); got != 1 {
			t.Errorf("the metric is %v", got)
		}
		time.Sleep(2 * time.Hour)
		is("one has ended", "b")
		aws.set(nil, plan("c", 1, time.Time{}))
		time.Sleep(accountAgain)
		is("AWS answers again", "c")
		stop()
		if got, _ := w.written(); got != "c" {
			t.Errorf("the ConfigMap has %q", got)
		}
		aws.set(nil)
		w.restart()
		stop = w.start(aws)
		is("AWS has none any more", "")
		stop()
		if got, ok := w.written(); got != "" || !ok {
			t.Errorf("the ConfigMap has %q, %v", got, ok)
		}
	})
}

// Only the leader writes: what the others read stays theirs until one of them leads.
func TestTheLeaderKeepsTheAccount(t *testing.T) {
	w, aws := newWorld(t), &account{}
	w.read.config.Account = aws
	aws.set(nil, plan("a", 1, time.Time{}))
	w.leading = false
	w.read.readAccount(t.Context())
	w.has(time.Now(), "a", "", 1)
	if got, ok := w.written(); ok {
		t.Errorf("a standby wrote %q", got)
	}
	w.leading = true
	w.has(time.Now(), "a", "", 0)
	if got, _ := w.written(); got != "a" {
		t.Errorf("the leader wrote %q", got)
	}
}

// A ConfigMap that cannot be read keeps nothing from working, and AWS's next answer replaces it. One that another replica writes meanwhile is read.
func TestKeptAccountIsReadUntilAWSAnswers(t *testing.T) {
	w, aws, now := newWorld(t), &account{}, time.Now()
	w.read.config.Account = aws
	bad := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: KeptName}, BinaryData: map[string][]byte{keptKey: []byte("no list")},
	}
	if err := w.client.Create(t.Context(), bad); err != nil {
		t.Fatal(err)
	}
	w.has(now, "", "", 0)
	if !strings.Contains(w.read.kept.problem, "compressed JSON is expected") {
		t.Errorf("the problem is %q", w.read.kept.problem)
	}
	data, err := encode([]commitment.Commitment{plan("other", 1, time.Time{}), {ID: "wrong"}})
	if err != nil {
		t.Fatal(err)
	}
	bad.BinaryData[keptKey] = data
	if err := w.client.Update(t.Context(), bad); err != nil {
		t.Fatal(err)
	}
	w.has(now.Add(period), "", "", 0)
	w.has(now.Add(accountAgain), "other", "", 1)
	aws.set(nil, plan("a", 1, time.Time{}))
	w.read.readAccount(t.Context())
	w.has(now.Add(2*accountAgain), "a", "", 1)
	if got, _ := w.written(); got != "a" || w.read.kept.problem != "" {
		t.Errorf("the ConfigMap has %q, the problem is %q", got, w.read.kept.problem)
	}
}

// What is written is read as it was: each kind, with rates, shares and ends.
func TestKeptAccountIsWhatItWas(t *testing.T) {
	end := time.Date(2027, 3, 1, 0, 0, 0, 0, time.UTC)
	want := []commitment.Commitment{
		{ID: "sp", Kind: commitment.ComputeSavingsPlan, USDPerHour: 1, Rates: map[string]float64{"m5.large": 0.0489}, End: end, Share: 1},
		{ID: "m7g", Kind: commitment.EC2InstanceSavingsPlan, USDPerHour: 1, Discount: 0.25, Family: "m7g", Share: 0.5},
		{ID: "ri", Kind: commitment.ReservedInstances, InstanceType: "m5.xlarge", Count: 3, Zone: "us-east-1a", USDPerHour: 0.1, End: end, Share: 1},
	}
	data, err := encode(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := decode(data)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v -written +read\n%s", err, diff)
	}
}
