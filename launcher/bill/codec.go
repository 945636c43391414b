package bill

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// Record is a day with what is said about the whole record.
type Record struct {
	// Cluster is the cluster's name.
	Cluster string
	// Start is when the record starts, Through until when it is complete.
	Start, Through time.Time
	// Commitments are those of the last observation.
	Commitments []catalog.CommitmentUse
	// Day is the day.
	Day *Day

	// young are charges that EC2 may take back, in the record of the last day.
	young []youngNode
}

const (
	// MostBytes is the largest encoded day. A ConfigMap has at most 1 MiB.
	MostBytes = 700 << 10
	// mostJSON bounds what is read of an encoded day.
	mostJSON = 64 << 20
	// mostCommitments bounds the commitments of a record.
	mostCommitments = 100
	version         = 1
	nano            = 1e9
)

// encoded is a record as JSON. Amounts are billionths of USD and of hours, in the order of Parts.
type encoded struct {
	Version     int                     `json:"version"`
	Cluster     string                  `json:"cluster,omitempty"`
	Start       time.Time               `json:"start"`
	Through     time.Time               `json:"through"`
	Date        Date                    `json:"date"`
	Commitments []catalog.CommitmentUse `json:"commitments,omitempty"`
	Keys        []Key                   `json:"keys"`
	Hours       []encodedHour           `json:"hours"`
	// Young are the charges that EC2 may take back, with what they name.
	Young      []encodedYoung `json:"young,omitempty"`
	YoungPools []string       `json:"youngPools,omitempty"`
	YoungKeys  []Key          `json:"youngKeys,omitempty"`
}

// encodedYoung has of each charge its date and hour, the indexes of its NodePool and key, the account, and billionths of USD.
type encodedYoung struct {
	ID      string     `json:"id"`
	Charges [][6]int64 `json:"charges"`
}

type encodedHour struct {
	Hour     int                    `json:"hour"`
	Observed int64                  `json:"observed"`
	Pools    map[string]encodedPool `json:"pools"`
	Rows     []encodedRow           `json:"rows"`
	Unused   map[string]int64       `json:"unused,omitempty"`
	Fee      int64                  `json:"fee,omitempty"`
}

type encodedPool struct {
	Requested   [6]int64 `json:"requested"`
	Idle        [6]int64 `json:"idle"`
	Interrupted [6]int64 `json:"interrupted"`
	Hours       [3]int64 `json:"hours"` // All, requested and after an interruption.
}

// encodedRow has the index of its key, the parts, the hours of nodes, the number of interrupted pods, and its shares of what is idle and of what was lost.
// Records of earlier versions lack the last two.
type encodedRow [11]int64

// Encode returns the record as compressed JSON of at most MostBytes. If the day is larger, it is folded in what is returned, and stays whole itself.
func Encode(r Record) ([]byte, error) {
	r.Day = r.Day.clone()
	for most := MostKeys; ; most /= 2 {
		r.Day.Fold(most)
		text, err := compress(r)
		if err == nil && len(text) > MostBytes && len(r.young) > 0 {
			r.young = nil // They matter for an hour, the day for a month.
			text, err = compress(r)
		}
		if err != nil {
			return nil, fmt.Errorf("encoding the record of %s: %w", r.Day.Date, err)
		}
		if len(text) <= MostBytes {
			return text, nil
		}
		if most <= 1 {
			return nil, fmt.Errorf("encoding the record of %s: %d bytes, at most %d are expected", r.Day.Date, len(text), MostBytes)
		}
	}
}

