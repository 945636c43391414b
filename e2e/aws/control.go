package aws

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/slipway-k8s/slipway/e2e/aws/meter"
)

// controlPath is the path prefix of the control API.
const controlPath = "/_sandbox/"

// Command is the body of a request to the control API, a POST to /_sandbox/VERB. Each field lists the verbs that use it.
type Command struct {
	// Instance is an instance's id: interrupt (empty is any spot instance), rebalance, scheduled-change, terminate, cpu.
	Instance string `json:"instance,omitempty"`
	// InstanceType, Zone and CapacityType name a pool: ice. Empty and all both mean all.
	InstanceType string `json:"instanceType,omitempty"`
	// Zone of the pool.
	Zone string `json:"zone,omitempty"`
	// CapacityType of the pool.
	CapacityType string `json:"capacityType,omitempty"`
	// For is how long, as Go writes durations: ice, throttle, down, tags-after.
	For string `json:"for,omitempty"`
	// Count of instances: fail-join, reserve; of vCPUs: quota, negative for none; spot-role, where 0 takes the role away.
	Count int `json:"count,omitempty"`
	// Factor on the price: price; busy vCPUs: cpu.
	Factor float64 `json:"factor,omitempty"`
	// AL2023 and Bottlerocket name releases, such as v20260801 and 1.46.0: release. Empty is one of today.
	AL2023 string `json:"al2023,omitempty"`
	// Bottlerocket names a release.
	Bottlerocket string `json:"bottlerocket,omitempty"`
	// Image is an AMI: deprecate.
	Image string `json:"image,omitempty"`
	// Reservation of capacity: cancel-reservation.
	Reservation string `json:"reservation,omitempty"`
	// ReservationType is default or capacity-block, Interruptible whether its owner may reclaim it, Ends when it ends, if ever: reserve.
	ReservationType string `json:"reservationType,omitempty"`
	// Interruptible reservations are lent.
	Interruptible bool `json:"interruptible,omitempty"`
	// Ends is the end of the reservation.
	Ends time.Time `json:"ends,omitzero"`
	// Tags of what is made: reserve.
	Tags map[string]string `json:"tags,omitempty"`
	// Body of a message: send.
	Body string `json:"body,omitempty"`
}

// Reply is the response of the control API.
type Reply struct {
	// Error is why nothing was done; empty if it was.
	Error string `json:"error,omitempty"`
	// Instance is the interrupted one: interrupt.
	Instance string `json:"instance,omitempty"`
	// Instances are all: instances.
	Instances []Instance `json:"instances,omitempty"`
	// Count is the number of deleted objects: delete-templates.
	Count int `json:"count,omitempty"`
	// Reservation is the created one: reserve.
	Reservation string `json:"reservation,omitempty"`
	// Bill is the meter's: bill.
	Bill *meter.Bill `json:"bill,omitempty"`
	// Calls are those that arrived: calls.
	Calls []Call `json:"calls,omitempty"`
}

func (s *Server) serveControl(w http.ResponseWriter, in *http.Request) {
	status := http.StatusOK
	reply, err := s.control(in)
	if err != nil {
		status, reply.Error = http.StatusBadRequest, err.Error()
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(reply); err != nil {
		s.cfg.Logger.V(4).Info("The answer was not read", "err", err.Error())
	}
}

func (s *Server) control(in *http.Request) (Reply, error) {
	if in.Method != http.MethodPost {
		return Reply{}, fmt.Errorf("reading %s %s: only POST is supported", in.Method, in.URL.Path)
	}
	var c Command
	decoder := json.NewDecoder(in.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		return Reply{}, fmt.Errorf("reading %s: the body is invalid: %w", in.URL.Path, err)
	}
	verb := strings.TrimPrefix(in.URL.Path, controlPath)
	do, ok := s.verbs()[verb]
	if !ok {
		do, ok = s.accountVerbs()[verb]
	}
	if !ok {
		return Reply{}, fmt.Errorf("reading %s: there is no verb %q", in.URL.Path, verb)
	}
	reply, err := do(c)
	if err != nil {
		return reply, fmt.Errorf("running %s: %w", verb, err)
	}
	return reply, nil
}

func (s *Server) verbs() map[string]func(Command) (Reply, error) {
	lasting := func(do func(Command, time.Duration)) func(Command) (Reply, error) {
		return func(c Command) (Reply, error) {
			d, err := time.ParseDuration(c.For)
			if err != nil || d <= 0 {
				return Reply{}, fmt.Errorf("field for: %q is not a positive duration such as 3m", c.For)
			}
			do(c, d)
			return Reply{}, nil
		}
	}
	simple := func(do func(Command) error) func(Command) (Reply, error) {
		return func(c Command) (Reply, error) { return Reply{}, do(c) }
	}
	return map[string]func(Command) (Reply, error){
		"instances": func(Command) (Reply, error) { return Reply{Instances: s.Instances()}, nil },
		"calls":     func(Command) (Reply, error) { return Reply{Calls: s.Calls()}, nil },
		"interrupt": func(c Command) (Reply, error) {
			if c.Instance != "" {
				return Reply{Instance: c.Instance}, s.Interrupt(c.Instance)
			}
			id, err := s.InterruptOne()
			return Reply{Instance: id}, err
		},
		"rebalance":        simple(func(c Command) error { return s.Rebalance(c.Instance) }),
		"scheduled-change": simple(func(c Command) error { return s.ScheduledChange(c.Instance) }),
		"terminate":        simple(func(c Command) error { return s.Terminate(c.Instance) }),
		"send":             simple(func(c Command) error { return s.SendRaw(c.Body) }),
		"clear-ice":        simple(func(Command) error { s.ClearICE(); return nil }),
		"ice": func(c Command) (Reply, error) {
			if err := s.checkPool(c); err != nil {
				return Reply{}, err
			}
			return lasting(func(c Command, d time.Duration) { s.ICE(c.InstanceType, c.Zone, c.CapacityType, d) })(c)
		},
		"throttle": lasting(func(_ Command, d time.Duration) { s.Throttle(d) }),
		"down":     lasting(func(_ Command, d time.Duration) { s.Down(d) }),
		"fail-join": simple(func(c Command) error {
			if c.Count < 1 {
				return fmt.Errorf("field count: %d is not positive", c.Count)
			}
			s.FailNextJoins(c.Count)
			return nil
		}),
	}
}

// checkPool returns an error for misspelled names: a pool that does not exist would never lose its capacity.
func (s *Server) checkPool(c Command) error {
	if _, ok := s.table.Get(c.InstanceType); !ok && !covers(c.InstanceType, "") {
		return fmt.Errorf("field instanceType: there is no instance type %q", c.InstanceType)
	}
	if _, ok := s.resources.subnetIn(c.Zone); !ok && !covers(c.Zone, "") {
		return fmt.Errorf("field zone: there is no zone %q", c.Zone)
	}
	if !covers(c.CapacityType, Spot) && !covers(c.CapacityType, OnDemand) {
		return fmt.Errorf("field capacityType: %q is neither %s nor %s nor %s", c.CapacityType, Spot, OnDemand, all)
	}
	return nil
}
