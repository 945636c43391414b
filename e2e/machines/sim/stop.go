package sim

import (
	"cmp"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/e2e/machines/delay"
)

// leastGrace is what is left to a container after its hook at least: minimumGracePeriodInSeconds of pkg/kubelet/kuberuntime.
const leastGrace = 2 * time.Second

// killed is the exit code of a container that SIGKILL ended.
const killed = 137

// forever is the duration of a hook that does not end by itself.
const forever = time.Duration(math.MaxInt64 / 4)

// containerStop is the end of one container of a pod whose deletion was requested.
type containerStop struct {
	at   time.Time
	code int32
}

// stopping is what the end of a pod's containers depends on.
type stopping struct {
	pod      *corev1.Pod
	plan     podPlan
	source   delay.Source
	signaled time.Time
	// needed is how long a container runs after SIGTERM.
	needed time.Duration
}

// stops returns the end of each container that runs at signaled, by name, as the kubelet's killContainer has it. The hook runs within the
// grace period. A sidecar waits for its turn in what is left. Then the container gets SIGTERM, and SIGKILL when the rest of the grace
// period has passed.
func (s stopping) stops() map[string]containerStop {
	out := map[string]containerStop{}
	var mains time.Time
	for _, c := range s.plan.containers {
		if s.runs(c) {
			out[c.name] = s.stop(c, time.Time{})
			mains = later(mains, out[c.name].at)
		}
	}
	turn := mains
	for _, c := range slices.Backward(s.plan.inits) {
		if !s.runs(c) {
			continue
		}
		if !c.sidecar {
			out[c.name] = s.stop(c, time.Time{})
			continue
		}
		out[c.name] = s.stop(c, turn)
		turn = later(turn, out[c.name].at)
	}
	return out
}

func (s stopping) runs(c containerPlan) bool {
	return !s.signaled.Before(c.start) && (c.finish.IsZero() || s.signaled.Before(c.finish))
}

// stop returns the end of one container, whose turn comes at a moment that is zero where it waits for no other.
func (s stopping) stop(c containerPlan, turn time.Time) containerStop {
	rest := s.source.Scale(30 * time.Second)
	if grace := s.pod.DeletionGracePeriodSeconds; grace != nil {
		rest = s.source.Scale(time.Duration(*grace) * time.Second)
	}
	at := s.signaled
	if hook, ok := hookTime(s.pod, c.name); ok && rest > 0 {
		took := min(s.source.Scale(hook), rest)
		at, rest = at.Add(took), rest-took
	}
	if turn.After(at) && rest > 0 {
		waited := min(turn.Sub(at), rest)
		at, rest = at.Add(waited), rest-waited
	}
	rest = max(rest, s.source.Scale(leastGrace))
	end := containerStop{at: at.Add(min(rest, s.needed))}
	if s.needed > rest {
		end.code = killed
	}
	// A container that ends by itself before that ends as it would have.
	if !c.finish.IsZero() && c.finish.Before(end.at) {
		end = containerStop{at: c.finish, code: c.exitCode}
	}
	return end
}

// last returns when the last of the containers has stopped; signaled where none runs.
func (s stopping) last(stops map[string]containerStop) time.Time {
	return slices.MaxFunc(append(slices.Collect(maps.Values(stops)), containerStop{at: s.signaled}),
		func(a, b containerStop) int { return a.at.Compare(b.at) }).at
}

// hookTime returns how long the preStop hook of a container runs if nothing ends it. Nothing runs in a simulated container: a program
// other than sleep, and a server that is asked by HTTP, take as long as the pod says, or no time.
func hookTime(pod *corev1.Pod, container string) (time.Duration, bool) {
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if c.Name != container || c.Lifecycle == nil || c.Lifecycle.PreStop == nil {
			continue
		}
		said, _ := annotatedDuration(pod, HookTakesAnnotation)
		switch hook := c.Lifecycle.PreStop; {
		case hook.Sleep != nil:
			return time.Duration(hook.Sleep.Seconds) * time.Second, true
		case hook.Exec != nil:
			if d, ok := sleeps(hook.Exec.Command); ok {
				return d, true
			}
			return said, true
		case hook.HTTPGet != nil:
			return said, true
		}
	}
	return 0, false
}

// sleeps returns how long a command sleeps: sleep itself, or a shell's script that calls it.
func sleeps(command []string) (total time.Duration, found bool) {
	words := strings.FieldsFunc(strings.Join(command, " "), func(r rune) bool { return strings.ContainsRune(" \t\n'\"()", r) })
	words = strings.Fields(strings.NewReplacer(";", " ; ", "&", " & ", "|", " | ").Replace(strings.Join(words, " ")))
	asleep := false
	for _, word := range words {
		d, ok := sleepTime(word)
		switch {
		case path.Base(word) == "sleep":
			asleep, found = true, true
		case asleep && ok:
			total = min(total+d, forever)
		default:
			asleep = false
		}
	}
	return total, found
}

// sleepTime reads an argument of sleep: seconds, or a number with s, m, h or d.
func sleepTime(word string) (time.Duration, bool) {
	if word == "infinity" || word == "inf" {
		return forever, true
	}
	unit, ok := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}[word[len(word)-1]]
	number := word
	if ok {
		number = word[:len(word)-1]
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || n < 0 || math.IsNaN(n) {
		return 0, false
	}
	return time.Duration(min(n*float64(cmp.Or(unit, time.Second)), float64(forever))), true
}
