package aws

import (
	"slices"
	"sync"

	"github.com/slipway-k8s/slipway/e2e/aws/model"
)

// contract holds requests against the services' models.
type contract struct {
	model *model.Model

	mu     sync.Mutex
	broken []string
}

func newContract() *contract { return &contract{model: model.New()} }

// check answers a request that is not as its model says with the worst of it, and remembers all.
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

// Violations lists what requests had that the services' models do not, or lacked that they require, each once: the access
// key that signed, service, operation, AWS's error. Nobody who uses the SDK and means well causes any.
func (s *Server) Violations() []string {
	s.contract.mu.Lock()
	defer s.contract.mu.Unlock()
	return slices.Clone(s.contract.broken)
}
