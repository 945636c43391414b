package aws_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"testing"

	"github.com/slipway-k8s/slipway/e2e/aws"
)

// commandLine runs the aws command line, and skips the test where it is not installed. All that it could show is shown by the
// SDK in the other tests; version 2.9 differs in that it speaks the Query protocol to SQS.
func commandLine(t *testing.T, server *aws.Server, into any, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/usr/bin/aws", append(args, "--output", "json", "--no-cli-pager", "--endpoint-url", server.URL())...)
	cmd.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID=AKIATEST", "AWS_SECRET_ACCESS_KEY=secret", "AWS_DEFAULT_REGION=us-east-1")
	out, err := cmd.CombinedOutput()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		t.Skip("/usr/bin/aws is not installed")
	case err != nil:
		t.Fatalf("aws %v: %v\n%s", args, err, out)
	case into == nil:
		return
	}
	if err := json.Unmarshal(out, into); err != nil {
		t.Fatalf("aws %v: %v in %s", args, err, out)
	}
}

func TestCommandLine(t *testing.T) {
	server := start(t, nil)
	id := launched(createFleet(t, server, fleetInput(t, server, 1, "m5.large")))[0]
	var found struct {
		Reservations []struct {
			Instances []struct{ InstanceID, InstanceType string }
		}
	}
	commandLine(t, server, &found, "ec2", "describe-instances", "--filters", "Name=instance-type,Values=m5.*")
	if len(found.Reservations) != 1 || found.Reservations[0].Instances[0].InstanceID != id {
		t.Errorf("got %+v, want %s", found, id)
	}
	var types struct {
		InstanceTypes []struct{ InstanceType string }
	}
	commandLine(t, server, &types, "ec2", "describe-instance-types", "--filters", "Name=instance-type,Values=g*")
	if n := len(types.InstanceTypes); n < 20 {
		t.Errorf("got %d GPU types", n)
	}
	var queue struct{ QueueURL string }
	commandLine(t, server, &queue, "sqs", "get-queue-url", "--queue-name", "test")
	commandLine(t, server, nil, "sqs", "purge-queue", "--queue-url", queue.QueueURL)
	commandLine(t, server, nil, "sqs", "send-message", "--queue-url", queue.QueueURL, "--message-body", "hello")
	var messages struct{ Messages []struct{ Body string } }
	commandLine(t, server, &messages, "sqs", "receive-message", "--queue-url", queue.QueueURL)
	if len(messages.Messages) != 1 || messages.Messages[0].Body != "hello" {
		t.Errorf("got %+v", messages)
	}
}
