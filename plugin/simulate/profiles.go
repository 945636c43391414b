package simulate

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	frameworkplugins "k8s.io/kubernetes/pkg/scheduler/framework/plugins"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/incremental"
	"github.com/slipway-k8s/slipway/plugin/simulate/input"
)

// Scheduler holds the profiles of a scheduler with the plugins that a simulation has.
type Scheduler struct {
	// Notes are sentences about what was left out.
	Notes    []string
	profiles []config.KubeSchedulerProfile
}

// ReadScheduler reads a KubeSchedulerConfiguration. Plugins that are not kube-scheduler's own are left out and noted, since this
// program does not have their code; slipway's own have no part in a simulation. It fails where kube-scheduler would.
func ReadScheduler(text []byte) (*Scheduler, error) {
	object, kind, err := scheme.Codecs.UniversalDecoder().Decode(text, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("scheduler configuration: %w", err)
	}
	cfg, ok := object.(*config.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("scheduler configuration: %s is not a KubeSchedulerConfiguration", kind)
	}
	if err := validation.ValidateKubeSchedulerConfiguration(cfg); err != nil {
		return nil, fmt.Errorf("scheduler configuration: %w", err)
	}
	s := &Scheduler{}
	if n := len(cfg.Extenders); n > 0 {
		s.Notes = append(s.Notes, "scheduler configuration: not asked: "+catalog.CountText(n, "extender"))
	}
	if err := incremental.Validate(cfg.Profiles); err != nil {
		return nil, fmt.Errorf("scheduler configuration: %w", err)
	}
	for _, p := range incremental.Stock(cfg.Profiles) {
		s.add(&p)
	}
	return s, nil
}

// add adds the profile without the plugins that are not kube-scheduler's own.
func (s *Scheduler) add(of *config.KubeSchedulerProfile) {
	known := frameworkplugins.NewInTreeRegistry()
	p := of.DeepCopy()
	strange := func(name string) bool {
		_, ok := known[name]
		if ok || name == "*" {
			return false
		}
		text := fmt.Sprintf("scheduler configuration: profile %s: plugin %s is not kube-scheduler's own and is left out", p.SchedulerName, name)
		if !ours(name) && !slices.Contains(s.Notes, text) {
			s.Notes = append(s.Notes, text)
		}
		return true
	}
	if p.Plugins != nil {
		for _, set := range []*config.PluginSet{
			&p.Plugins.PreEnqueue, &p.Plugins.QueueSort, &p.Plugins.PreFilter, &p.Plugins.Filter, &p.Plugins.PostFilter, &p.Plugins.PreScore,
			&p.Plugins.Score, &p.Plugins.Reserve, &p.Plugins.Permit, &p.Plugins.PreBind, &p.Plugins.Bind, &p.Plugins.PostBind, &p.Plugins.MultiPoint,
		} {
			set.Enabled = slices.DeleteFunc(set.Enabled, func(e config.Plugin) bool { return strange(e.Name) })
		}
	}
	p.PluginConfig = slices.DeleteFunc(p.PluginConfig, func(c config.PluginConfig) bool { return strange(c.Name) })
	s.profiles = append(s.profiles, *p)
}

// ours reports whether the plugin is one of slipway's.
func ours(name string) bool { return name == "NodeLaunch" || name == "NodeReserve" }

// Profiles returns the profiles, at least one. They are only read.
func (s *Scheduler) Profiles() []config.KubeSchedulerProfile { return s.profiles }

// profilesOf returns the scheduler's profiles, or kube-scheduler's default one if there are none. It adds a copy of the first for
// each other scheduler that a pod names.
func (s *Scheduler) profilesOf(pods []input.Pod) ([]config.KubeSchedulerProfile, error) {
	var out []config.KubeSchedulerProfile
	if s != nil {
		out = slices.Clone(s.profiles)
	}
	if len(out) == 0 {
		cfg, err := latest.Default()
		if err != nil {
			return nil, err
		}
		if out = cfg.Profiles; len(out) == 0 {
			return nil, errors.New("kube-scheduler's default configuration has no profile")
		}
	}
	have := map[string]bool{}
	for i := range out {
		have[out[i].SchedulerName] = true
	}
	for _, p := range pods {
		if name := p.Spec.SchedulerName; !have[name] {
			have[name] = true
			another := out[0].DeepCopy()
			another.SchedulerName = name
			out = append(out, *another)
		}
	}
	return out, nil
}
