package billing

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/slipway-k8s/slipway/launcher/bill"
)

// A replica that has recorded more is not overwritten, and a ConfigMap of the same day of the ring, or without a record, is.
func TestOvertaken(t *testing.T) {
	w, now := newWorld(t), time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	s := &w.recorder.store
	ledger := func(through time.Time) *bill.Ledger {
		l := &bill.Ledger{}
		l.Observe(bill.Observation{At: through.Add(-time.Minute)})
		l.Observe(bill.Observation{At: through})
		return l
	}
	w.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name(bill.DateOf(now))}})
	if _, faults, err := Read(t.Context(), w.client, "kube-system", now, 31); err != nil || len(faults) != 1 || !strings.Contains(faults[0].Error(), "slipway-bill-") {
		t.Errorf("faults %v, %v", faults, err)
	}
	if l, err := s.load(t.Context(), now); err != nil || !l.Through.IsZero() {
		t.Errorf("%+v, %v", l, err)
	}
	for _, month := range []time.Time{now.AddDate(0, 0, -bill.MostDays), now} {
		if err := s.write(t.Context(), "prod", ledger(month)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.write(t.Context(), "prod", ledger(now.Add(-time.Hour))); !errors.Is(err, errOvertaken) {
		t.Errorf("error %v", err)
	}
	if l, err := s.load(t.Context(), now); err != nil || !l.Through.Equal(now) {
		t.Errorf("%+v, %v", l, err)
	}
	if l, err := s.load(t.Context(), now.AddDate(0, 0, 40)); err != nil || !l.Through.IsZero() {
		t.Errorf("%+v, %v", l, err)
	}
	var list corev1.ConfigMapList
	if err := w.client.List(t.Context(), &list); err != nil || len(list.Items) != 1 {
		t.Errorf("%d ConfigMaps, %v", len(list.Items), err)
	}
}

// A day that cannot be written keeps no other day from being written.
func TestOtherDaysAreWritten(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	today := bill.DateOf(now)
	refused := errors.New("refused")
	for range 8 { // Maps have no order.
		w := newWorld(t)
		s := w.recorder.store
		s.client = interceptor.NewClient(w.client.(client.WithWatch), interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
				if obj.GetName() == name(today-1) {
					return refused
				}
				return c.Create(ctx, obj, opts...)
			},
		})
		l := &bill.Ledger{}
		l.Observe(bill.Observation{At: now.Add(-time.Minute)})
		l.Observe(bill.Observation{At: now})
		l.Days[today-1] = &bill.Day{Date: today - 1}
		if err := s.write(t.Context(), "prod", l); !errors.Is(err, refused) {
			t.Errorf("error %v", err)
		}
		if records, _, err := Read(t.Context(), w.client, "kube-system", now, 1); err != nil || len(records) != 1 {
			t.Fatalf("%d records of today, %v", len(records), err)
		}
	}
}
