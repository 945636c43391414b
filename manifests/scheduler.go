package manifests

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"sigs.k8s.io/yaml"
)

// SchedulerConfig returns one of the sample KubeSchedulerConfigurations, such as "scheduler/replace.yaml", with a kubeconfig and additional
// arguments of NodeLaunch in every profile that has it. With preferLaunch among them, NodeLaunch is put before DefaultPreemption, as the
// chart does.
func SchedulerConfig(name, kubeconfig string, args map[string]any) ([]byte, error) {
	documents, err := Documents(name)
	if err != nil {
		return nil, err
	}
	config, err := adapt(documents[0], kubeconfig, args)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return config, nil
}

func adapt(sample []byte, kubeconfig string, args map[string]any) ([]byte, error) {
	var config map[string]any
	if err := yaml.UnmarshalStrict(sample, &config); err != nil {
		return nil, err
	}
	connection, ok := config["clientConnection"].(map[string]any)
	if !ok {
		connection = map[string]any{}
		config["clientConnection"] = connection
	}
	connection["kubeconfig"] = kubeconfig
	profiles, _ := config["profiles"].([]any)
	set := 0
	for _, profile := range profiles {
		profile, _ := profile.(map[string]any)
		plugins, _ := profile["pluginConfig"].([]any)
		for _, plugin := range plugins {
			plugin, _ := plugin.(map[string]any)
			if plugin["name"] != "NodeLaunch" {
				continue
			}
			given, ok := plugin["args"].(map[string]any)
			if !ok {
				given = map[string]any{}
				plugin["args"] = given
			}
			maps.Copy(given, args)
			set++
			if given["preferLaunch"] != nil {
				launchFirst(profile)
			}
		}
	}
	if set == 0 {
		return nil, errors.New("no profile has a pluginConfig for NodeLaunch")
	}
	return yaml.Marshal(config)
}

// launchFirst moves DefaultPreemption to the end of the profile's PostFilter plugins.
func launchFirst(profile map[string]any) {
	plugins, _ := profile["plugins"].(map[string]any)
	post, _ := plugins["postFilter"].(map[string]any)
	enabled, _ := post["enabled"].([]any)
	last := func(entry any) int {
		plugin, _ := entry.(map[string]any)
		if plugin["name"] == "DefaultPreemption" {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(enabled, func(a, b any) int { return last(a) - last(b) })
}
