package webapi

import (
	"context"
	_ "embed" // The description is a file.
	"encoding/json"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	karpapis "sigs.k8s.io/karpenter/pkg/apis"

	"github.com/slipway-k8s/slipway/launcher/view"
	"github.com/slipway-k8s/slipway/ui"
)

// route is a path that is served.
type route struct {
	// path as http.ServeMux has it.
	path string
	// summary is the path's line in the description.
	summary string
	// query are the parameters behind the question mark, each with its meaning.
	query map[string]string
	// needs returns what the viewer has to be allowed to see; nil where every viewer may.
	needs func(*http.Request) resource
	// also returns what the viewer has to be allowed to see as well; nil where needs is all.
	also func(*http.Request) resource
	// answer returns what is sent.
	answer func(*http.Request) (document, error)
	// more is what a viewer has to be allowed to see to get what full returns; nil where answer is all.
	more func(*http.Request) resource
	// full returns what is sent in the place of answer to viewers who may see more.
	full func(*http.Request) (document, error)
	// body is a zero value of the answer's type.
	body any
}

// routes returns all paths.
func (s *Server) routes() []route {
	return []route{
		{path: "/api/v1/openapi.json", summary: "This description", answer: s.description},
		{path: "/api/v1/nodes", summary: "Nodes, and what they cost; for who may list NodeClaims", needs: claims("list"), answer: s.listNodes, body: Nodes{}},
		{path: "/api/v1/nodes/{name}", summary: "A node, by its name or its NodeClaim's; for who may get NodeClaims", needs: claims("get"), answer: s.getNode, body: Node{}},
		{
			path: "/api/v1/nodes/{name}/pods", summary: "The pods of a node; for who may list the namespace's pods",
			query: map[string]string{"namespace": "that of the pods; all, if it is left out"}, needs: pods("list"), answer: s.listNodePods, body: NodePods{},
		},
		{
			path: "/api/v1/pods", summary: "Where pods stand, and why some are pending; for who may list the namespace's pods",
			query: map[string]string{"namespace": "that of the pods; all, if it is left out"}, needs: pods("list"), answer: s.listPods, body: Pods{},
		},
		{
			path:    "/api/v1/namespaces/{namespace}/pods/{name}",
			summary: "A pod, and what has happened to it; for who may get it. Its images are there for who may list the namespace's Events",
			needs:   pods("get"), answer: s.getPod, more: podEvents, full: s.getPodWithEvents, body: Pod{},
		},
		{path: "/api/v1/faults", summary: "What EC2 refuses now, and until when; for who may list NodeClaims", needs: claims("list"), answer: s.listFaults, body: Faults{}},
		{path: "/api/v1/prices", summary: "What launches are planned with, prices and what EC2 refuses, as slipway simulate --prices reads it; for who may list NodeClaims", needs: claims("list"), answer: s.listPrices, body: view.Prices{}},
		{
			path: "/api/v1/decisions", summary: "What was decided about nodes in the last 24 hours, and why; for who may list NodeClaims", needs: claims("list"),
			answer: func(*http.Request) (document, error) { return encoded(Decisions{Decisions: s.config.Decisions()}) }, body: Decisions{},
		},
		{
			path: "/api/v1/consolidation", summary: "Which nodes are worth removing, and why the others stay; for who may list NodeClaims, and pods of all namespaces, which reasons name",
			needs: claims("list"), also: func(*http.Request) resource { return resource{verb: "list", plural: "pods"} },
			answer: func(*http.Request) (document, error) {
				return encoded(Consolidation{Consolidation: s.config.Consolidation(), Standby: !s.config.Leading()})
			}, body: Consolidation{},
		},
	}
}

// Handler returns what answers requests.
func (s *Server) Handler(access Access) http.Handler {
	mux := http.NewServeMux()
	for _, r := range s.routes() {
		mux.Handle("GET "+r.path, s.known(access, r))
	}
	mux.Handle(ui.Path, s.page)
	mux.Handle("GET /{$}", http.RedirectHandler(ui.Path, http.StatusFound))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, apierrors.NewGenericServerResponse(http.StatusNotFound, r.Method, schema.GroupResource{}, "", "see /api/v1/openapi.json", 0, false))
	})
	return mux
}

// claims returns what a request about NodeClaims asks to see. They have no namespace, and a node's name is not always its NodeClaim's: who may
// get one has to be allowed to get all.
func claims(verb string) func(*http.Request) resource {
	return func(*http.Request) resource { return resource{verb: verb, group: karpapis.Group, plural: "nodeclaims"} }
}

// pods returns what a request about pods asks to see: one of them, or those of a namespace or of all.
func pods(verb string) func(*http.Request) resource {
	return func(r *http.Request) resource {
		namespace := r.PathValue("namespace")
		if verb == "list" {
			namespace = r.URL.Query().Get("namespace")
		}
		return resource{verb: verb, plural: "pods", namespace: namespace, name: r.PathValue("name")}
	}
}

