package aws

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// body is an EventBridge event as AWS documents it.
func body(source, detailType, detail string) string {
	return fmt.Sprintf(`{"version":"0","id":"7bf73129-1428-4cd3-a780-95db273d1602","detail-type":%q,"source":%q,
"account":"123456789012","time":"2026-01-02T03:04:05Z","region":"us-east-1",
"resources":["arn:aws:ec2:us-east-1:123456789012:instance/i-0a"],"detail":%s}`, detailType, source, detail)
}

func TestParseEvent(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	of := func(kind cloud.MessageKind, ids ...string) cloud.Message {
		return cloud.Message{Kind: kind, InstanceIDs: ids, Time: at}
	}
	const change = "EC2 Instance State-change Notification"
	for name, tc := range map[string]struct {
		body string
		want cloud.Message
	}{
		"spot interruption": {
			body("aws.ec2", "EC2 Spot Instance Interruption Warning", `{"instance-id":"i-0a","instance-action":"terminate"}`),
			of(cloud.SpotInterrupted, "i-0a"),
		},
		"rebalance": {
			body("aws.ec2", "EC2 Instance Rebalance Recommendation", `{"instance-id":"i-0a"}`),
			of(cloud.RebalanceRecommendation, "i-0a"),
		},
		"capacity reservation": {
			body("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning", `{"instance-id":"i-0a","instance-action":"terminate"}`),
			of(cloud.CapacityReservation, "i-0a"),
		},
		"stopping":      {body("aws.ec2", change, `{"instance-id":"i-0a","state":"stopping"}`), of(cloud.InstanceStopped, "i-0a")},
		"stopped":       {body("aws.ec2", change, `{"instance-id":"i-0a","state":"stopped"}`), of(cloud.InstanceStopped, "i-0a")},
		"shutting down": {body("aws.ec2", change, `{"instance-id":"i-0a","state":"shutting-down"}`), of(cloud.InstanceTerminated, "i-0a")},
		"terminated":    {body("aws.ec2", change, `{"instance-id":"i-0a","state":"terminated"}`), of(cloud.InstanceTerminated, "i-0a")},
		"running":       {body("aws.ec2", change, `{"instance-id":"i-0a","state":"running"}`), of(cloud.NoOp, "i-0a")},
		"scheduled change": {
			body("aws.health", "AWS Health Event", `{"service":"EC2","eventTypeCategory":"scheduledChange",
"eventTypeCode":"AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED","affectedEntities":[{"entityValue":"i-0a"},{"entityValue":"i-0b"}]}`),
			of(cloud.ScheduledChange, "i-0a", "i-0b"),
		},
		"another service's change": {
			body("aws.health", "AWS Health Event", `{"service":"RDS","eventTypeCategory":"scheduledChange","affectedEntities":[{"entityValue":"db"}]}`),
			of(cloud.NoOp),
		},
		"an issue is no change": {
			body("aws.health", "AWS Health Event", `{"service":"EC2","eventTypeCategory":"issue","affectedEntities":[{"entityValue":"i-0a"}]}`),
			of(cloud.NoOp),
		},
		"another event of EC2":    {body("aws.ec2", "EBS Volume Notification", `{"result":"available"}`), of(cloud.NoOp)},
		"another source":          {body("mine", "EC2 Spot Instance Interruption Warning", `{"instance-id":"i-0a"}`), of(cloud.NoOp)},
		"an event without detail": {body("aws.s3", "Object Created", `null`), of(cloud.NoOp)},
	} {
		t.Run(name, func(t *testing.T) {
			got := ParseEvent(tc.body)
			if got.Err != nil {
				t.Fatal(got.Err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseEventRejects(t *testing.T) {
	const spot = "EC2 Spot Instance Interruption Warning"
	for name, text := range map[string]string{
		"nothing":          "",
		"no JSON":          "hello {",
		"a list":           "[]",
		"no instance":      body("aws.ec2", spot, `{}`),
		"a strange detail": body("aws.ec2", spot, `"i-0a"`),
		"a bad time":       `{"source":"aws.ec2","detail-type":"x","time":"yesterday"}`,
		"strange health":   body("aws.health", "AWS Health Event", `[]`),
	} {
		if m := ParseEvent(text); m.Err == nil {
			t.Errorf("%s: accepted as %+v", name, m)
		}
	}
}

// Every message body is parsed or rejected, without a panic; a message that is acted on names its instance.
func FuzzParseEvent(f *testing.F) {
	for _, body := range []string{
		"", "null", "{}", "[]", `{"source":"aws.ec2"}`, `{"source":"aws.ec2","detail-type":"EC2 Spot Instance Interruption Warning","detail":{"instance-id":"i-1"}}`,
		`{"source":"aws.ec2","detail-type":"EC2 Instance State-change Notification","detail":{"instance-id":"i-1","state":"stopping"}}`,
		`{"source":"aws.health","detail-type":"AWS Health Event","detail":{"service":"EC2","eventTypeCategory":"scheduledChange","affectedEntities":[{"entityValue":"i-1"}]}}`,
		`{"source":"aws.ec2","detail-type":"EC2 Instance Rebalance Recommendation","detail":null}`, `{"time":"yesterday"}`,
	} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		m := ParseEvent(body)
		named := m.Kind == cloud.SpotInterrupted || m.Kind == cloud.InstanceStopped || m.Kind == cloud.InstanceTerminated
		if m.Err == nil && named && (len(m.InstanceIDs) != 1 || m.InstanceIDs[0] == "") {
			t.Errorf("%q is read as %+v", body, m)
		}
	})
}
