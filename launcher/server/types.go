package server

import (
	"cmp"
	"context"
	"maps"
	"strings"
	"sync"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"k8s.io/klog/v2"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// typeCache holds the instance types of each class, as the cloud last returned them and NodeOverlays change them.
type typeCache struct {
	poked chan struct{}

	mu      sync.Mutex
	now     lists
	changes uint64
}

// lists holds the instance types that NodePools may launch; they are shared and not changed.
type lists struct {
	// by is by name of the EC2NodeClass, and by the keys of NodePools whose NodeOverlays make their list another.
	by map[string]offered
	// keys are those, by NodePool.
	keys map[string]string
}

// known returns the list of a NodePool, and whether it is known.
func (l lists) known(pool *karpv1.NodePool) (offered, bool) {
	o, ok := l.by[cmp.Or(l.keys[pool.Name], className(pool))]
	return o, ok
}

func (l lists) of(pool *karpv1.NodePool) offered {
	o, _ := l.known(pool)
	return o
}

// ofClaim returns the list that a NodeClaim was or is launched from.
func (l lists) ofClaim(claim *karpv1.NodeClaim) offered {
	class := ""
	if claim.Spec.NodeClassRef != nil {
		class = claim.Spec.NodeClassRef.Name
	}
	return l.by[cmp.Or(l.keys[claim.Labels[karpv1.NodePoolLabelKey]], class)]
}

// offered holds the instance types of a class, or of a NodePool; they are shared and not changed.
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
	return &typeCache{poked: make(chan struct{}, 1), now: lists{by: map[string]offered{}}}
}

// poke requests a refresh after a class changed.
func (t *typeCache) poke() {
	select {
	case t.poked <- struct{}{}:
	default:
	}
}

// get returns the current lists.
func (t *typeCache) get() lists {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.now
}

// version increases with each refresh; read it before the lists.
func (t *typeCache) version() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.changes
}

func (t *typeCache) known(class string) (offered, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o, ok := t.now.by[class]
	return o, ok
}

// retryTypes is when a class whose instance types could not be read is tried again.
const retryTypes = 2 * time.Second

// keepTypes refreshes the types whenever offerings or classes change, until ctx ends. It calls asked after each refresh.
func (s *Server) keepTypes(ctx context.Context, asked func()) {
	for {
		changed := s.config.Offers.Changed()
		again := (<-chan time.Time)(nil)
		if !s.refreshTypes(ctx) {
			again = time.After(retryTypes)
		}
		s.hub.notify()
		asked()
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
	next, raw := lists{by: make(map[string]offered, len(list.Items))}, make(map[string][]catalog.InstanceType, len(list.Items))
	for i := range list.Items {
		class := &list.Items[i]
		o := offered{byName: map[string]catalog.InstanceType{}, message: &api.InstanceTypes{NodeClass: class.Name}}
		offers, err := s.config.Offers.InstanceTypes(ctx, class)
		if err != nil {
			// The previous types stay: in-flight nodes keep their allocatable, and nothing new is launched meanwhile.
			if before, known := s.types.known(class.Name); known {
				o.byName, o.message, o.list, o.partitions = before.byName, before.message, before.list, before.partitions
				raw[class.Name] = before.list
			}
			o.problem = "the instance types of EC2NodeClass " + class.Name + " are not known: " + err.Error()
			complete = false
		}
		if before, known := s.types.known(class.Name); known && err == nil && before.problem == "" && same(before.list, offers) {
			next.by[class.Name], raw[class.Name] = before, offers
			continue
		}
		changed = true
		if err == nil {
			o.fill(offers)
			raw[class.Name] = offers
		}
		next.by[class.Name] = o
	}
	changed = s.types.overlay(ctx, s.config.Overlay, &next, raw) || changed
	s.types.mu.Lock()
	defer s.types.mu.Unlock()
	before := s.types.now
	s.types.now = next
	if changed || len(next.by) != len(before.by) || !maps.Equal(next.keys, before.keys) {
		s.types.changes++
	}
	return complete
}

// overlay adds the lists of NodePools that NodeOverlays make different, and reports whether any is new.
func (t *typeCache) overlay(ctx context.Context, apply Overlay, next *lists, raw map[string][]catalog.InstanceType) (changed bool) {
	if apply == nil {
		return false
	}
	result, err := apply(ctx, raw)
	if err != nil {
		klog.FromContext(ctx).Error(err, "NodeOverlays could not be read: those that were read last count")
	}
	next.keys = result.Keys
	for key, list := range result.Lists {
		if before, known := t.known(key); known && same(before.list, list) {
			next.by[key] = before
			continue
		}
		class, _, _ := strings.Cut(key, "/")
		o := offered{byName: map[string]catalog.InstanceType{}, message: &api.InstanceTypes{NodeClass: key}, problem: next.by[class].problem}
		o.fill(list)
		next.by[key], changed = o, true
	}
	return changed
}

// fill sets the list and what is made of it.
func (o *offered) fill(list []catalog.InstanceType) {
	o.list = list
	for _, t := range list {
		o.byName[t.Name], o.partitions = t, t.Partitions
		o.message.Types = append(o.message.Types, instanceType(t))
	}
}

// same reports whether two answers of the cloud are the same list.
func same(a, b []catalog.InstanceType) bool {
	return len(a) == len(b) && len(a) > 0 && &a[0] == &b[0]
}
