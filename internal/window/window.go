package window

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // Images have no zones of their own.

	"github.com/robfig/cron/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// Annotation of a NodePool or a CapacityBuffer holds its windows, as a YAML list.
const Annotation = "slipway.dev/windows"

const (
	// mostText is the length of the annotation that is read, in bytes, and mostWindows how many windows it may have: a tenant may write any text.
	mostText, mostWindows = 4096, 20
	// longest is the longest duration of a window.
	longest = 366 * 24 * time.Hour
)

// Window is a time that comes back, and what replaces the spec then.
type Window struct {
	// Schedule is when it opens: cron with five fields, or a descriptor such as @daily.
	Schedule string `json:"schedule"`
	// TimeZone of the schedule, such as Europe/Berlin. The default is UTC.
	TimeZone string `json:"timeZone,omitempty"`
	// Duration is for how long it is open.
	Duration metav1.Duration `json:"duration"`
	// Replicas replaces spec.replicas of a CapacityBuffer, or of a NodePool that has it.
	Replicas *int32 `json:"replicas,omitempty"`
	// Percentage replaces spec.percentage of a CapacityBuffer.
	Percentage *int32 `json:"percentage,omitempty"`
	// Limits replace those of spec.limits with the same name.
	Limits corev1.ResourceList `json:"limits,omitempty"`

	schedule cron.Schedule
}

// Windows are those of one object.
type Windows []Window

// Read reads the windows from the annotations of an object. The error names each field and what is wrong with it. Windows without a mistake are returned with
// it.
func Read(annotations map[string]string) (Windows, error) { return read(annotations, Annotation, nil) }

