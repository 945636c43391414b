package prefetch

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// manyNames is the maximum number of image names kept: each run of a pipeline may add a new one.
const manyNames = 20_000

// sizes are the image sizes that nodes report. It is safe for concurrent use.
type sizes struct {
	mu    sync.Mutex
	bytes map[string]int64
}

func newSizes() *sizes { return &sizes{bytes: map[string]int64{}} }

// learn adds the sizes in a Node's status (kubelet's nodeStatusMaxImages: its 50 largest images).
func (s *sizes) learn(images []corev1.ContainerImage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.bytes) > manyNames {
		s.bytes = map[string]int64{}
	}
	for _, image := range images {
		for _, name := range image.Names {
			s.bytes[name] = image.SizeBytes
		}
	}
}

// of returns an image's size by its full name; 0 if no node has reported it.
func (s *sizes) of(name string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes[name]
}
