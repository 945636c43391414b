package webapi

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/sync/semaphore"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/view"
	"github.com/slipway-k8s/slipway/ui"
)

const (
	// mostRequests bounds the requests of known viewers that are answered at a time, and mostUnknown those whose viewers the API server is asked about; others
	// get 429. A viewer who is not known takes no place of one who is.
	mostRequests, mostUnknown = 32, 128
	// mostConnections bounds the connections of all clients, and mostStreams the requests that one of HTTP/2 has open: with headers of mostHeader and some 50 KiB
	// of buffers these are 150 MiB, of the 1 GiB that the chart gives the launcher, before it is known who asks. Others wait until a connection ends: without a
	// request it does after requestTimeout, or idleTimeout since its last one.
	mostConnections, mostStreams = 512, 8
	// requestTimeout bounds a request, and idleTimeout a connection without one.
	requestTimeout, idleTimeout = 30 * time.Second, 2 * time.Minute
	// mostHeader bounds a request's header, in bytes: a client certificate's chain is not in it, a token is.
	mostHeader = 32 << 10
)

// Config is what a Server needs. All fields but Events and the certificate's are required.
type Config struct {
	// Address to serve on, such as :8443.
	Address string
	// CertFile and KeyFile are the certificate and its key; both empty means one that is made at each start, which no client can verify.
	CertFile, KeyFile string
	// Kubernetes is the connection to the API server, which knows who asks and what they may see.
	Kubernetes *rest.Config
	// Indexers are the stores of the informers.
	Indexers Indexers
	// Types returns the instance types by EC2NodeClass, with what EC2 refuses now.
	Types func(ctx context.Context) map[string][]catalog.InstanceType
	// Rates returns the prices of what nodes use beside their instances; nil for the built-in ones.
	Rates func() *catalog.Rates
	// Decisions returns those of the last 24 hours, the latest first.
	Decisions func() []view.Decision
	// Consolidation returns what was decided last about removing nodes.
	Consolidation func() view.Consolidation
	// Events returns those about a pod, the most that a timeline needs; nil lists them at the API server.
	Events func(ctx context.Context, pod *corev1.Pod) ([]corev1.Event, error)
	// Leading reports whether the replica leads: a standby does not know what EC2 refuses and what consolidation decides.
	Leading func() bool
}

// Server serves the API.
type Server struct {
	config  Config
	clients kubernetes.Interface
	source  source
	// unknown and running bound requests before and after their viewers are known.
	unknown, running *semaphore.Weighted
	nodes            memo[document]
	pods             memo[document]
	faults           memo[document]
	prices           memo[document]
	// stages are those of pods' images and containers, by the pods' UIDs.
	stages memo[[]view.Moment]
	now    func() time.Time
	// page is that of package ui.
	page http.Handler
}

// New returns a Server that serves once Run is called.
func New(c Config) (*Server, error) {
	if c.Address == "" || c.Kubernetes == nil || c.Indexers == nil || c.Types == nil || c.Rates == nil || c.Decisions == nil || c.Consolidation == nil || c.Leading == nil {
		return nil, errors.New("webapi: Address, Kubernetes, Indexers, Types, Rates, Decisions, Consolidation and Leading are required")
	}
	clients, err := kubernetes.NewForConfig(c.Kubernetes)
	if err != nil {
		return nil, err
	}
	if c.Events == nil {
		c.Events = podEventsOf(clients)
	}
	page, err := ui.Handler()
	if err != nil {
		return nil, err
	}
	return &Server{
		page: page, config: c, clients: clients, source: source{c.Indexers}, now: time.Now,
		unknown: semaphore.NewWeighted(mostUnknown), running: semaphore.NewWeighted(mostRequests),
	}, nil
}

// Run serves until the context ends.
func (s *Server) Run(ctx context.Context) error {
	ca, err := clientCA(s.clients)
	if err != nil {
		return err
	}
	// Without the authority, tokens are still known: the controller reads it when it can.
	if err := ca.RunOnce(ctx); err != nil {
		klog.FromContext(ctx).V(1).Info("Client certificates are not known yet", "configMap", authenticationNamespace+"/"+authenticationConfigMap, "err", err)
	}
	go ca.Run(ctx, 1)
	access, err := delegated(s.clients, ca)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.config.Address)
	if err != nil {
		return fmt.Errorf("serving the API on %s: %w", s.config.Address, err)
	}
	return s.serve(ctx, listener, s.Handler(access))
}

