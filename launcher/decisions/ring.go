package decisions

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/view"
)

const (
	// KeptFor is how long a decision is kept.
	KeptFor = 24 * time.Hour
	// MostKept is how many are kept: with their longest texts, compressed, they take less than the 1 MiB that a ConfigMap may have.
	MostKept = 1000
	// mostBytes bounds what is read: more than the longest texts of MostKept decisions.
	mostBytes = 4 << 20
)

// Ring is the latest decisions. The zero value is empty.
type Ring struct{ by map[string]view.Decision }

// key identifies a decision. A NodeClaim is launched, refused and terminated once; a consolidation that was called off may come again.
func key(d view.Decision) string {
	out := string(d.What) + "/" + strings.Join(d.NodeClaims, "/")
	if d.What == view.Consolidated {
		out += "/" + d.At.UTC().Format(time.RFC3339)
	}
	return out
}

// Add adds a decision, and reports whether it is new and recent enough. Where too many are kept, the oldest is dropped.
func (r *Ring) Add(d view.Decision, now time.Time) bool {
	k := key(d)
	if _, known := r.by[k]; known || len(d.NodeClaims) == 0 || now.Sub(d.At) > KeptFor {
		return false
	}
	if r.by == nil {
		r.by = map[string]view.Decision{}
	}
	r.by[k] = d
	if len(r.by) <= MostKept {
		return true
	}
	oldest := ""
	for k, d := range r.by {
		if was := r.by[oldest]; oldest == "" || cmp.Or(d.At.Compare(was.At), cmp.Compare(k, oldest)) < 0 {
			oldest = k
		}
	}
	delete(r.by, oldest)
	return oldest != k
}

// List returns the decisions of the last 24 hours, the latest first, and drops the others. The termination of a node that a listed consolidation
// names is a part of that, and not listed by itself.
func (r *Ring) List(now time.Time) []view.Decision {
	out := make([]view.Decision, 0, len(r.by))
	consolidated := map[string]bool{}
	for _, d := range r.by {
		if d.What == view.Consolidated && now.Sub(d.At) <= KeptFor {
			for _, name := range d.NodeClaims {
				consolidated[name] = true
			}
		}
	}
	for k, d := range r.by {
		if now.Sub(d.At) > KeptFor {
			delete(r.by, k)
			continue
		}
		if d.What == view.Terminated && strings.EqualFold(d.Why, string(karpv1.DisruptionReasonUnderutilized)) && consolidated[d.NodeClaims[0]] {
			continue
		}
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b view.Decision) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(key(a), key(b))) })
	return out
}

// encode returns decisions as compressed JSON.
func encode(list []view.Decision) ([]byte, error) {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if err := json.NewEncoder(w).Encode(list); err != nil {
		return nil, fmt.Errorf("encoding decisions: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("compressing decisions: %w", err)
	}
	return out.Bytes(), nil
}

// decode reads what encode returned. It reads a bounded number of bytes.
func decode(data []byte) ([]view.Decision, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("reading decisions: compressed JSON is expected: %w", err)
	}
	var out []view.Decision
	if err := json.NewDecoder(io.LimitReader(r, mostBytes)).Decode(&out); err != nil {
		return nil, fmt.Errorf("reading decisions: a list is expected: %w", err)
	}
	return out, nil
}