// podEvents returns what a request about a pod asks to see of its Events.
func podEvents(r *http.Request) resource {
	return resource{verb: "list", plural: "events", namespace: r.PathValue("namespace")}
}

//go:embed openapi.json
var openapi []byte

func (s *Server) description(*http.Request) (document, error) {
	return encoded(json.RawMessage(openapi))
}

func (s *Server) listNodes(r *http.Request) (document, error) {
	ctx := context.WithoutCancel(r.Context()) // The answer may be computed for others.
	return s.nodes.get("", s.now, func() (document, error) {
		in, err := s.source.objects(ctx, "")
		if err != nil {
			return document{}, err
		}
		in.Now = s.now()
		return encoded(nodesOf(view.New(in)))
	})
}

func (s *Server) getNode(r *http.Request) (document, error) {
	claim, node, err := s.source.node(r.Context(), r.PathValue("name"))
	if err != nil {
		return document{}, err
	}
	in, err := s.source.objects(r.Context(), "")
	if err != nil {
		return document{}, err
	}
	in.Now = s.now()
	return encoded(Node{NodeRow: view.RowOf(claim, node, in), Timeline: view.NodeTimeline(claim, node)})
}

func (s *Server) listNodePods(r *http.Request) (document, error) {
	in, err := s.source.objects(r.Context(), r.URL.Query().Get("namespace"))
	if err != nil {
		return document{}, err
	}
	name := r.PathValue("name")
	return encoded(nodePodsOf(in, name, view.ClaimNamed(name, in.NodeClaims)))
}

func (s *Server) listPods(r *http.Request) (document, error) {
	namespace := r.URL.Query().Get("namespace")
	ctx := context.WithoutCancel(r.Context()) // The answer may be computed for others.
	return s.pods.get(namespace, s.now, func() (document, error) {
		in, err := s.source.objects(ctx, namespace)
		if err != nil {
			return document{}, err
		}
		in.Now = s.now()
		return encoded(podsOf(in))
	})
}

func (s *Server) getPod(r *http.Request) (document, error) {
	return s.podAnswer(r, func(*corev1.Pod) ([]view.Moment, string) {
		return nil, "when images were pulled is for viewers who may list Events of the namespace"
	})
}

func (s *Server) getPodWithEvents(r *http.Request) (document, error) {
	return s.podAnswer(r, func(pod *corev1.Pod) ([]view.Moment, string) {
		if pod.Spec.NodeName == "" {
			return nil, "" // No kubelet has it.
		}
		ctx := context.WithoutCancel(r.Context()) // They may be read for others.
		stages, err := s.stages.get(string(pod.UID), s.now, func() ([]view.Moment, error) {
			events, err := s.config.Events(ctx, pod)
			return view.Stages(events), err
		})
		if err != nil {
			klog.FromContext(ctx).V(1).Info("The Events of a pod could not be listed", "pod", klog.KObj(pod), "err", err)
			return nil, "when images were pulled is not known: the launcher could not list the Events of the pod"
		}
		return stages, ""
	})
}

// podAnswer answers a request about a pod with the stages of its images and containers, or a note about why there are none.
func (s *Server) podAnswer(r *http.Request, read func(*corev1.Pod) ([]view.Moment, string)) (document, error) {
	pod, err := s.source.pod(r.Context(), r.PathValue("namespace"), r.PathValue("name"))
	if err != nil {
		return document{}, err
	}
	in, err := s.source.nodes(r.Context())
	if err != nil {
		return document{}, err
	}
	in.Now = s.now()
	stages, note := read(pod)
	out := podOf(pod, in, stages)
	if pod.Spec.NodeName != "" {
		out.Note = note
	}
	return encoded(out)
}

func (s *Server) listFaults(r *http.Request) (document, error) {
	ctx := context.WithoutCancel(r.Context()) // The answer may be computed for others.
	return s.faults.get("", s.now, func() (document, error) {
		in, err := s.source.nodes(ctx)
		if err != nil {
			return document{}, err
		}
		in.Now = s.now()
		out := faultsOf(view.Faults(s.config.Types(ctx), in.Now), view.Troubles(in))
		out.Standby = !s.config.Leading()
		return encoded(out)
	})
}

func (s *Server) listPrices(r *http.Request) (document, error) {
	ctx := context.WithoutCancel(r.Context()) // The answer may be computed for others.
	return s.prices.get("", s.now, func() (document, error) {
		out := view.PricesOf(s.config.Types(ctx), s.config.Rates(), s.now())
		if !s.config.Leading() {
			out.Standby, out.Refused = true, nil
		}
		return encoded(out)
	})
}
