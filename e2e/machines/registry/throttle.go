package registry

import (
	"io"
	"time"
)

// throttled passes on at most rate bytes per second, in pieces of a twentieth of a second.
func throttled(w io.Writer, rate int64) io.Writer {
	if rate <= 0 {
		return w
	}
	return &slow{w: w, piece: max(rate/20, 1)}
}

type slow struct {
	w     io.Writer
	piece int64
}

// Write waits between pieces.
func (s *slow) Write(data []byte) (int, error) {
	written := 0
	for len(data) > 0 {
		piece := data[:min(int64(len(data)), s.piece)]
		begin := time.Now()
		n, err := s.w.Write(piece)
		written += n
		if err != nil {
			return written, err
		}
		data = data[n:]
		share := float64(n) / float64(s.piece)
		time.Sleep(time.Duration(share*float64(time.Second)/20) - time.Since(begin))
	}
	return written, nil
}
