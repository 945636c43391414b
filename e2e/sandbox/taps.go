package sandbox

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/slipway-k8s/slipway/e2e/tap"
)

// Replica returns the name of the n-th Scheduler or Launcher, from 1.
func Replica(name string, n int) string {
	if n == 1 {
		return name
	}
	return fmt.Sprintf("%s-%d", name, n)
}

// programOf returns the program of a Replica's name.
func programOf(name string) string {
	program, _, _ := strings.Cut(name, "-")
	return program
}

// Journal returns the journal of the effects of all processes; nil where the sandbox has no taps.
func (s *Sandbox) Journal() *tap.Journal { return s.journal }

// Taps returns a process's taps: to the API server and, for a launcher, to AWS. It returns none where the sandbox has no
// taps.
func (s *Sandbox) Taps(process string) []*tap.Tap { return s.taps[process] }

// tapKubernetes returns a kubeconfig for a tap, which acts as the user.
func (s *Sandbox) tapKubernetes(ctx context.Context, process, user string, groups ...string) ([]byte, error) {
	config, err := s.cp.RESTConfig(user, groups...)
	if err != nil {
		return nil, err
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	endpoint, err := s.tap(ctx, tap.Config{Process: process, Server: s.cp.Endpoint(), Transport: transport, Read: tap.Kubernetes})
	if err != nil {
		return nil, err
	}
	const name = "tapped"
	return clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: endpoint}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	})
}

// tapAWS returns the URL of a tap to AWS.
func (s *Sandbox) tapAWS(ctx context.Context, process string) (string, error) {
	return s.tap(ctx, tap.Config{Process: process, Server: s.AWSEndpoint(), Transport: &http.Transport{}, Read: tap.AWS})
}

func (s *Sandbox) tap(ctx context.Context, cfg tap.Config) (string, error) {
	cfg.Journal = s.journal
	t, err := tap.New(cfg)
	if err != nil {
		return "", err
	}
	s.taps[cfg.Process] = append(s.taps[cfg.Process], t)
	s.run(ctx, "tap of "+cfg.Process, t.Run)
	return t.URL(), nil
}
