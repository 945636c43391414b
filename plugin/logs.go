package plugin

import (
	"context"
	"time"

	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// namedPods is how many pods a line of the log names, as Karpenter's does.
const namedPods = 5

// logPlan logs a plan in Karpenter's words, which people search logs for.
func logPlan(ctx context.Context, w *work, req *api.LaunchRequest, now time.Time) {
	// The room of capacity buffers is looked for again every second.
	if len(w.entries) == 0 || w.kind == api.Purpose_PURPOSE_BUFFER && len(req.GetClaims()) == 0 && !klog.FromContext(ctx).V(4).Enabled() {
		return
	}
	pods, first := make([]klog.ObjectRef, 0, namedPods), w.entries[0].At
	for i, e := range w.entries {
		if i < namedPods {
			pods = append(pods, klog.KObj(e.Pod))
		}
		if e.At.Before(first) {
			first = e.At
		}
	}
	logger := klog.FromContext(ctx).WithValues("batch", req.GetBatch())
	logger.Info("found provisionable pod(s)", "count", len(w.entries), "pods", pods, "duration", now.Sub(first))
	planned := 0
	for _, c := range req.GetClaims() {
		planned += len(c.GetPods())
	}
	if planned > 0 {
		logger.Info("computed new nodeclaim(s) to fit pod(s)", "nodeclaims", len(req.GetClaims()), "pods", planned)
	}
}

// loggedProblems are the mistakes in objects that the last plan found.
type loggedProblems map[plan.Problem]bool

// log logs the mistakes that a plan found in objects, each once as long as it stays, and returns those that are new.
func (l *loggedProblems) log(ctx context.Context, problems []plan.Problem) (news []plan.Problem) {
	seen := make(map[plan.Problem]bool, len(problems))
	for _, problem := range problems {
		if !(*l)[problem] && !seen[problem] {
			klog.FromContext(ctx).Info("A mistake in an object is left out of the plan", "object", problem.Object, "field", problem.Field, "problem", problem.Message)
			news = append(news, problem)
		}
		seen[problem] = true
	}
	*l = seen
	return news
}
