package aws

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slipway-k8s/slipway/e2e/aws/wire"
)

// managedResources is the path of the resources that may be shifted.
const managedResources = " /managedresources/"

// ZonalShifts is ARC's zonal shift of the cluster. Its methods may be called concurrently.
type ZonalShifts struct {
	// arn is that of the cluster, zones are the IDs of its zones.
	arn   string
	zones []string

	mu sync.Mutex
	// count is the number of all shifts, now the last one; nil if there is none.
	count int
	now   *zonalShift
}

type zonalShift struct {
	awayFrom      string
	start, expiry time.Time
}

// Away starts a zonal shift of the cluster away from a zone, by its ID, for the time d. It replaces one that is in effect.
func (z *ZonalShifts) Away(zoneID string, d time.Duration) error {
	if !slices.Contains(z.zones, zoneID) {
		return fmt.Errorf("starting a zonal shift: no zone has the ID %q, expected one of %v", zoneID, z.zones)
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	z.count++
	z.now = &zonalShift{zoneID, time.Now(), time.Now().Add(d)}
	return nil
}

// Back cancels the zonal shift.
func (z *ZonalShifts) Back() {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.now = nil
}

// serve serves the REST API: GET /managedresources/ARN, of the cluster.
func (z *ZonalShifts) serve(r wire.Request) (any, error) {
	arn, ok := strings.CutPrefix(r.Action, http.MethodGet+managedResources)
	if !ok {
		return nil, wire.UnknownAction(r)
	}
	if arn != z.arn {
		return nil, wire.Errorf("ResourceNotFoundException", "Resource not found: %s", arn).WithStatus(http.StatusNotFound)
	}
	weights, shifts := map[string]float64{}, []map[string]any{}
	for _, id := range z.zones {
		weights[id] = 1
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if s := z.now; s != nil && s.expiry.After(time.Now()) {
		weights[s.awayFrom] = 0
		shifts = append(shifts, map[string]any{
			"appliedStatus": "APPLIED", "awayFrom": s.awayFrom, "comment": "sandbox", "resourceIdentifier": arn, "zonalShiftId": fmt.Sprintf("shift-%d", z.count),
			"startTime": wire.EpochSeconds(s.start), "expiryTime": wire.EpochSeconds(s.expiry), "shiftType": "ZONAL_SHIFT",
		})
	}
	return map[string]any{
		"arn": arn, "name": arn[strings.LastIndex(arn, "/")+1:], "appliedWeights": weights, "zonalShifts": shifts, "autoshifts": []any{},
		"zonalAutoshiftStatus": "DISABLED",
	}, nil
}
