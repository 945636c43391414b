package launch

import (
	"cmp"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// explain describes failures by EC2's error codes, with what lifts them.
func explain(failures []cloud.OfferingFailure) string {
	if len(failures) == 0 {
		return "none of its instance types is offered and available in its zones and capacity types"
	}
	list := make([]ec2error.Failure, 0, len(failures))
	for _, f := range failures {
		list = append(list, ec2error.Failure{
			Refusal: ec2error.Refusal{Code: f.Reason, Since: f.Since, Attempts: f.Attempts}, Message: f.Message,
			InstanceType: f.Option.InstanceType, CapacityType: f.Option.CapacityType, Zone: f.Option.Zone,
		})
	}
	return ec2error.NoInstance + ec2error.Summarize(list).String()
}

// reasonOf returns the one reason that all failures share, or else insufficient capacity.
func reasonOf(failures []cloud.OfferingFailure) string {
	reason := ""
	for _, f := range failures {
		if f.Condition == "" || reason != "" && reason != f.Condition {
			return ec2error.ReasonInsufficientCapacity
		}
		reason = f.Condition
	}
	return cmp.Or(reason, ec2error.ReasonInsufficientCapacity)
}

const (
	// showAgain is how often the condition of a waiting claim is written while the error stays the same.
	showAgain = 30 * time.Second
	// mostEvents bounds the Events about one waiting claim.
	mostEvents = 5
)

// trouble describes attempts that end in errors, one after the other. The zero value means that there are none.
type trouble struct {
	code ec2error.Code
	// since is the first attempt's end; attempts is how many there have been.
	since    time.Time
	attempts int
	// text is for the condition.
	text string
	// shownAt is when the condition was last written, with the code shown; events are those recorded so far.
	shownAt time.Time
	shown   ec2error.Code
	events  int
}

// next returns the trouble after one more attempt that ended in err.
func (t trouble) next(err error, now time.Time) trouble {
	code, operation := ec2error.Of(err)
	message := err.Error()
	if e, ok := cloud.AsLaunch(err); ok {
		code, message = cmp.Or(e.Code, code), e.Message
	} else if apierrors.ReasonForError(err) != "" {
		code, operation = "", ""
	}
	if t.attempts == 0 {
		t.since = now
	}
	t.code = code
	t.attempts++
	switch code {
	case "":
		t.text = fmt.Sprintf("no launch since %s, attempt %d", ec2error.Clock(t.since), t.attempts)
	default:
		t.text = fmt.Sprintf("%s from %s since %s, attempt %d", code, cmp.Or(operation, "EC2"), ec2error.Clock(t.since), t.attempts)
	}
	t.text += ": " + ec2error.Clip(message)
	if remedy := code.Remedy(""); remedy != "" {
		t.text += ". What to do: " + remedy
	}
	return t
}

// due reports whether the condition is to be written again, and whether an Event is to be recorded.
func (t trouble) due(now time.Time) (condition, event bool) {
	changed := t.shownAt.IsZero() || t.shown != t.code
	return changed || now.Sub(t.shownAt) >= showAgain, changed && t.events < mostEvents
}
