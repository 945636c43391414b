package terminate_test

import (
	"context"
	"errors"
	"slices"

	"github.com/cockroachdb/datadriven"

	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/cloud/memory"
)

// tracedCloud is EC2, whose terminations are logged.
type tracedCloud struct{ w *world }

func (c tracedCloud) Instances(ctx context.Context, sel cloud.Selector) ([]cloud.Instance, error) {
	return c.w.ec2.Instances(ctx, sel)
}

func (c tracedCloud) ShiftedZones() (zones map[string]bool, known bool) {
	switch c.w.shift {
	case "unread":
		return nil, false
	case "seen":
		return map[string]bool{zoneID: true}, true
	}
	return c.w.ec2.ShiftedZones()
}

func (c tracedCloud) Terminate(ctx context.Context, ids []string) error {
	if err := c.w.crash("terminate"); err != nil {
		return err
	}
	c.w.log("terminate %d instance", len(ids))
	return c.w.ec2.Terminate(ctx, ids)
}

// atEC2 begins or ends a zonal shift, changes what is known of it, has EC2 take the instance, or refuse to end it so many times.
func (w *world) atEC2(d *datadriven.TestData, arg string) {
	if d.Cmd == "shift" && (arg == "unread" || arg == "seen") {
		w.shift = arg
		return
	}
	if d.Cmd == "shift" {
		w.shift = ""
		w.ec2.Shift(map[string][]string{"": {zoneID}, "over": nil}[arg]...)
		return
	}
	if !d.HasArg("refuse") {
		w.ec2.Kill(w.ec2.Live()...)
		return
	}
	var times int
	d.ScanArgs(w.t, "refuse", &times)
	w.ec2.Fail(memory.Terminate, slices.Repeat([]error{errors.New("UnauthorizedOperation: You are not authorized to perform this operation")}, times)...)
}
