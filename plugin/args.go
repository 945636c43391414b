package plugin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/slipway-k8s/slipway/plugin/batch"
	"github.com/slipway-k8s/slipway/plugin/provision/devices"
)

// Args are the arguments of NodeLaunch in KubeSchedulerConfiguration, profiles[].pluginConfig[] with the name
// NodeLaunch. Every field may be left out. All profiles that enable NodeLaunch must give the same.
type Args struct {
	metav1.TypeMeta `json:",inline"`

	// Socket is the path of the launcher's unix socket. Default /run/slipway/launcher.sock.
	Socket string `json:"socket,omitempty"`
	// BatchIdle is how long no pod may come before a batch closes whose owners are still creating pods. Default 1s.
	BatchIdle *metav1.Duration `json:"batchIdle,omitempty"`
	// BatchMax is how old a batch gets at most. Default 10s.
	BatchMax *metav1.Duration `json:"batchMax,omitempty"`
	// GangTimeout is how long the pods of a gang (label slipway.dev/gang, size slipway.dev/gang-size) wait for those that it
	// lacks before that is reported on them; they hold no other pod back. Default 30s.
	GangTimeout *metav1.Duration `json:"gangTimeout,omitempty"`
	// PlanTimeout is how long one plan may take. A plan for capacity buffers has a tenth of it, and a question of consolidation a fifth. Default 5s.
	PlanTimeout *metav1.Duration `json:"planTimeout,omitempty"`
	// PromiseTimeout is when a promised pod is released of which the launcher reports nothing more: above the launcher's own join
	// deadline. Default 6m.
	PromiseTimeout *metav1.Duration `json:"promiseTimeout,omitempty"`
	// PreferencePercent is how much more than the bill without them the preferences of a batch may cost: preferred node and pod
	// affinity, ScheduleAnyway spread, PreferNoSchedule taints. 0 to 100; 0 leaves them to the scheduler. Default 10.
	PreferencePercent *int32 `json:"preferencePercent,omitempty"`
	// SpotSharePercent is how much of a batch may be on spot instances of one type in one zone, as far as other nodes cost at
	// most SpotPremiumPercent more. 1 to 100; 100 for no limit. Default 50.
	SpotSharePercent *int32 `json:"spotSharePercent,omitempty"`
	// SpotPremiumPercent is how much more a node may cost for SpotSharePercent, or to be no bare metal. 1 to 100. Default 10.
	SpotPremiumPercent *int32 `json:"spotPremiumPercent,omitempty"`
	// NodeSharePercent is how much of a batch one node may hold, but that one pod, or those that must share a node, may always be
	// on one. 1 to 100; 100 for no limit. Default 100.
	NodeSharePercent *int32 `json:"nodeSharePercent,omitempty"`
	// PlanBudget is how much work a plan may be, as a multiple of the default: plans are better with more, and later. 1 to 64.
	// Default 1.
	PlanBudget *int32 `json:"planBudget,omitempty"`
	// WaitingCost is what an hour in which one pod waits costs, in USD: a stopped instance of a standby buffer is started where that costs less than the pods'
	// waiting for a cheaper node. 0 to 1000000. Default 36, a cent for a second.
	WaitingCost *int32 `json:"waitingCost,omitempty"`
	// ExpectGrowth means that pods of a Deployment that has grown for an hour get nodes with room for some that it is expected to add. Default true.
	ExpectGrowth *bool `json:"expectGrowth,omitempty"`
	// MinValuesPolicy is Strict (a node that cannot keep its NodePool's minValues is not launched) or BestEffort. Default Strict.
	MinValuesPolicy string `json:"minValuesPolicy,omitempty"`
	// Hooks on the Scheduler's fields: quicker batches, cheaper failures, fewer nodes for equal pods. Default true.
	Hooks *bool `json:"hooks,omitempty"`
	// Adopt names other schedulers whose unschedulable pods are served too: nodes are launched for them, and their scheduler
	// keeps the slots by nominatedNodeName. Default: none.
	Adopt []string `json:"adopt,omitempty"`
	// PreferLaunch is the priority below which a pod gets a new node rather than preempt others; it takes effect where
	// NodeLaunch comes before DefaultPreemption in the profile's postFilter. Default: none, every pod that can preempt does.
	PreferLaunch *int32 `json:"preferLaunch,omitempty"`
	// IgnoreDRARequests means that no node is launched for pods with ResourceClaims, as with Karpenter. Default true.
	IgnoreDRARequests *bool `json:"ignoreDRARequests,omitempty"`
	// DeviceTemplates declare the devices of instance types of which no node has published any, for IgnoreDRARequests false.
	DeviceTemplates []devices.Template `json:"deviceTemplates,omitempty"`
}

const (
	defaultSocket         = "/run/slipway/launcher.sock"
	defaultBatchIdle      = time.Second
	defaultBatchMax       = 10 * time.Second
	defaultPlanTimeout    = 5 * time.Second
	defaultPromiseTimeout = 6 * time.Minute
	defaultPreference     = 10
	defaultSpotShare      = 50
	defaultSpotPremium    = 10
	defaultNodeShare      = 100
	defaultPlanBudget     = 1
	defaultWaitingCost    = 36
	minValuesStrict       = "Strict"
	minValuesBestEffort   = "BestEffort"
)