func compress(r Record) ([]byte, error) {
	out := bytes.Buffer{}
	writer := gzip.NewWriter(&out)
	if err := json.NewEncoder(writer).Encode(encode(r)); err != nil {
		return nil, err
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func encode(r Record) encoded {
	out := encoded{
		Version: version, Cluster: r.Cluster, Start: r.Start.UTC(), Through: r.Through.UTC(), Date: r.Day.Date,
		Commitments: r.Commitments[:min(len(r.Commitments), mostCommitments)],
	}
	out.Keys = slices.SortedFunc(maps.Keys(r.Day.keys()), compare)
	at := map[Key]int64{}
	for i, k := range out.Keys {
		at[k] = int64(i)
	}
	for n, h := range r.Day.Hours {
		if h == nil {
			continue
		}
		e := encodedHour{Hour: n, Observed: int64(math.Round(h.Observed * nano)), Pools: map[string]encodedPool{}, Unused: map[string]int64{}}
		for name, p := range h.Pools {
			e.Pools[name] = encodedPool{p.Requested.encode(), p.Idle.encode(), p.Interrupted.encode(), [3]int64{billionths(p.NodeHours), billionths(p.RequestedHours), billionths(p.InterruptedHours)}}
		}
		for k, row := range h.Rows {
			x := encodedRow{at[k]}
			parts := row.Parts.encode()
			copy(x[1:], parts[:])
			x[7], x[8], x[9], x[10] = billionths(row.NodeHours), int64(row.Interrupted), billionths(row.Idle), billionths(row.Lost)
			e.Rows = append(e.Rows, x)
		}
		slices.SortFunc(e.Rows, func(a, b encodedRow) int { return int(a[0] - b[0]) })
		for id, usd := range h.Unused {
			e.Unused[id] = billionths(usd)
		}
		e.Fee = billionths(h.Fee)
		out.Hours = append(out.Hours, e)
	}
	out.encodeYoung(r.young[:min(len(r.young), mostYoung)])
	return out
}

// encodeYoung adds charges that EC2 may take back.
func (out *encoded) encodeYoung(nodes []youngNode) {
	pools, keys := map[string]int64{}, map[Key]int64{}
	for _, n := range nodes {
		e := encodedYoung{ID: n.id}
		for _, c := range n.list {
			pool, ok := pools[c.pool]
			if !ok {
				pool = int64(len(pools))
				pools[c.pool], out.YoungPools = pool, append(out.YoungPools, c.pool)
			}
			key, ok := keys[c.pod]
			if !ok {
				key = int64(len(keys))
				keys[c.pod], out.YoungKeys = key, append(out.YoungKeys, c.pod)
			}
			e.Charges = append(e.Charges, [6]int64{int64(c.date), int64(c.hour), pool, key, int64(c.in), billionths(c.usd)})
		}
		out.Young = append(out.Young, e)
	}
}

// decodeYoung returns them again. A charge that names what is not there is left out.
func decodeYoung(in *encoded) []youngNode {
	var out []youngNode
	for _, e := range in.Young {
		n := youngNode{id: e.ID}
		for _, x := range e.Charges {
			if x[2] < 0 || x[2] >= int64(len(in.YoungPools)) || x[3] < 0 || x[3] >= int64(len(in.YoungKeys)) || x[1] < 0 || x[1] > 23 {
				continue
			}
			n.list = append(n.list, youngCharge{Date(x[0]), int(x[1]), in.YoungPools[x[2]], in.YoungKeys[x[3]], account(x[4]), float64(x[5]) / nano})
		}
		out = append(out, n)
	}
	return out
}

func billionths(x float64) int64 { return int64(math.Round(x * nano)) }

func (p Parts) encode() [6]int64 {
	return [6]int64{
		billionths(p.Instance), billionths(p.Volumes), billionths(p.PublicIPv4), billionths(p.Burst), billionths(p.Declared), billionths(p.Commitments),
	}
}

func decodeParts(x [6]int64) Parts {
	usd := func(i int) float64 { return float64(x[i]) / nano }
	return Parts{usd(0), usd(1), usd(2), usd(3), usd(4), usd(5)}
}

// Decode reads what Encode returned.
func Decode(text []byte) (Record, error) {
	reader, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		return Record{}, fmt.Errorf("reading a day of the record: %w", err)
	}
	in := encoded{}
	if err := json.NewDecoder(io.LimitReader(reader, mostJSON)).Decode(&in); err != nil {
		return Record{}, fmt.Errorf("reading a day of the record: %w", err)
	}
	if in.Version != version {
		return Record{}, fmt.Errorf("reading a day of the record: version %d is expected, got %d", version, in.Version)
	}
	out := Record{Cluster: in.Cluster, Start: in.Start, Through: in.Through, Commitments: in.Commitments, Day: &Day{Date: in.Date}, young: decodeYoung(&in)}
	for _, e := range in.Hours {
		if e.Hour < 0 || e.Hour > 23 {
			return Record{}, fmt.Errorf("reading the record of %s: hours[%d]: an hour from 0 to 23 is expected", in.Date, e.Hour)
		}
		h := out.Day.hour(e.Hour)
		h.Observed, h.Fee = float64(e.Observed)/nano, float64(e.Fee)/nano
		for name, p := range e.Pools {
			h.Pools[name] = &Pool{
				decodeParts(p.Requested), decodeParts(p.Idle), decodeParts(p.Interrupted),
				float64(p.Hours[0]) / nano, float64(p.Hours[1]) / nano, float64(p.Hours[2]) / nano,
			}
		}
		for _, x := range e.Rows {
			if x[0] < 0 || x[0] >= int64(len(in.Keys)) {
				return Record{}, fmt.Errorf("reading the record of %s: a key from 0 to %d is expected, got %d", in.Date, len(in.Keys)-1, x[0])
			}
			h.Rows[in.Keys[x[0]]] = &Row{decodeParts([6]int64(x[1:7])), float64(x[7]) / nano, int(x[8]), float64(x[9]) / nano, float64(x[10]) / nano}
		}
		for id, usd := range e.Unused {
			h.Unused[id] = float64(usd) / nano
		}
	}
	return out, nil
}

// Ledger returns a ledger that goes on with the record, and with the one of the day before if that is among the others: charges of it may change for an hour.
func (r Record) Ledger(others ...Record) *Ledger {
	out := &Ledger{Start: r.Start, Through: r.Through, Days: map[Date]*Day{r.Day.Date: r.Day}, Commitments: r.Commitments}
	for _, o := range others {
		if o.Day.Date == r.Day.Date-1 {
			out.Days[o.Day.Date] = o.Day
		}
	}
	out.takeOver(r.young)
	return out
}

// Record returns the record of one of the ledger's days.
func (l *Ledger) Record(cluster string, date Date) Record {
	out := Record{Cluster: cluster, Start: l.Start, Through: l.Through, Commitments: l.Commitments, Day: l.Days[date]}
	if date == DateOf(l.Through) {
		out.young = l.youngNodes()
	}
	return out
}
