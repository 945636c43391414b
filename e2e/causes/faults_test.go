package causes_test

import (
	"context"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-k8s/slipway/e2e/aws"
)

// remove deletes an object of the cause that is in no namespace. It does not wait: the sandbox ends with the test.
func (i *injected) remove(o client.Object) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := client.IgnoreNotFound(i.API.Delete(ctx, o)); err != nil {
		i.t.Errorf("deleting %s: %v", o.GetName(), err)
	}
}

// fault makes AWS, or the machines of the cause, fail as its words say, until the cause has been seen.
func (i *injected) fault() {
	i.t.Helper()
	words := strings.Fields(i.Fault)
	if len(words) == 0 {
		return
	}
	const long = time.Hour
	switch verb, args := words[0], words[1:]; verb {
	case "ice": // an instance type, a zone and a capacity type, each of which may be all
		i.AWS().ICE(args[0], args[1], args[2], long)
	case "hold":
		i.t.Cleanup(i.HoldMachines(i.Name))
	case "quota":
		i.AWS().SetQuota(args[0], 0)
		i.t.Cleanup(func() { i.AWS().SetQuota(args[0], -1) })
	case "spot-role":
		i.AWS().SetSpotRole(false)
		i.t.Cleanup(func() { i.AWS().SetSpotRole(true) })
	case "throttle":
		i.AWS().Throttle(long)
		i.t.Cleanup(func() { i.AWS().Throttle(0) })
	case "down":
		i.AWS().Down(long)
		i.t.Cleanup(func() { i.AWS().Down(0) })
	case "reserve":
		i.AWS().AddCapacityReservation(aws.CapacityReservation{InstanceType: args[0], Zone: args[1], Total: 1})
	default:
		i.t.Fatalf("fault %q is not known", i.Fault)
	}
}
