package simulate

import (
	"os"
	"runtime/metrics"
	"strconv"
	"strings"
)

// peakRSSMiB returns the largest resident memory of the process. Linux counts it by process image; getrusage would include the
// parent before it executed this program. On other systems it is the memory that Go has taken from the system.
func peakRSSMiB() float64 {
	text, err := os.ReadFile("/proc/self/status")
	if err == nil {
		for line := range strings.SplitSeq(string(text), "\n") {
			if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "VmHWM:" {
				if kib, err := strconv.ParseFloat(fields[1], 64); err == nil {
					return kib / 1024
				}
			}
		}
	}
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}}
	metrics.Read(sample)
	return float64(sample[0].Value.Uint64()) / (1 << 20)
}
