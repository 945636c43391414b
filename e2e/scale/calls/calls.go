// Package calls counts the requests of kube-apiserver's audit log, and lays what was measured out as tables. It starts no goroutine.
package calls

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"slices"
	"strings"
)

// Whole is the verb of a request that reads all objects of a resource: a list, or a watch that begins with one, of all namespaces and without
// a selector. Further pages of a list count as list.
const Whole = "list all"

// Call is what requests have in common that are counted together.
type Call struct {
	// Who sent them: the last part of the user's name, or "kubelets" for all Nodes.
	Who string
	// Verb is the API server's, or Whole.
	Verb string
	// Resource is what was asked for, such as pods or nodes/status.
	Resource string
}

// Counts are the numbers of requests.
type Counts map[Call]int

// event is what is read of an entry in the audit log.
type event struct {
	Stage, Verb string
	RequestURI  string
	User        struct{ Username string }
	ObjectRef   struct{ Resource, Subresource, Namespace, Name string }
	// RequestObject is an Event.
	RequestObject struct {
		InvolvedObject, Regarding struct{ Kind string }
	}
}

// Read adds the requests of complete lines to the counts, and returns how many bytes these lines have. What follows the last line break is for
// the next call.
func (c Counts) Read(log io.Reader) (int64, error) {
	lines, read := bufio.NewReader(log), int64(0)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return read, nil
		}
		if err != nil {
			return read, err
		}
		read += int64(len(line))
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return read, err
		}
		if call, counts := e.call(); counts {
			c[call]++
		}
	}
}

// call returns what the entry counts as. A watch counts when it is accepted, all else when it is answered.
func (e event) call() (call Call, counts bool) {
	stage := "ResponseComplete"
	if e.Verb == "watch" {
		stage = "ResponseStarted"
	}
	if e.Stage != stage || e.ObjectRef.Resource == "" {
		return Call{}, false
	}
	call = Call{Who: who(e.User.Username), Verb: e.Verb, Resource: e.ObjectRef.Resource}
	if e.ObjectRef.Subresource != "" {
		call.Resource += "/" + e.ObjectRef.Subresource
	}
	if kind := cmp.Or(e.RequestObject.InvolvedObject.Kind, e.RequestObject.Regarding.Kind); kind != "" && e.ObjectRef.Resource == "events" {
		call.Resource += " of " + kind
	}
	if e.whole() {
		call.Verb = Whole
	}
	return call, true
}

// whole reports whether the request reads all objects of its resource.
func (e event) whole() bool {
	if e.ObjectRef.Namespace != "" || e.ObjectRef.Name != "" || e.Verb != "list" && e.Verb != "watch" {
		return false
	}
	address, err := url.Parse(e.RequestURI)
	if err != nil {
		return false
	}
	query := address.Query()
	if query.Get("continue") != "" || query.Get("labelSelector") != "" || query.Get("fieldSelector") != "" {
		return false
	}
	return e.Verb == "list" || query.Get("sendInitialEvents") == "true"
}

// who is the last part of a user's name. Nodes are one.
func who(user string) string {
	if strings.HasPrefix(user, "system:node:") {
		return "kubelets"
	}
	return user[strings.LastIndexByte(user, ':')+1:]
}

// writes reports whether requests of the verb change something.
func writes(verb string) bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, verb)
}

// aboutPods reports whether there are as many of the requests as there are pods.
func aboutPods(resource string) bool {
	return resource == "pods" || strings.HasPrefix(resource, "pods/") || resource == "events of Pod"
}

// Writes is the number of requests of a user that change something, but for those about pods.
func (c Counts) Writes(who string) int {
	return c.sum(func(call Call) bool { return call.Who == who && writes(call.Verb) && !aboutPods(call.Resource) })
}

// PodWrites is the number of requests of a user that change pods, bind or evict them, or write Events about them.
func (c Counts) PodWrites(who string) int {
	return c.sum(func(call Call) bool { return call.Who == who && writes(call.Verb) && aboutPods(call.Resource) })
}

// Wholes is the number of requests of a user that read all pods, Nodes or NodeClaims.
func (c Counts) Wholes(who string) int {
	return c.sum(func(call Call) bool {
		return call.Who == who && call.Verb == Whole && slices.Contains([]string{"pods", "nodes", "nodeclaims"}, call.Resource)
	})
}

func (c Counts) sum(counts func(Call) bool) int {
	sum := 0
	for call, n := range c {
		if counts(call) {
			sum += n
		}
	}
	return sum
}

// Less returns the requests that are counted here and not in before.
func (c Counts) Less(before Counts) Counts {
	out := Counts{}
	for call, n := range c {
		if n -= before[call]; n != 0 {
			out[call] = n
		}
	}
	return out
}

// sorted lists the calls of a user, the most frequent first.
func (c Counts) sorted(who string) []Call {
	var out []Call
	for call := range c {
		if call.Who == who {
			out = append(out, call)
		}
	}
	slices.SortFunc(out, func(a, b Call) int {
		return cmp.Or(c[b]-c[a], strings.Compare(a.Verb, b.Verb), strings.Compare(a.Resource, b.Resource))
	})
	return out
}
