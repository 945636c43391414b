package aws

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/xml"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-k8s/slipway/e2e/aws/wire"
)

func (s *Server) sqsActions() map[string]action {
	return map[string]action{
		"CreateQueue":             s.createQueue,
		"DeleteQueue":             s.deleteQueue,
		"DeleteMessage":           s.deleteMessage,
		"DeleteMessageBatch":      s.deleteMessageBatch,
		"GetQueueAttributes":      s.getQueueAttributes,
		"GetQueueUrl":             s.getQueueURL,
		"ListQueues":              s.listQueues,
		"ChangeMessageVisibility": s.changeMessageVisibility,
		"PurgeQueue":              s.purgeQueue,
		"ReceiveMessage":          s.receiveMessage,
		"SendMessage":             s.sendMessage,
	}
}

// sqsInput is the input of all actions, in both protocols.
type sqsInput struct {
	QueueName, QueueURL, MessageBody, ReceiptHandle string

	MaxNumberOfMessages, WaitTimeSeconds, VisibilityTimeout, DelaySeconds *int

	QueueNamePrefix             string
	AttributeNames              []string
	MessageSystemAttributeNames []string
	Attributes                  map[string]string
	Entries                     []sqsEntry
}

type sqsEntry struct{ ID, ReceiptHandle string }

func readSQS(r request) (sqsInput, error) {
	var in sqsInput
	if r.Protocol != wire.Query {
		return in, r.Decode(&in)
	}
	p := r.Params
	in.QueueName, in.QueueURL, in.MessageBody = p.Get("QueueName"), p.Get("QueueUrl"), p.Get("MessageBody")
	in.ReceiptHandle, in.QueueNamePrefix = p.Get("ReceiptHandle"), p.Get("QueueNamePrefix")
	in.AttributeNames = append(p.Strings("AttributeName"), p.Strings("MessageSystemAttributeName")...)
	in.Attributes = map[string]string{}
	for _, a := range p.Each("Attribute") {
		in.Attributes[a.Get("Name")] = a.Get("Value")
	}
	for _, e := range p.Each("DeleteMessageBatchRequestEntry") {
		in.Entries = append(in.Entries, sqsEntry{e.Get("Id"), e.Get("ReceiptHandle")})
	}
	for name, field := range map[string]**int{
		"MaxNumberOfMessages": &in.MaxNumberOfMessages, "WaitTimeSeconds": &in.WaitTimeSeconds,
		"VisibilityTimeout": &in.VisibilityTimeout, "DelaySeconds": &in.DelaySeconds,
	} {
		if !p.At(name).Given() {
			continue
		}
		n, err := p.Int(name, 0)
		if err != nil {
			return in, err
		}
		*field = &n
	}
	return in, nil
}

// number returns a field's number after checking its bounds.
func number(name string, field *int, absent, low, high int) (int, error) {
	if field == nil {
		return absent, nil
	}
	if *field < low || *field > high {
		return 0, wire.Errorf("InvalidParameterValue", "Value %d for parameter %s is invalid. Reason: Must be >= %d and <= %d, if provided.", *field, name, low, high)
	}
	return *field, nil
}

func noQueue() error {
	return &wire.Error{
		Code: "QueueDoesNotExist", QueryCode: "AWS.SimpleQueueService.NonExistentQueue",
		Message: "The specified queue does not exist.",
	}
}

// open reads the request and finds the queue that its URL names.
func (s *Server) open(r request) (*queue, sqsInput, error) {
	in, err := readSQS(r)
	if err != nil {
		return nil, in, err
	}
	if in.QueueURL == "" {
		return nil, in, wire.Errorf("MissingParameter", "The request must contain the parameter QueueUrl.")
	}
	q, ok := s.queues.get(in.QueueURL[strings.LastIndexByte(in.QueueURL, '/')+1:])
	if !ok {
		return nil, in, noQueue()
	}
	return q, in, nil
}

func (s *Server) queueURL(name string) string { return s.URL() + "/" + s.cfg.AccountID + "/" + name }

type queueURLResult struct {
	URL string `json:"QueueUrl" xml:"QueueUrl"`
}

