package aws_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/slipway-k8s/slipway/e2e/aws"
	"github.com/slipway-k8s/slipway/e2e/clock"
)

func sqsClient(server *aws.Server) *sqs.Client { return sqs.NewFromConfig(config(server)) }

func queueURL(t *testing.T, client *sqs.Client) *string {
	t.Helper()
	out, err := client.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: awssdk.String("test")})
	if err != nil {
		t.Fatal(err)
	}
	return out.QueueUrl
}

func receive(t *testing.T, client *sqs.Client, in *sqs.ReceiveMessageInput) []sqstypes.Message {
	t.Helper()
	out, err := client.ReceiveMessage(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return out.Messages
}

func TestQueue(t *testing.T) {
	server := start(t, nil)
	client := sqsClient(server)
	url := queueURL(t, client)
	if got := receive(t, client, &sqs.ReceiveMessageInput{QueueUrl: url}); len(got) != 0 {
		t.Fatalf("a new queue has %d messages", len(got))
	}
	for _, body := range []string{"one", "two", "three & <four>"} {
		if _, err := client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: url, MessageBody: &body}); err != nil {
			t.Fatal(err)
		}
	}
	got := receive(t, client, &sqs.ReceiveMessageInput{
		QueueUrl: url, MaxNumberOfMessages: 10, VisibilityTimeout: 600,
		MessageSystemAttributeNames: []sqstypes.MessageSystemAttributeName{"SentTimestamp", "ApproximateReceiveCount"},
	})
	if len(got) != 3 || awssdk.ToString(got[2].Body) != "three & <four>" || got[0].Attributes["ApproximateReceiveCount"] != "1" || len(got[0].Attributes) != 2 {
		t.Fatalf("got %+v", got)
	}
	if hidden := receive(t, client, &sqs.ReceiveMessageInput{QueueUrl: url}); len(hidden) != 0 {
		t.Errorf("%d messages show while they are hidden", len(hidden))
	}
	if _, err := client.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: url, ReceiptHandle: got[1].ReceiptHandle}); err != nil {
		t.Fatal(err)
	}
	attributes, err := client.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: url, AttributeNames: []sqstypes.QueueAttributeName{"All"}})
	if err != nil || attributes.Attributes["ApproximateNumberOfMessagesNotVisible"] != "2" || attributes.Attributes["QueueArn"] == "" {
		t.Errorf("got %+v, %v", attributes, err)
	}
}

// Karpenter asks for the attributes of messages by the name that the parameter once had. The SDK has deprecated it.
func TestMessageAttributesByTheirOldName(t *testing.T) {
	server := start(t, nil)
	if err := server.SendRaw("one"); err != nil {
		t.Fatal(err)
	}
	body := fmt.Sprintf(`{"QueueUrl": %q, "AttributeNames": ["SentTimestamp"], "MessageAttributeNames": ["All"]}`, awssdk.ToString(queueURL(t, sqsClient(server))))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL(), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Amz-Target", "AmazonSQS.ReceiveMessage")
	request.Header.Set("Content-Type", "application/x-amz-json-1.0")
	var got struct {
		Messages []struct{ Attributes map[string]string }
	}
	answer := sent(t, request, "sqs")
	if err := json.Unmarshal([]byte(answer), &got); err != nil || len(got.Messages) != 1 || len(got.Messages[0].Attributes) != 1 || got.Messages[0].Attributes["SentTimestamp"] == "" {
		t.Errorf("got %s (%v), want one message with its SentTimestamp", answer, err)
	}
}

func TestHiddenMessagesShowAgain(t *testing.T) {
	server := start(t, nil)
	client := sqsClient(server)
	url := queueURL(t, client)
	for _, body := range []string{"one", "two"} {
		if err := server.SendRaw(body); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(receive(t, client, &sqs.ReceiveMessageInput{QueueUrl: url, MaxNumberOfMessages: 10, VisibilityTimeout: 1})); n != 2 {
		t.Fatalf("got %d messages", n)
	}
	// What was not deleted shows again, and a long poll waits for it.
	again := receive(t, client, &sqs.ReceiveMessageInput{QueueUrl: url, MaxNumberOfMessages: 10, WaitTimeSeconds: 10})
	if len(again) != 2 {
		t.Errorf("%d messages came again, want 2", len(again))
	}
	if _, err := client.PurgeQueue(t.Context(), &sqs.PurgeQueueInput{QueueUrl: url}); err != nil {
		t.Fatal(err)
	}
	attributes, err := client.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: url, AttributeNames: []sqstypes.QueueAttributeName{"ApproximateNumberOfMessagesNotVisible"}})
	if err != nil || len(attributes.Attributes) != 1 || attributes.Attributes["ApproximateNumberOfMessagesNotVisible"] != "0" {
		t.Errorf("a purged queue has %+v, %v", attributes, err)
	}
}

