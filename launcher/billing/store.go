package billing

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-k8s/slipway/launcher/bill"
)

const (
	// dataKey is the key of a ConfigMap that has the encoded day, aboutKey one with a sentence for people.
	dataKey  = "record.json.gz"
	aboutKey = "about"
)

// errOvertaken means that another replica has recorded more.
var errOvertaken = errors.New("another replica has recorded more: its record is read")

// store is the record in the cluster.
type store struct {
	client    client.Client
	reader    client.Reader
	namespace string
}

// name returns the name of a day's ConfigMap. Every 31 days the names come again.
func name(d bill.Date) string { return fmt.Sprintf("slipway-bill-%02d", int(d)%bill.MostDays) }

// Read returns the days of the record that end at now, the latest last. Days without a ConfigMap, or whose ConfigMap cannot be read, are left out;
// faults say why they cannot.
func Read(ctx context.Context, reader client.Reader, namespace string, now time.Time, days int) (records []bill.Record, faults []error, err error) {
	today := bill.DateOf(now)
	for d := today - bill.Date(min(days, bill.MostDays)) + 1; d <= today; d++ {
		record, ok, err := read(ctx, reader, namespace, d)
		if fault := (&faultError{}); errors.As(err, &fault) {
			faults = append(faults, err)
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		if ok {
			records = append(records, record)
		}
	}
	return records, faults, nil
}

// faultError is a ConfigMap that is there and has no record.
type faultError struct {
	name string
	err  error
}

func (e *faultError) Error() string { return fmt.Sprintf("ConfigMap %s: %v", e.name, e.err) }

func (e *faultError) Unwrap() error { return e.err }

// read returns the record of a day; false if there is none.
func read(ctx context.Context, reader client.Reader, namespace string, d bill.Date) (bill.Record, bool, error) {
	object := &corev1.ConfigMap{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name(d)}, object)
	if apierrors.IsNotFound(err) {
		return bill.Record{}, false, nil
	}
	if err != nil {
		return bill.Record{}, false, fmt.Errorf("reading ConfigMap %s/%s: %w", namespace, name(d), err)
	}
	out, err := bill.Decode(object.BinaryData[dataKey])
	if err != nil {
		return out, false, &faultError{namespace + "/" + name(d), err}
	}
	return out, out.Day.Date == d, nil // Otherwise it is of 31 days before.
}

// load returns the ledger that goes on with the latest day, or a new one.
func (s *store) load(ctx context.Context, now time.Time) (*bill.Ledger, error) {
	records, faults, err := Read(ctx, s.reader, s.namespace, now, bill.MostDays)
	if err != nil {
		return nil, err
	}
	for _, fault := range faults {
		klog.FromContext(ctx).Error(fault, "A day of the bill cannot be read; it is written again if it is today's")
	}
	if len(records) == 0 {
		return &bill.Ledger{}, nil
	}
	out := records[len(records)-1].Ledger(records...)
	out.Start = start(records, out.Start)
	return out, nil
}

// start returns when the record starts: days of which there is no record any more are not part of it.
func start(records []bill.Record, at time.Time) time.Time {
	if first := records[0].Day.Date.Time(); first.After(at) {
		return first
	}
	return at
}

// write writes the days of the ledger, and forgets those that are over.
func (s *store) write(ctx context.Context, cluster string, l *bill.Ledger) error {
	if first := (bill.DateOf(l.Through) - bill.MostDays + 1).Time(); first.After(l.Start) {
		l.Start = first
	}
	var errs []error
	for date := range l.Days {
		errs = append(errs, s.writeDay(ctx, l.Record(cluster, date)))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	l.ForgetDays()
	return nil
}

func (s *store) writeDay(ctx context.Context, r bill.Record) error {
	text, err := bill.Encode(r)
	if err != nil {
		return err
	}
	want := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name(r.Day.Date)},
		BinaryData: map[string][]byte{dataKey: text},
		Data: map[string]string{aboutKey: fmt.Sprintf("What nodes cost on %s (UTC), as slipway observed it. The command slipway bill shows it. The record starts at %s.",
			r.Day.Date, r.Start.UTC().Format(time.RFC3339))},
	}
	have := &corev1.ConfigMap{}
	err = s.reader.Get(ctx, client.ObjectKeyFromObject(want), have)
	switch {
	case apierrors.IsNotFound(err):
		err = s.client.Create(ctx, want)
	case err == nil:
		if old, bad := bill.Decode(have.BinaryData[dataKey]); bad == nil && old.Day.Date == r.Day.Date && old.Through.After(r.Through) {
			return errOvertaken
		}
		want.ResourceVersion = have.ResourceVersion
		err = s.client.Update(ctx, want)
	}
	if err != nil {
		return fmt.Errorf("writing ConfigMap %s/%s: %w", s.namespace, want.Name, err)
	}
	return nil
}