// read reads the windows of an annotation. own is what else a window must be; nil for nothing.
func read(annotations map[string]string, name string, own func(Window) error) (Windows, error) {
	text := annotations[name]
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	path := "metadata.annotations[" + name + "]"
	if len(text) > mostText {
		return nil, fmt.Errorf("%s: it has %d bytes, at most %d are read", path, len(text), mostText)
	}
	var list []json.RawMessage
	if err := yaml.UnmarshalStrict([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(list) > mostWindows {
		return nil, fmt.Errorf("%s: it has %d windows, at most %d are read", path, len(list), mostWindows)
	}
	var out Windows
	var errs []error
	for i, one := range list {
		var w Window
		if err := yaml.UnmarshalStrict(one, &w); err != nil {
			errs = append(errs, fmt.Errorf("%s[%d]: %w", path, i, err))
			continue
		}
		if field, err := w.check(); err != nil {
			errs = append(errs, fmt.Errorf("%s[%d].%s: %w", path, i, field, err))
			continue
		}
		if own != nil {
			if err := own(w); err != nil {
				errs = append(errs, fmt.Errorf("%s[%d]: %w", path, i, err))
				continue
			}
		}
		out = append(out, w)
	}
	return out, together(errs)
}

// together returns several errors as one, in one line.
func together(errs []error) error {
	if len(errs) < 2 {
		return errors.Join(errs...)
	}
	var out []string
	for _, err := range errs {
		out = append(out, err.Error())
	}
	return errors.New(strings.Join(out, "; "))
}

// check reads the schedule. field is the one that the error is about.
func (w *Window) check() (field string, err error) {
	if w.Duration.Duration <= 0 || w.Duration.Duration > longest {
		return "duration", fmt.Errorf("%s is not more than 0 and at most %s", w.Duration.Duration, longest)
	}
	zone, err := time.LoadLocation(w.TimeZone)
	if err != nil || w.TimeZone == "Local" {
		return "timeZone", fmt.Errorf("%q is no time zone, want one such as Europe/Berlin", w.TimeZone)
	}
	if strings.Contains(w.Schedule, "TZ=") { // The library reads a time zone there, and panics at some.
		return "schedule", errors.New("the time zone belongs in timeZone")
	}
	parsed, err := cron.ParseStandard(w.Schedule)
	if err != nil {
		return "schedule", fmt.Errorf("%q: %w", w.Schedule, err)
	}
	w.schedule = zoned{parsed, zone}
	if w.schedule.Next(time.Unix(0, 0)).IsZero() {
		return "schedule", fmt.Errorf("%q never comes", w.Schedule)
	}
	for _, n := range []*int32{w.Replicas, w.Percentage} {
		if n != nil && *n < 0 {
			return "replicas", errors.New("replicas and percentage are not negative")
		}
	}
	if err := catalog.UnknownLimits(w.Limits); err != nil {
		return "limits", err
	}
	for name, q := range w.Limits {
		if q.Sign() < 0 {
			return "limits[" + string(name) + "]", fmt.Errorf("%s: a limit is not negative", q.String())
		}
	}
	return "", nil
}

// zoned is a schedule in a time zone.
type zoned struct {
	cron.Schedule
	zone *time.Location
}

// Next returns the next time of the schedule; zero where there is none within five years.
func (z zoned) Next(t time.Time) time.Time { return z.Schedule.Next(t.In(z.zone)) }

// opened returns when a window that is open now was opened; ok is false for one that is closed.
func (w *Window) opened(now time.Time) (at time.Time, ok bool) {
	first := w.schedule.Next(now.Add(-w.Duration.Duration))
	return first, !first.IsZero() && !first.After(now)
}

// Open returns the window that is open now, the last of the list where several are; nil where none is.
func (w Windows) Open(now time.Time) *Window {
	for _, v := range slices.Backward(w) {
		if _, open := v.opened(now); open {
			return &v
		}
	}
	return nil
}

// Next returns when a window opens or closes next; zero where none does.
func (w Windows) Next(now time.Time) time.Time {
	var out time.Time
	for i := range w {
		for _, at := range []time.Time{w[i].schedule.Next(now), w[i].closes(now)} {
			if at.After(now) && (out.IsZero() || at.Before(out)) {
				out = at
			}
		}
	}
	return out
}

// closes returns when a window that is open now closes, if it does not open again before.
func (w *Window) closes(now time.Time) time.Time {
	at, open := w.opened(now)
	if !open {
		return time.Time{}
	}
	return at.Add(w.Duration.Duration)
}

// Limits returns the limits that hold now for a NodePool with these. A window that cannot be read changes nothing.
func Limits(annotations map[string]string, limits corev1.ResourceList, now time.Time) corev1.ResourceList {
	if w := open(annotations, now); w != nil {
		return w.Over(limits)
	}
	return limits
}

// Over returns the limits with those of the window in place of theirs.
func (w *Window) Over(limits corev1.ResourceList) corev1.ResourceList {
	if len(w.Limits) == 0 {
		return limits
	}
	out := limits.DeepCopy()
	if out == nil {
		out = corev1.ResourceList{}
	}
	maps.Copy(out, w.Limits)
	return out
}

// Replicas returns how many nodes a NodePool with a fixed number of them has now. A window that cannot be read changes nothing.
func Replicas(annotations map[string]string, replicas int64, now time.Time) int64 {
	if w := open(annotations, now); w != nil && w.Replicas != nil {
		return int64(*w.Replicas)
	}
	return replicas
}

func open(annotations map[string]string, now time.Time) *Window {
	if annotations[Annotation] == "" {
		return nil
	}
	windows, _ := Read(annotations) // What is wrong with one is said on the object.
	return windows.Open(now)
}

// String says when it is open and what holds then, for people.
func (w *Window) String() string {
	zone := w.TimeZone
	if zone == "" {
		zone = "UTC"
	}
	out := []string{fmt.Sprintf("open for %s from %q, %s", w.Duration.Duration, w.Schedule, zone)}
	for _, name := range slices.Sorted(maps.Keys(w.Limits)) {
		q := w.Limits[name]
		out = append(out, fmt.Sprintf("limit %s %s", name, q.String()))
	}
	if w.Replicas != nil {
		out = append(out, fmt.Sprintf("replicas %d", *w.Replicas))
	}
	if w.Percentage != nil {
		out = append(out, fmt.Sprintf("percentage %d", *w.Percentage))
	}
	return strings.Join(out, ", ")
}