func TestQueuesRefused(t *testing.T) {
	server := start(t, nil)
	client := sqsClient(server)
	_, err := client.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: awssdk.String("nobody")})
	wantCode(t, err, "AWS.SimpleQueueService.NonExistentQueue")
	url := queueURL(t, client)
	_, err = client.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: url, ReceiptHandle: awssdk.String("mine")})
	wantCode(t, err, "ReceiptHandleIsInvalid")
	_, err = client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: url, MaxNumberOfMessages: 11})
	wantCode(t, err, "InvalidParameterValue")
	_, err = client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: url, WaitTimeSeconds: 21})
	wantCode(t, err, "InvalidParameterValue")
	made, err := client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: awssdk.String("mine"), Attributes: map[string]string{"VisibilityTimeout": "7"}})
	if err != nil || !strings.HasSuffix(awssdk.ToString(made.QueueUrl), "/mine") {
		t.Fatalf("got %+v, %v", made, err)
	}
	_, err = client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: awssdk.String("mine"), Attributes: map[string]string{"VisibilityTimeout": "8"}})
	wantCode(t, err, "QueueAlreadyExists")
	if list, err := client.ListQueues(t.Context(), &sqs.ListQueuesInput{}); err != nil || len(list.QueueUrls) != 2 {
		t.Errorf("got %+v, %v", list, err)
	}
	if _, err := client.DeleteQueue(t.Context(), &sqs.DeleteQueueInput{QueueUrl: made.QueueUrl}); err != nil {
		t.Fatal(err)
	}
	_, err = client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: made.QueueUrl})
	wantCode(t, err, "AWS.SimpleQueueService.NonExistentQueue")
}

// A long poll is answered the moment a message comes, and ends with its caller or with the server.
func TestLongPoll(t *testing.T) {
	server := start(t, nil)
	client := sqsClient(server)
	url := queueURL(t, client)
	got := make(chan []sqstypes.Message)
	go func() { got <- receive(t, client, &sqs.ReceiveMessageInput{QueueUrl: url, WaitTimeSeconds: 20}) }()
	eventually(t, "the poll to arrive", func() bool {
		calls := server.Calls()
		return calls[len(calls)-1].Action == "ReceiveMessage"
	})
	if err := server.SendRaw("this is { no JSON"); err != nil {
		t.Fatal(err)
	}
	if m := <-got; len(m) != 1 || awssdk.ToString(m[0].Body) != "this is { no JSON" {
		t.Errorf("got %+v", m)
	}
	polls := func() (n int) {
		for _, call := range server.Calls() {
			if call.Action == "ReceiveMessage" {
				n++
			}
		}
		return n
	}
	before := polls()
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		_, err := client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: url, WaitTimeSeconds: 20})
		left <- err
	}()
	eventually(t, "the second poll to arrive", func() bool { return polls() > before })
	leave()
	if err := <-left; err == nil {
		t.Error("a poll outlives its caller")
	}
	// A poll that went on in the server would take the first message. The server notices the closed connection a moment after the caller has left.
	time.Sleep(time.Second)
	if err := server.SendRaw("next"); err != nil {
		t.Fatal(err)
	}
	if m := receive(t, client, &sqs.ReceiveMessageInput{QueueUrl: url, WaitTimeSeconds: 5}); len(m) != 1 || awssdk.ToString(m[0].Body) != "next" {
		t.Errorf("after a poll whose caller has left: got %+v", m)
	}
}

// eventBody is what all of the events have in common.
type eventBody struct {
	Source     string
	DetailType string `json:"detail-type"`
	Account    string
	Region     string
	Resources  []string
	Detail     struct {
		InstanceID       string `json:"instance-id"`
		Action           string `json:"instance-action"`
		State            string
		AffectedEntities []struct{ EntityValue string }
	}
}

