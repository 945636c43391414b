package aws

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
)

// shiftServer answers EKS and ARC, over their wire protocol, with the shifts that the test sets.
func shiftServer(t *testing.T, shifts *string) *Cloud {
	t.Helper()
	const arn = "arn:aws:eks:us-east-1:1:cluster/prod"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/clusters/prod":
			fmt.Fprintf(w, `{"cluster":{"name":"prod","arn":%q}}`, arn)
		case r.URL.Path == "/managedresources/"+arn && *shifts == "busy":
			w.Header().Set("X-Amzn-Errortype", "InternalServerException")
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprint(w, `{"message":"try again"}`)
		case r.URL.Path == "/managedresources/"+arn && *shifts == "":
			w.Header().Set("X-Amzn-Errortype", "ResourceNotFoundException")
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"message":"not registered"}`)
		case r.URL.Path == "/managedresources/"+arn:
			fmt.Fprintf(w, `{"arn":%q,"name":"prod","appliedWeights":{},"autoshifts":[],"zonalShifts":[%s]}`, arn, *shifts)
		default:
			t.Errorf("an unexpected call: %s %s", r.Method, r.URL.Path)
		}
	}))
	t.Cleanup(server.Close)
	c, err := New(Config{
		AWS: awssdk.Config{
			Region: "us-east-1", BaseEndpoint: &server.URL, HTTPClient: server.Client(),
			Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""),
			Retryer:     func() awssdk.Retryer { return awssdk.NopRetryer{} },
		},
		ClusterName: "prod", ZonalShift: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Client().CloseIdleConnections)
	return c
}

func shift(zone, status string, until time.Time) string {
	return fmt.Sprintf(`{"appliedStatus":%q,"awayFrom":%q,"comment":"","expiryTime":%d,"startTime":%d,"resourceIdentifier":"x","zonalShiftId":"1"}`,
		status, zone, until.Unix(), time.Now().Add(-time.Hour).Unix())
}

// Offerings of a zone that the cluster is shifted away from are unavailable until the shift expires or is canceled. Shifts that are not in effect
// change nothing, and neither does a failing call.
func TestZonalShift(t *testing.T) {
	later := time.Now().Add(time.Hour)
	shifts := shift("use1-a", "APPLIED", later) + "," + shift("use1-b", "NOT_APPLIED", later) + "," + shift("use1-c", "APPLIED", time.Now().Add(-time.Minute))
	c := shiftServer(t, &shifts)
	manyTypes(c, 1)
	class := nodeClass()
	for i := range class.Status.Subnets {
		class.Status.Subnets[i].ZoneID = "use1-" + class.Status.Subnets[i].Zone[len("us-east-1"):]
	}
	state := func() string {
		t.Helper()
		list, err := c.InstanceTypes(t.Context(), class)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		for _, o := range list[0].Offerings {
			out[o.Zone] = fmt.Sprintf("%t %s", o.Available, o.Refusal.Code)
			if o.Refusal.Code == ec2error.ZonalShift && o.UnavailableUntil.Unix() != later.Unix() {
				t.Errorf("the offering in %s is unavailable until %s, want %s", o.Zone, o.UnavailableUntil, later)
			}
		}
		return fmt.Sprint(out)
	}
	const normal, shifted = "map[us-east-1a:true  us-east-1b:true ]", "map[us-east-1a:false ZonalShift us-east-1b:true ]"
	if got := state(); got != normal {
		t.Fatalf("before: %s", got)
	}
	refresh := func(want string) {
		t.Helper()
		if begun, ended, err := c.refresh(t.Context()); err != nil || fmt.Sprint(begun, ended) != want {
			t.Fatalf("begun %v, ended %v, %v", begun, ended, err)
		}
	}
	refresh("[use1-a] []")
	c.changed.fire() // As Refresh does.
	if got := state(); got != shifted {
		t.Errorf("during the shift: %s", got)
	}
	shifts = ""
	if _, _, err := c.refresh(t.Context()); err == nil || !strings.Contains(err.Error(), "must be enabled") {
		t.Errorf("error %v of a cluster that is not registered", err)
	}
	if got := state(); got != shifted {
		t.Errorf("after a failed call: %s", got)
	}
	shifts = shift("use1-b", "NOT_APPLIED", later)
	refresh("[] [use1-a]")
	c.changed.fire()
	if got := state(); got != normal {
		t.Errorf("after the shift: %s", got)
	}
}

// A shift that expires ends without an answer of AWS.
func TestZonalShiftExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zonalShifts{}
		z.set(map[string]mark{"use1-a": {until: time.Now().Add(time.Hour)}}, time.Now())
		exhausted := func() bool {
			return z.over(map[string]offerZone{"us-east-1a": {id: "use1-a"}}, time.Now())["us-east-1a"].exhausted.holds(time.Now())
		}
		if !exhausted() {
			t.Error("the zone is not shifted")
		}
		time.Sleep(time.Hour)
		if exhausted() {
			t.Error("the zone is shifted still")
		}
	})
}

// Which zones are shifted is not known before AWS has answered, and it is not known after a failure that may pass. That the cluster is not registered is
// an answer, and without the setting AWS is not asked.
func TestShiftedZones(t *testing.T) {
	shifts := ""
	c := shiftServer(t, &shifts)
	unknown := func(when string) {
		t.Helper()
		if zones, known := c.ShiftedZones(); known || len(zones) > 0 {
			t.Errorf("zones %v, known %t %s", zones, known, when)
		}
	}
	zones := func() string {
		t.Helper()
		out, known := c.ShiftedZones()
		if !known {
			t.Error("the zones are not known")
		}
		return fmt.Sprint(out)
	}
	unknown("before AWS was asked")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := c.refresh(over); err == nil {
		t.Error("no error of a call that was cut off")
	}
	unknown("after a call that was cut off")
	shifts = "busy"
	if _, _, err := c.refresh(t.Context()); err == nil {
		t.Error("no error of a service that fails")
	}
	unknown("after a failure of the service")
	shifts = ""
	if _, _, err := c.refresh(t.Context()); err == nil {
		t.Error("no error of a cluster that is not registered")
	}
	if got := zones(); got != "map[]" {
		t.Errorf("zones %s of a cluster that is not registered", got)
	}
	later := time.Now().Add(time.Hour)
	shifts = shift("use1-a", "APPLIED", later) + "," + shift("use1-b", "NOT_APPLIED", later)
	if _, _, err := c.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := zones(); got != "map[use1-a:true]" {
		t.Errorf("zones %s", got)
	}
	off := newZonalShifts(awssdk.Config{}, "prod", false)
	if got, known := off.ShiftedZones(); !known || len(got) > 0 {
		t.Errorf("without the setting: %v, known %t", got, known)
	}
}
