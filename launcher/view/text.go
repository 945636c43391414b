package view

import (
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// printer writes until the first error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) Write(b []byte) (int, error) {
	if p.err != nil {
		return 0, p.err
	}
	n, err := p.w.Write(b)
	p.err = err
	return n, err
}

func (p *printer) printf(format string, args ...any) { fmt.Fprintf(p, format, args...) }

func eventTime(e corev1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	}
	return e.CreationTimestamp.Time
}

func age(now, since time.Time) string {
	if since.IsZero() {
		return "?"
	}
	return now.Sub(since).Round(time.Second).String()
}