// DecodeArgs reads the arguments as the scheduler's configuration gives them (nil for none), sets defaults and
// validates. An unknown field is an error.
func DecodeArgs(obj runtime.Object) (*Args, error) {
	args := &Args{}
	switch o := obj.(type) {
	case nil:
	case *runtime.Unknown:
		raw, err := yaml.YAMLToJSONStrict(o.Raw)
		if err != nil {
			return nil, fmt.Errorf("%s args: %w", NodeLaunchName, err)
		}
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.DisallowUnknownFields()
		if err := dec.Decode(args); err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s args: %w", NodeLaunchName, err)
		}
	default:
		return nil, fmt.Errorf("%s args: want a YAML object, got %T", NodeLaunchName, obj)
	}
	args.setDefaults()
	if errs := args.Validate(field.NewPath("args")); len(errs) > 0 {
		return nil, fmt.Errorf("%s: %w", NodeLaunchName, errs.ToAggregate())
	}
	return args, nil
}

func (a *Args) setDefaults() {
	if a.Socket == "" {
		a.Socket = defaultSocket
	}
	for _, d := range []struct {
		field **metav1.Duration
		value time.Duration
	}{
		{&a.BatchIdle, defaultBatchIdle},
		{&a.BatchMax, defaultBatchMax},
		{&a.GangTimeout, batch.DefaultGangTimeout},
		{&a.PlanTimeout, defaultPlanTimeout},
		{&a.PromiseTimeout, defaultPromiseTimeout},
	} {
		if *d.field == nil {
			*d.field = &metav1.Duration{Duration: d.value}
		}
	}
	if a.IgnoreDRARequests == nil {
		a.IgnoreDRARequests = new(true)
	}
	if a.ExpectGrowth == nil {
		a.ExpectGrowth = new(true)
	}
	if a.Hooks == nil {
		a.Hooks = new(true)
	}
	for _, n := range []struct {
		field **int32
		value int32
	}{
		{&a.PreferencePercent, defaultPreference},
		{&a.SpotSharePercent, defaultSpotShare},
		{&a.SpotPremiumPercent, defaultSpotPremium},
		{&a.NodeSharePercent, defaultNodeShare},
		{&a.PlanBudget, defaultPlanBudget},
		{&a.WaitingCost, defaultWaitingCost},
	} {
		if *n.field == nil {
			*n.field = new(n.value)
		}
	}
	if a.MinValuesPolicy == "" {
		a.MinValuesPolicy = minValuesStrict
	}
}

// Validate returns all errors in arguments that have their defaults, with the paths of their fields.
func (a *Args) Validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if !filepath.IsAbs(a.Socket) {
		errs = append(errs, field.Invalid(path.Child("socket"), a.Socket, "must be an absolute path"))
	} else if len(a.Socket) > 107 {
		// sockaddr_un holds 108 bytes with the final zero.
		errs = append(errs, field.TooLong(path.Child("socket"), a.Socket, 107))
	}
	errs = append(errs, positive(path.Child("batchIdle"), a.BatchIdle)...)
	errs = append(errs, positive(path.Child("batchMax"), a.BatchMax)...)
	errs = append(errs, positive(path.Child("gangTimeout"), a.GangTimeout)...)
	errs = append(errs, positive(path.Child("planTimeout"), a.PlanTimeout)...)
	errs = append(errs, positive(path.Child("promiseTimeout"), a.PromiseTimeout)...)
	if len(errs) == 0 && a.BatchMax.Duration < a.BatchIdle.Duration {
		errs = append(errs, field.Invalid(path.Child("batchMax"), a.BatchMax.Duration.String(),
			fmt.Sprintf("must not be less than batchIdle (%s)", a.BatchIdle.Duration)))
	}
	errs = append(errs, between(path.Child("preferencePercent"), a.PreferencePercent, 0, 100)...)
	errs = append(errs, between(path.Child("spotSharePercent"), a.SpotSharePercent, 1, 100)...)
	errs = append(errs, between(path.Child("spotPremiumPercent"), a.SpotPremiumPercent, 1, 100)...)
	errs = append(errs, between(path.Child("nodeSharePercent"), a.NodeSharePercent, 1, 100)...)
	errs = append(errs, between(path.Child("planBudget"), a.PlanBudget, 1, 64)...)
	errs = append(errs, between(path.Child("waitingCost"), a.WaitingCost, 0, 1_000_000)...)
	errs = append(errs, devices.Validate(path.Child("deviceTemplates"), a.DeviceTemplates)...)
	for i, name := range a.Adopt {
		if name == "" || slices.Contains(a.Adopt[:i], name) {
			errs = append(errs, field.Invalid(path.Child("adopt").Index(i), name, "must be the name of a scheduler, each once"))
		}
	}
	if a.MinValuesPolicy != minValuesStrict && a.MinValuesPolicy != minValuesBestEffort {
		errs = append(errs, field.NotSupported(path.Child("minValuesPolicy"), a.MinValuesPolicy, []string{minValuesStrict, minValuesBestEffort}))
	}
	return errs
}

func between(path *field.Path, n *int32, least, most int32) field.ErrorList {
	if *n < least || *n > most {
		return field.ErrorList{field.Invalid(path, *n, fmt.Sprintf("must be between %d and %d", least, most))}
	}
	return nil
}

func positive(path *field.Path, d *metav1.Duration) field.ErrorList {
	if d.Duration <= 0 {
		return field.ErrorList{field.Invalid(path, d.Duration.String(), "must be positive")}
	}
	return nil
}
