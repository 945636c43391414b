package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/slipway-k8s/slipway/e2e/aws"
)

// serve runs `aws serve` until the test ends and returns its URL.
func serve(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	lines, done := make(chan string, 1), make(chan error, 1)
	cmd := newCommand()
	cmd.SetOut(firstWrite(lines))
	cmd.SetArgs([]string{"aws", "serve", "--cluster", "prod", "--speed", "1000"})
	go func() { done <- cmd.ExecuteContext(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	select {
	case line := <-lines:
		_, rest, _ := strings.Cut(line, "AWS_ENDPOINT_URL=")
		return strings.Fields(rest)[0]
	case err := <-done:
		done <- nil
		t.Fatal(err)
	case <-time.After(5 * time.Minute):
		t.Fatal("aws serve does not say where it is")
	}
	return ""
}

// firstWrite sends the first write to the channel.
type firstWrite chan<- string

// Write implements io.Writer.
func (w firstWrite) Write(p []byte) (int, error) {
	select {
	case w <- string(p):
	default:
	}
	return len(p), nil
}

// Every command reaches an AWS that runs alone, and reports invalid arguments.
func TestAccountCommands(t *testing.T) {
	url := serve(t)
	for _, tc := range []struct{ line, says, fails string }{
		{line: "quota on-demand 64", says: "64 vCPUs of on-demand"},
		{line: "quota spot none", says: "no limit of spot vCPUs"},
		{line: "quota spot many", fails: "want a number of vCPUs"},
		{line: "quota free 1", fails: "capacityType"},
		{line: "spot-role missing", says: "Spot launches fail"},
		{line: "spot-role gone", fails: "want present or missing"},
		{line: "price m5.large 1.5", says: "1.5 times"},
		{line: "price m5.large dear", fails: "want a factor"},
		{line: "price m5.lagre 2", fails: "no instance type"},
		{line: "delete-templates", says: "0 launch templates deleted"},
		{line: "release --al2023 v20990101 --bottlerocket 1.99.0", says: "New AMIs are released"},
		{line: "deprecate ami-1", fails: "does not exist"},
		{line: "reserve m5.large us-east-1a 2 --tag team=a", says: "cr-"},
		{line: "reserve m5.large us-east-1a two", fails: "want a number of instances"},
		{line: "reserve m5.large us-east-1a 2 --type capacity-block --ends-in 1h", says: "cr-"},
		{line: "reserve m5.large us-east-1a 2 --interruptible", says: "cr-"},
		{line: "reserve m5.large us-east-1a 2 --type capacity-block", fails: "a Capacity Block has an end"},
		{line: "reserve m5.large us-east-1a 2 --type block", fails: "neither default nor capacity-block"},
		{line: "reserve m5.large us-east-1a 2 --ends-in -1h", fails: "is over"},
		{line: "cancel-reservation cr-1", fails: "no capacity reservation"},
		{line: "tags-after 5s", says: "after 5s"},
		{line: "tags-after soon", fails: "want a duration"},
		{line: "throttle --for 1ms", says: "AWS throttles every call until"},
		{line: "down --for 1ms", says: "AWS fails every call until"},
		{line: "ice m5.large all spot --for 1ms", says: "EC2 has no capacity until"},
		{line: "fail-join --next 2", says: "The next 2 instances boot and never join"},
		{line: "instances"},
		{line: "bill", says: "0.0000 USD since"},
		{line: "bill -o json", says: "\"lines\""},
		{line: "bill -o yaml", fails: "want table or json"},
		{line: "cpu i-1 1", fails: "does not exist"},
		{line: "cpu i-1 many", fails: "want a number of vCPUs"},
		{line: "price m5.large", fails: "accepts 2 arg(s)"},
	} {
		var out bytes.Buffer
		cmd := newCommand()
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		cmd.SetArgs(append([]string{"aws", "--endpoint", url}, strings.Fields(tc.line)...))
		err := cmd.ExecuteContext(t.Context())
		switch {
		case tc.fails == "" && err != nil:
			t.Errorf("%s: %v", tc.line, err)
		case tc.fails != "" && (err == nil || !strings.Contains(err.Error(), tc.fails)):
			t.Errorf("%s: got %v, want an error with %q", tc.line, err, tc.fails)
		case !strings.Contains(out.String(), tc.says):
			t.Errorf("%s says %q, want %q", tc.line, out.String(), tc.says)
		}
	}
	calls, err := aws.NewClient(url).Calls(t.Context())
	if err != nil || len(calls) > 0 {
		t.Errorf("%d calls of AWS's own services, %v", len(calls), err)
	}
}
