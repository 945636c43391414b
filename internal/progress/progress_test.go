package progress

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Quick work reports nothing. Work that takes long is reported ever more rarely, and no more once it has ended, also by a panic.
func TestDuring(t *testing.T) {
	failed := errors.New("failed")
	for _, c := range []struct {
		takes time.Duration
		err   error
		want  []string
	}{
		{takes: 2*time.Second - time.Millisecond},
		{takes: 5 * time.Second, err: failed, want: []string{"planning: 2s"}},
		{takes: 2 * time.Minute, want: []string{"planning: 2s", "planning: 6s", "planning: 14s", "planning: 30s", "planning: 1m0s", "planning: 1m30s"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var got []string
			n, err := During(func(line string) { got = append(got, line) }, "planning", func() (int, error) {
				time.Sleep(c.takes - time.Nanosecond)
				return 7, c.err
			})
			time.Sleep(time.Hour)
			if n != 7 || !errors.Is(err, c.err) || !slices.Equal(got, c.want) {
				t.Errorf("%s: %d, %v, %q, want %q", c.takes, n, err, got, c.want)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		defer func() {
			if recover() == nil {
				t.Error("the panic is lost")
			}
		}()
		_, _ = During(func(string) { t.Error("reported after a panic") }, "planning", func() (int, error) { panic("it fails") })
	})
}
