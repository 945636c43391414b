package plugin_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/slipway-k8s/slipway/plugin"
)

func TestDecodeArgs(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		// wantErr are parts of the error; none for a valid text.
		wantErr []string
		check   func(*plugin.Args) bool
	}{
		{name: "defaults", text: "{}", check: isDefault},
		{name: "all given", text: "socket: /s\nbatchIdle: 2s\nbatchMax: 3s\nplanTimeout: 4s\npromiseTimeout: 7m\nhooks: false\npreferLaunch: 100\n" +
			"gangTimeout: 8s\npreferencePercent: 0\nminValuesPolicy: BestEffort\n" +
			"spotSharePercent: 30\nspotPremiumPercent: 5\nnodeSharePercent: 20\nplanBudget: 4\n" +
			"ignoreDRARequests: false\ndeviceTemplates: [{instanceTypes: [g5.xlarge], driver: gpu.example.com, devices: [{name: gpu, count: 2, " +
			"attributes: {model: {string: A10G}, slot: {int: 1}}, capacity: {memory: {value: 24Gi}}}]}]", check: isAllGiven},
		{name: "more than everything", text: "preferencePercent: 101", wantErr: []string{"args.preferencePercent", "between 0 and 100"}},
		{name: "less than nothing", text: "preferencePercent: -1", wantErr: []string{"args.preferencePercent"}},
		{name: "no share", text: "spotSharePercent: 0", wantErr: []string{"args.spotSharePercent", "between 1 and 100"}},
		{name: "no premium", text: "spotPremiumPercent: 0", wantErr: []string{"args.spotPremiumPercent"}},
		{name: "no share of a node", text: "nodeSharePercent: 0", wantErr: []string{"args.nodeSharePercent"}},
		{name: "no budget", text: "planBudget: 65", wantErr: []string{"args.planBudget", "between 1 and 64"}},
		{name: "unknown policy", text: "minValuesPolicy: Lax", wantErr: []string{"args.minValuesPolicy", "BestEffort"}},
		{name: "no time for gangs", text: "gangTimeout: 0s", wantErr: []string{"args.gangTimeout", "positive"}},
		{name: "kind and version may be named", text: "apiVersion: slipway.dev/v1\nkind: NodeLaunchArgs", check: func(*plugin.Args) bool { return true }},
		{name: "unknown field", text: "batchIdel: 1s", wantErr: []string{"batchIdel"}},
		{name: "field given twice", text: "socket: /a\nsocket: /b", wantErr: []string{"socket"}},
		{name: "no duration", text: "batchIdle: soon", wantErr: []string{"soon"}},
		{name: "negative duration", text: "batchIdle: -1s", wantErr: []string{"args.batchIdle", "positive"}},
		{name: "windows in the wrong order", text: "batchIdle: 20s", wantErr: []string{"args.batchMax", "batchIdle"}},
		{name: "relative socket", text: "socket: launcher.sock", wantErr: []string{"args.socket", "absolute"}},
		{name: "all errors at once", text: "socket: x\nplanTimeout: 0s", wantErr: []string{"args.socket", "args.planTimeout"}},
		{name: "adopted twice", text: "adopt: [default-scheduler, default-scheduler]", wantErr: []string{"args.adopt[1]", "once"}},
		{name: "templates without devices", text: "deviceTemplates: [{instanceTypes: [g5.xlarge], driver: gpu.example.com}]", wantErr: []string{"args.deviceTemplates[0].devices", "1 to 128"}},
		{
			name: "templates of nothing", text: "deviceTemplates: [{driver: GPU, devices: [{name: gpu, count: 200}]}]",
			wantErr: []string{"args.deviceTemplates[0].instanceTypes", "args.deviceTemplates[0].driver", "args.deviceTemplates[0].devices[0].count"},
		},
		{name: "two templates of one driver", text: "deviceTemplates: [{instanceTypes: [a, a], driver: gpu, devices: [{name: gpu}]}]", wantErr: []string{"args.deviceTemplates[0].instanceTypes", "Duplicate"}},
		{name: "adopted none", text: "adopt: [\"\"]", wantErr: []string{"args.adopt[0]"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			args, err := plugin.DecodeArgs(&runtime.Unknown{Raw: []byte(tc.text)})
			if tc.check != nil && (err != nil || !tc.check(args)) {
				t.Errorf("args %+v, error %v", args, err)
			}
			for _, part := range tc.wantErr {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("error %v does not name %q", err, part)
				}
			}
		})
	}
	if args, err := plugin.DecodeArgs(nil); err != nil || !isDefault(args) {
		t.Errorf("without args: %v, %v", args, err)
	}
}

func isDefault(a *plugin.Args) bool {
	return a.Socket == "/run/slipway/launcher.sock" && *a.Hooks && a.PreferLaunch == nil &&
		a.BatchIdle.Duration == time.Second && a.BatchMax.Duration == 10*time.Second &&
		a.GangTimeout.Duration == 30*time.Second && *a.PreferencePercent == 10 && a.MinValuesPolicy == "Strict" &&
		*a.SpotSharePercent == 50 && *a.SpotPremiumPercent == 10 && *a.IgnoreDRARequests && *a.NodeSharePercent == 100 && *a.PlanBudget == 1 &&
		a.PlanTimeout.Duration == 5*time.Second && a.PromiseTimeout.Duration == 6*time.Minute
}

func isAllGiven(a *plugin.Args) bool {
	return a.Socket == "/s" && a.BatchIdle.Duration == 2*time.Second && !*a.Hooks && *a.PreferLaunch == 100 &&
		a.GangTimeout.Duration == 8*time.Second && *a.PreferencePercent == 0 && a.MinValuesPolicy == "BestEffort" &&
		!*a.IgnoreDRARequests && a.DeviceTemplates[0].Devices[0].Count == 2 && *a.SpotSharePercent == 30 && *a.SpotPremiumPercent == 5 && *a.NodeSharePercent == 20 && *a.PlanBudget == 4
}
