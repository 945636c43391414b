package server

import (
	"context"
	"maps"
	"sync"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// typeCache holds the instance types of each class, as the cloud last returned them.
type typeCache struct {
	poked chan struct{}

	mu      sync.Mutex
	classes map[string]offered
	changes uint64
}

// offered holds a class's instance types; they are shared and not changed.
type offered struct {
	byName  map[string]catalog.InstanceType
	message *api.InstanceTypes
	// list is the cloud's answer; it is the same list while nothing has changed.
	list []catalog.InstanceType
	// partitions are those of the class's placement group; 0 for none.
	partitions int64
	// problem is why there are none, for people.
	problem string
}

func newTypes() *typeCache {
	return &typeCache{poked: make(chan struct{}, 1), classes: map[string]offered{}}
}

// poke requests a refresh after a class changed.
func (t *typeCache) poke() {
	select {
	case t.poked <- struct{}{}:
	default:
	}
}

// get returns the current classes; the map is the caller's.
func (t *typeCache) get() map[string]offered {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.classes)
}

// version increases with each refresh; read it before the classes.
func (t *typeCache) version() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.changes
}

func (t *typeCache) of(class string) offered {
	o, _ := t.known(class)
	return o
}

func (t *typeCache) known(class string) (offered, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o, ok := t.classes[class]
	return o, ok
}

// retryTypes is when a class whose instance types could not be read is tried again.
const retryTypes = 2 * time.Second

// keepTypes refreshes the types whenever offerings or classes change, until ctx ends.
func (s *Server) keepTypes(ctx context.Context) {
	for {
		changed := s.config.Offers.Changed()
		again := (<-chan time.Time)(nil)
		if !s.refreshTypes(ctx) {
			again = time.After(retryTypes)
		}
		s.hub.notify()
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-s.types.poked:
		case <-again:
		}
	}
}

// refreshTypes asks the cloud for every class and reports whether all could be read.
func (s *Server) refreshTypes(ctx context.Context) bool {
	var list awsv1.EC2NodeClassList
	if err := s.config.Client.List(ctx, &list); err != nil {
		klog.FromContext(ctx).Error(err, "EC2NodeClasses could not be listed")
		return false
	}
	complete, changed := true, false
	classes := make(map[string]offered, len(list.Items))
	for i := range list.Items {
		class := &list.Items[i]
		o := offered{byName: map[string]catalog.InstanceType{}, message: &api.InstanceTypes{NodeClass: class.Name}}
		offers, err := s.config.Offers.InstanceTypes(ctx, class)
		if err != nil {
			// The previous types stay: in-flight nodes keep their allocatable, and nothing new is launched meanwhile.
			if before, known := s.types.known(class.Name); known {
				o.byName, o.message = before.byName, before.message
			}
			o.problem = "the instance types of EC2NodeClass " + class.Name + " are not known: " + err.Error()
			complete = false
		}
		if before, known := s.types.known(class.Name); known && err == nil && before.problem == "" && same(before.list, offers) {
			classes[class.Name] = before
			continue
		}
		changed = true
		o.list = offers
		for _, t := range offers {
			o.byName[t.Name], o.partitions = t, t.Partitions
			o.message.Types = append(o.message.Types, instanceType(t))
		}
		classes[class.Name] = o
	}
	s.types.mu.Lock()
	defer s.types.mu.Unlock()
	before := len(s.types.classes)
	s.types.classes = classes
	if changed || len(classes) != before {
		s.types.changes++
	}
	return complete
}

// same reports whether two answers of the cloud are the same list.
func same(a, b []catalog.InstanceType) bool {
	return len(a) == len(b) && len(a) > 0 && &a[0] == &b[0]
}