func (s *Server) createQueue(_ context.Context, r request) (any, error) {
	in, err := readSQS(r)
	if err != nil {
		return nil, err
	}
	if in.QueueName == "" || len(in.QueueName) > 80 || strings.ContainsAny(in.QueueName, "/ .:") {
		return nil, wire.Errorf("InvalidParameterValue", "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length")
	}
	q, existed := s.queues.create(in.QueueName, in.Attributes)
	if existed && len(in.Attributes) > 0 && !maps.Equal(q.attributes, in.Attributes) {
		return nil, &wire.Error{
			Code: "QueueNameExists", QueryCode: "QueueAlreadyExists",
			Message: "A queue already exists with the same name and a different value for an attribute",
		}
	}
	return queueURLResult{s.queueURL(in.QueueName)}, nil
}

func (s *Server) getQueueURL(_ context.Context, r request) (any, error) {
	in, err := readSQS(r)
	if err != nil {
		return nil, err
	}
	if _, ok := s.queues.get(in.QueueName); !ok {
		return nil, noQueue()
	}
	return queueURLResult{s.queueURL(in.QueueName)}, nil
}

func (s *Server) listQueues(_ context.Context, r request) (any, error) {
	in, err := readSQS(r)
	if err != nil {
		return nil, err
	}
	out := struct {
		URLs []string `json:"QueueUrls" xml:"QueueUrl"`
	}{}
	for _, name := range s.queues.names() {
		if strings.HasPrefix(name, in.QueueNamePrefix) {
			out.URLs = append(out.URLs, s.queueURL(name))
		}
	}
	return out, nil
}

func (s *Server) deleteQueue(_ context.Context, r request) (any, error) {
	q, _, err := s.open(r)
	if err != nil {
		return nil, err
	}
	s.queues.delete(q.name)
	return wire.Empty{}, nil
}

func (s *Server) purgeQueue(_ context.Context, r request) (any, error) {
	q, _, err := s.open(r)
	if err != nil {
		return nil, err
	}
	q.purge()
	return wire.Empty{}, nil
}

func digest(body string) string {
	sum := md5.Sum([]byte(body))
	return hex.EncodeToString(sum[:])
}

func (s *Server) sendMessage(_ context.Context, r request) (any, error) {
	q, in, err := s.open(r)
	if err != nil {
		return nil, err
	}
	if in.MessageBody == "" {
		return nil, wire.Errorf("MissingParameter", "The request must contain the parameter MessageBody.")
	}
	delay, err := number("DelaySeconds", in.DelaySeconds, 0, 0, 900)
	if err != nil {
		return nil, err
	}
	id := s.dice.uuid()
	q.send(id, in.MessageBody, time.Duration(delay)*time.Second)
	return struct {
		MD5OfMessageBody string
		ID               string `json:"MessageId" xml:"MessageId"`
	}{digest(in.MessageBody), id}, nil
}

// messageShape is a message in the response of both protocols.
type messageShape struct {
	ID string `json:"MessageId" xml:"MessageId"`

	ReceiptHandle, MD5OfBody, Body string

	Attributes attributes `json:",omitempty" xml:"Attribute,omitempty"`
}

// attributes are an object in JSON and a list of elements in XML.
type attributes map[string]string

// MarshalXML implements xml.Marshaler.
func (a attributes) MarshalXML(e *xml.Encoder, start xml.StartElement) error {
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if err := e.EncodeElement(struct{ Name, Value string }{name, a[name]}, start); err != nil {
			return err
		}
	}
	return nil
}

// only keeps the attributes of these names; All keeps all.
func (a attributes) only(names []string) attributes {
	out := attributes{}
	for name, value := range a {
		if slices.Contains(names, name) || slices.Contains(names, "All") {
			out[name] = value
		}
	}
	return out
}

