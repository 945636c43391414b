package prefetch

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// manyNames is how many names of images are kept: each pipeline's run may bring a new one.
const manyNames = 20_000

// sizes are those that nodes tell of their images. It is safe for concurrent use.
type sizes struct {
	mu    sync.Mutex
	bytes map[string]int64
}

func newSizes() *sizes { return &sizes{bytes: map[string]int64{}} }

// learn takes what a Node tells (kubelet's nodeStatusMaxImages: its 50 largest).
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

// of is an image's size by its full name; 0 where no node has told it.
func (s *sizes) of(name string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes[name]
}
