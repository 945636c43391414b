package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/slipway-k8s/slipway/e2e/sandbox/control"
	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/manifests"
	"github.com/slipway-k8s/slipway/plugin/link"
)

// startControl writes the administrator's kubeconfig, lets other commands find the sandbox and answers them.
func (s *Sandbox) startControl(ctx context.Context) (string, error) {
	if err := s.writeAdminKubeconfig(); err != nil {
		return "", err
	}
	if err := s.writeSamples(); err != nil {
		return "", err
	}
	s.run(ctx, "control socket", func(ctx context.Context) error { return control.Serve(ctx, s.claim.Folder, s) })
	return "", s.claim.Publish(control.State{
		Name: s.claim.Name, Folder: s.claim.Folder, PID: os.Getpid(), Started: time.Now(),
		Kubeconfig: s.KubeconfigPath(), AWS: s.AWSEndpoint(), Region: s.AWSRegion(),
		Logs: map[string]string{
			Scheduler: s.LogFile(Scheduler), Launcher: s.LogFile(Launcher), ControlPlane: s.LogFile(ControlPlane),
		},
	})
}

// writeAdminKubeconfig refuses to write over a file: it may be the user's only way to another cluster.
func (s *Sandbox) writeAdminKubeconfig() error {
	data, err := s.cp.KubeConfig("admin", "system:masters")
	if err != nil {
		return err
	}
	path := s.KubeconfigPath()
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	s.stops = append(s.stops, func() error { return os.Remove(path) })
	if _, err := file.Write(data); err != nil {
		return errors.Join(err, file.Close())
	}
	return file.Close()
}

// SamplesPath is a folder with sample manifests for this sandbox.
func (s *Sandbox) SamplesPath() string { return s.path("samples") }

func (s *Sandbox) writeSamples() error {
	samples, err := manifests.Samples()
	if err != nil {
		return err
	}
	if err := os.CopyFS(s.SamplesPath(), samples); err != nil {
		return err
	}
	return s.adaptSamples()
}

// Catalog reads one full state of the launcher's catalog, as a scheduler would, without taking its place.
func (s *Sandbox) Catalog(ctx context.Context) (catalog.State, error) {
	ctx, cancel := context.WithCancel(ctx)
	states := make(chan catalog.State, 1)
	reader, err := link.New(link.Config{
		Socket: s.Socket(),
		OnCatalog: func(update link.Update) {
			select {
			case states <- update.State:
			default:
			}
		},
		OnQuestion:   func(*api.Question) {},
		OnConnection: func(link.Connection) {},
	})
	if err != nil {
		cancel()
		return catalog.State{}, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		reader.RunCatalog(ctx)
	}()
	var state catalog.State
	select {
	case state = <-states:
	case <-ctx.Done():
		err = fmt.Errorf("reading the catalog: %w", ctx.Err())
	}
	cancel()
	<-done
	return state, errors.Join(err, reader.Close())
}