// serve answers what connects to the listener until the context ends. It closes the listener.
func (s *Server) serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	defer func() { _ = listener.Close() }()
	certificate, err := s.certificate(ctx)
	if err != nil {
		return fmt.Errorf("reading the certificate of the API: %w", err)
	}
	server := &http.Server{
		Handler: handler, MaxHeaderBytes: mostHeader,
		ReadHeaderTimeout: requestTimeout, ReadTimeout: requestTimeout, WriteTimeout: 2 * requestTimeout, IdleTimeout: idleTimeout,
		HTTP2:     &http.HTTP2Config{MaxConcurrentStreams: mostStreams},
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: certificate, ClientAuth: tls.RequestClientCert},
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	klog.FromContext(ctx).Info("Serving the API", "address", listener.Addr().String())
	if err := server.ServeTLS(netutil.LimitListener(listener, mostConnections), "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the API on %s: %w", s.config.Address, err)
	}
	return nil
}

// certificate returns what returns the certificate of a connection: that of the files, which are read again when they change, or one that is made now.
func (s *Server) certificate(ctx context.Context) (func(*tls.ClientHelloInfo) (*tls.Certificate, error), error) {
	if s.config.CertFile != "" {
		files, err := certwatcher.New(s.config.CertFile, s.config.KeyFile)
		if err != nil {
			return nil, err
		}
		go func() {
			if err := files.Start(ctx); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "A renewed certificate of the API is not read until the launcher starts again", "file", s.config.CertFile)
			}
		}()
		return files.GetCertificate, nil
	}
	chain, key, err := cert.GenerateSelfSignedCertKey("slipway-launcher", []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}, []string{"localhost"})
	if err != nil {
		return nil, err
	}
	own, err := tls.X509KeyPair(chain, key)
	return func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &own, nil }, err
}

// known answers viewers that may see what they ask for.
func (s *Server) known(access Access, route route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
		defer cancel()
		viewer, err := s.who(access, r)
		if err != nil {
			refuse(w, err)
			return
		}
		if !s.running.TryAcquire(1) {
			refuse(w, apierrors.NewTooManyRequests(fmt.Sprintf("%d requests are being answered", mostRequests), 1))
			return
		}
		defer s.running.Release(1)
		for _, needs := range []func(*http.Request) resource{route.needs, route.also} {
			if err == nil && needs != nil {
				err = access.allows(ctx, viewer, needs(r))
			}
		}
		if err != nil {
			refuse(w, err)
			return
		}
		answer := route.answer
		if route.more != nil && access.allows(ctx, viewer, route.more(r)) == nil {
			answer = route.full
		}
		document, err := answer(r.WithContext(ctx))
		if err != nil {
			refuse(w, err)
			return
		}
		document.write(w, r)
	})
}

// who returns the viewer of a request.
func (s *Server) who(access Access, r *http.Request) (user.Info, error) {
	if !s.unknown.TryAcquire(1) {
		return nil, apierrors.NewTooManyRequests(fmt.Sprintf("the API server is asked about the viewers of %d requests", mostUnknown), 1)
	}
	defer s.unknown.Release(1)
	return access.who(r)
}

// write sends the document unless the client has it.
func (d document) write(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", "private, no-cache")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("ETag", d.tag)
	if r.Header.Get("If-None-Match") == d.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = w.Write(d.body) // The client may be gone.
}

// refuse sends an error as the API server does. One that is not the API server's is internal, and its text stays here.
func refuse(w http.ResponseWriter, err error) {
	var known apierrors.APIStatus
	if !errors.As(err, &known) {
		klog.Background().Error(err, "A request of the API was not answered")
		known = apierrors.NewInternalError(errors.New("the answer could not be computed: the launcher's log has the reason"))
	}
	status := known.Status()
	status.Kind, status.APIVersion = "Status", "v1"
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(status.Details.RetryAfterSeconds))
	}
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status)
}
