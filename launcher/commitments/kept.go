package commitments

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-k8s/slipway/launcher/catalog/commitment"
)

const (
	// KeptName is the name of the ConfigMap that keeps what AWS returned last.
	KeptName = "slipway-account-commitments"
	// keptKey is the key that has the list, keptAbout one with a sentence for people.
	keptKey, keptAbout = "commitments.json.gz", "about"
	// mostKept bounds the bytes of a list: 100 plans with a rate of each instance type are a tenth of it.
	mostKept = 64 << 20
)

// kept is what the ConfigMap of Config.Records has, as far as it was read or written.
type kept struct {
	// readAt is when it was read; zero if it was not.
	readAt time.Time
	// list is what it has, or would have: answers is the answer of AWS that was compared with it.
	list    []commitment.Commitment
	known   bool
	answers int
	// problem is why it could not be read or written the last time.
	problem string
}

// keepAccount writes what AWS has returned to the ConfigMap of Config.Records. Until AWS has returned anything, the list of the ConfigMap is used: covered
// nodes would otherwise count as expensive after a restart, and be replaced, although they are paid for. The log has each reason of a failure once; the
// next refresh tries again.
func (c *Commitments) keepAccount(ctx context.Context, now time.Time) {
	if c.config.Account == nil || c.config.Records == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	c.mu.Lock()
	list, answers := c.account, c.answers
	c.mu.Unlock()
	var err error
	switch {
	case answers == 0 && (c.kept.readAt.IsZero() || now.Sub(c.kept.readAt) >= accountAgain):
		err = c.restore(ctx, now)
	case answers != c.kept.answers && c.config.Leading():
		err = c.keep(ctx, list, answers)
	default:
		return
	}
	problem := ""
	if err != nil && !errors.Is(err, context.Canceled) {
		if problem = err.Error(); problem != c.kept.problem {
			klog.FromContext(ctx).Error(err, "The commitments of the AWS account could not be kept for a restart; it is tried again")
		}
	}
	c.kept.problem = problem
}

// restore reads the ConfigMap. AWS's answer, should there be one meanwhile, stays.
func (c *Commitments) restore(ctx context.Context, now time.Time) error {
	object := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: c.config.Records, Name: KeptName}
	err := c.config.Reader.Get(ctx, key, object)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading ConfigMap %s: %w", key, err)
	}
	c.kept.readAt = now
	if err != nil {
		return nil
	}
	list, err := decode(object.BinaryData[keptKey])
	if err != nil {
		return fmt.Errorf("ConfigMap %s: %w", key, err)
	}
	c.kept.list, c.kept.known = list, true
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answers == 0 {
		c.account = list
	}
	return nil
}

// keep writes a list, unless the ConfigMap has it.
func (c *Commitments) keep(ctx context.Context, list []commitment.Commitment, answers int) error {
	if c.kept.known && reflect.DeepEqual(c.kept.list, list) {
		c.kept.answers = answers
		return nil
	}
	data, err := encode(list)
	if err != nil {
		return err
	}
	want := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.config.Records, Name: KeptName},
		BinaryData: map[string][]byte{keptKey: data},
		Data:       map[string]string{keptAbout: "The Savings Plans and Reserved Instances that AWS returned last. slipway-launcher starts with them, in case AWS cannot be read."},
	}
	have := &corev1.ConfigMap{}
	err = c.config.Reader.Get(ctx, client.ObjectKeyFromObject(want), have)
	switch {
	case apierrors.IsNotFound(err):
		err = c.config.Client.Create(ctx, want)
	case err == nil:
		want.ResourceVersion = have.ResourceVersion
		err = c.config.Client.Update(ctx, want)
	}
	if err != nil {
		return fmt.Errorf("writing ConfigMap %s/%s: %w", want.Namespace, want.Name, err)
	}
	c.kept.list, c.kept.known, c.kept.answers = list, true, answers
	return nil
}

// encode returns the entries of commitments as compressed JSON.
func encode(list []commitment.Commitment) ([]byte, error) {
	entries := make([]commitment.Entry, 0, len(list))
	for i := range list {
		entries = append(entries, commitment.EntryOf(&list[i]))
	}
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if err := errors.Join(json.NewEncoder(w).Encode(entries), w.Close()); err != nil {
		return nil, fmt.Errorf("encoding commitments: %w", err)
	}
	return out.Bytes(), nil
}

// decode reads what encode returned. It reads a bounded number of bytes. Entries with a mistake are left out.
func decode(data []byte) ([]commitment.Commitment, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("reading commitments: compressed JSON is expected: %w", err)
	}
	var entries []commitment.Entry
	if err := json.NewDecoder(io.LimitReader(r, mostKept)).Decode(&entries); err != nil {
		return nil, fmt.Errorf("reading commitments: a list is expected: %w", err)
	}
	var out []commitment.Commitment
	for i := range entries[:min(len(entries), mostAccount)] {
		if one, err := entries[i].Commitment(); err == nil {
			out = append(out, one)
		}
	}
	return out, nil
}
