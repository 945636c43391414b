package memory

import "sync"

// shifts are the zones that a zonal shift is away from, by their IDs.
type shifts struct {
	lock  sync.Mutex
	zones []string
}

// Shift makes these the zones that a zonal shift is away from, by their IDs: their instances are missing from Instances.
func (s *shifts) Shift(zoneIDs ...string) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.zones = zoneIDs
}

// ShiftedZones implements cloud.Cloud.
func (s *shifts) ShiftedZones() (zones map[string]bool, known bool) {
	s.lock.Lock()
	defer s.lock.Unlock()
	out := map[string]bool{}
	for _, id := range s.zones {
		out[id] = true
	}
	return out, true
}