// events reads the queue until it has n events of the type.
func events(t *testing.T, server *aws.Server, detailType string, n int) []eventBody {
	t.Helper()
	client := sqsClient(server)
	url := queueURL(t, client)
	var out []eventBody
	for len(out) < n {
		got := receive(t, client, &sqs.ReceiveMessageInput{QueueUrl: url, MaxNumberOfMessages: 10, WaitTimeSeconds: 5})
		if len(got) == 0 {
			t.Fatalf("%d events %q came, want %d", len(out), detailType, n)
		}
		for _, m := range got {
			var e eventBody
			if err := json.Unmarshal([]byte(awssdk.ToString(m.Body)), &e); err != nil {
				t.Fatal(err)
			}
			if e.DetailType == detailType {
				out = append(out, e)
			}
		}
	}
	return out
}

func TestInterruptionsRefused(t *testing.T) {
	server := start(t, nil)
	if _, err := server.InterruptOne(); err == nil {
		t.Error("an instance is interrupted where there is none")
	}
	bought := launched(createFleet(t, server, fleetInput(t, server, 1, "m5.large")))[0]
	if err := server.Interrupt(bought); err == nil {
		t.Error("an instance on demand is interrupted")
	}
	if err := server.Interrupt("i-00000000000000000"); err == nil {
		t.Error("an instance that does not exist is interrupted")
	}
	if got := instance(t, server, bought); !got.Live() {
		t.Errorf("the instance on demand is %s", got.State)
	}
}

func TestInterruption(t *testing.T) {
	// Six seconds of real time, so that the warning is read before what follows it.
	const notice = 30 * time.Minute
	server := start(t, func(c *aws.Config) { c.Clock, c.SpotNotice = clock.New(300), notice })
	id := launched(createFleet(t, server, asSpot(fleetInput(t, server, 1, "m5.large"), "lowest-price")))[0]
	eventually(t, "the instance to run", func() bool { return instance(t, server, id).State == aws.StateRunning })
	warned := time.Now()
	chosen, err := server.InterruptOne()
	if err != nil || chosen != id {
		t.Fatalf("interrupted %s (%v), want %s", chosen, err, id)
	}
	e := events(t, server, "EC2 Spot Instance Interruption Warning", 1)[0]
	if e.Source != "aws.ec2" || e.Detail.InstanceID != id || e.Detail.Action != "terminate" || e.Account != "123456789012" ||
		len(e.Resources) != 1 || !strings.HasSuffix(e.Resources[0], ":instance/"+id) {
		t.Errorf("got %+v", e)
	}
	if got := instance(t, server, id).State; got != aws.StateRunning && time.Since(warned) < notice/300 {
		t.Errorf("the instance is %s before its notice is over", got)
	}
	if _, err := server.InterruptOne(); err == nil {
		t.Error("an instance is interrupted twice")
	}
	eventually(t, "the instance to be terminated", func() bool { return instance(t, server, id).State == aws.StateTerminated })
	var states []string
	for _, e := range events(t, server, "EC2 Instance State-change Notification", 2) {
		states = append(states, e.Detail.InstanceID+" "+e.Detail.State)
	}
	for _, want := range []string{"shutting-down", "terminated"} {
		if !slices.Contains(states, id+" "+want) {
			t.Errorf("notified of %q, not that %s is %s", states, id, want)
		}
	}
}

func TestOtherEvents(t *testing.T) {
	server := start(t, nil)
	id := launched(createFleet(t, server, asSpot(fleetInput(t, server, 1, "m5.large"), "lowest-price")))[0]
	if err := server.Rebalance(id); err != nil {
		t.Fatal(err)
	}
	if err := server.ScheduledChange(id); err != nil {
		t.Fatal(err)
	}
	if e := events(t, server, "EC2 Instance Rebalance Recommendation", 1)[0]; e.Detail.InstanceID != id {
		t.Errorf("got %+v", e)
	}
	// It may have come with the other already.
	if err := server.ScheduledChange(id); err != nil {
		t.Fatal(err)
	}
	e := events(t, server, "AWS Health Event", 1)[0]
	if e.Source != "aws.health" || len(e.Detail.AffectedEntities) != 1 || e.Detail.AffectedEntities[0].EntityValue != id {
		t.Errorf("got %+v", e)
	}
}

func TestRandomInterruptions(t *testing.T) {
	server := start(t, func(c *aws.Config) { c.SpotInterruptions = 3600 })
	createFleet(t, server, asSpot(fleetInput(t, server, 3, "m5.large"), "lowest-price"))
	createFleet(t, server, fleetInput(t, server, 1, "m5.large"))
	eventually(t, "all spot instances to be taken away", func() bool {
		ended := 0
		for _, i := range server.Instances() {
			if !i.Live() {
				ended++
			}
		}
		return ended == 3
	})
}
