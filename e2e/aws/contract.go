package aws

import (
	"slices"
	"sync"

	"github.com/slipway-k8s/slipway/e2e/aws/model"
)

// contract checks requests against the services' models.
type contract struct {
	model *model.Model

	mu     sync.Mutex
	broken []string
}

func newContract() *contract { return &contract{model: model.New()} }

// check returns the worst violation of a request, and remembers all of them.
func (c *contract) check(r request) error {
	found, err := c.model.Check(r.Request)
	if err != nil || len(found) == 0 {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range found {
		text := r.AccessKey + ": " + r.Service + " " + r.Action + ": " + e.Error()
		if !slices.Contains(c.broken, text) {
			c.broken = append(c.broken, text)
		}
	}
	return found[0]
}

// Violations lists the differences between requests and the services' models, each once: the access key, service, operation
// and AWS's error. A correct use of the SDK causes none.
func (s *Server) Violations() []string {
	s.contract.mu.Lock()
	defer s.contract.mu.Unlock()
	return slices.Clone(s.contract.broken)
}