func (s *Server) receiveMessage(ctx context.Context, r request) (any, error) {
	q, in, err := s.open(r)
	if err != nil {
		return nil, err
	}
	most, err := number("MaxNumberOfMessages", in.MaxNumberOfMessages, 1, 1, 10)
	if err != nil {
		return nil, err
	}
	wait, err := number("WaitTimeSeconds", in.WaitTimeSeconds, int(q.seconds("ReceiveMessageWaitTimeSeconds", 0).Seconds()), 0, 20)
	if err != nil {
		return nil, err
	}
	hide, err := number("VisibilityTimeout", in.VisibilityTimeout, int(q.seconds("VisibilityTimeout", visibility).Seconds()), 0, 43200)
	if err != nil {
		return nil, err
	}
	receipt := func() string { return "AQEB" + s.dice.hex(64) }
	got := q.receive(ctx, most, time.Duration(wait)*time.Second, time.Duration(hide)*time.Second, receipt)
	out := struct {
		Messages []messageShape `json:",omitempty" xml:"Message"`
	}{}
	names := append(in.AttributeNames, in.MessageSystemAttributeNames...)
	for _, m := range got {
		out.Messages = append(out.Messages, messageShape{
			ID: m.id, ReceiptHandle: m.receipt, MD5OfBody: digest(m.body), Body: m.body,
			Attributes: attributes{
				"SentTimestamp":                    strconv.FormatInt(m.sent.UnixMilli(), 10),
				"ApproximateFirstReceiveTimestamp": strconv.FormatInt(m.first.UnixMilli(), 10),
				"ApproximateReceiveCount":          strconv.Itoa(m.received),
				"SenderId":                         "AIDASANDBOXSANDBOXSAN",
			}.only(names),
		})
	}
	return out, nil
}

func (s *Server) deleteMessage(_ context.Context, r request) (any, error) {
	q, in, err := s.open(r)
	if err != nil {
		return nil, err
	}
	if err := checkReceipt(in.ReceiptHandle); err != nil {
		return nil, err
	}
	q.remove(in.ReceiptHandle)
	return wire.Empty{}, nil
}

func checkReceipt(receipt string) error {
	if !strings.HasPrefix(receipt, "AQEB") {
		return wire.Errorf("ReceiptHandleIsInvalid", "The input receipt handle %q is not a valid receipt handle.", receipt)
	}
	return nil
}

func (s *Server) deleteMessageBatch(_ context.Context, r request) (any, error) {
	q, in, err := s.open(r)
	if err != nil {
		return nil, err
	}
	type success struct {
		ID string `json:"Id" xml:"Id"`
	}
	type failure struct {
		ID          string `json:"Id" xml:"Id"`
		Code        string
		SenderFault bool
	}
	out := struct {
		Successful []success `xml:"DeleteMessageBatchResultEntry"`
		Failed     []failure `json:",omitempty" xml:"BatchResultErrorEntry"`
	}{Successful: []success{}}
	for _, e := range in.Entries {
		if err := checkReceipt(e.ReceiptHandle); err != nil {
			out.Failed = append(out.Failed, failure{e.ID, "ReceiptHandleIsInvalid", true})
			continue
		}
		q.remove(e.ReceiptHandle)
		out.Successful = append(out.Successful, success{e.ID})
	}
	return out, nil
}

func (s *Server) changeMessageVisibility(_ context.Context, r request) (any, error) {
	q, in, err := s.open(r)
	if err != nil {
		return nil, err
	}
	if err := checkReceipt(in.ReceiptHandle); err != nil {
		return nil, err
	}
	hide, err := number("VisibilityTimeout", in.VisibilityTimeout, 0, 0, 43200)
	if err != nil {
		return nil, err
	}
	q.hide(in.ReceiptHandle, time.Duration(hide)*time.Second)
	return wire.Empty{}, nil
}

func (s *Server) getQueueAttributes(_ context.Context, r request) (any, error) {
	q, in, err := s.open(r)
	if err != nil {
		return nil, err
	}
	visible, hidden, delayed := q.count()
	known := attributes{
		"ApproximateNumberOfMessages":           strconv.Itoa(visible),
		"ApproximateNumberOfMessagesNotVisible": strconv.Itoa(hidden),
		"ApproximateNumberOfMessagesDelayed":    strconv.Itoa(delayed),
		"CreatedTimestamp":                      strconv.FormatInt(q.created.Unix(), 10),
		"LastModifiedTimestamp":                 strconv.FormatInt(q.created.Unix(), 10),
		"MessageRetentionPeriod":                strconv.Itoa(int(retention.Seconds())),
		"VisibilityTimeout":                     strconv.Itoa(int(visibility.Seconds())),
		"ReceiveMessageWaitTimeSeconds":         "0",
		"QueueArn":                              "arn:aws:sqs:" + s.cfg.Region + ":" + s.cfg.AccountID + ":" + q.name,
	}
	maps.Copy(known, q.attributes)
	return struct {
		Attributes attributes `json:",omitempty" xml:"Attribute,omitempty"`
	}{known.only(in.AttributeNames)}, nil
}
