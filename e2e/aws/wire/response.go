package wire

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"time"
)

// Timestamp formats a time as in the XML protocols.
func Timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// EpochSeconds formats a time as in the JSON protocols.
func EpochSeconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// Set is a list of EC2. Its element is present even when it is empty.
type Set[T any] struct {
	// Items are its members.
	Items []T `xml:"item"`
}

// NewSet returns the list of the items.
func NewSet[T any](items ...T) Set[T] { return Set[T]{Items: items} }

// Members is a list of IAM.
type Members[T any] struct {
	// Members are the members.
	Members []T `xml:"member"`
}

// Empty is the result of a call that returns nothing.
type Empty struct{}

// Return is the result of EC2 calls without other results.
type Return struct {
	// Return is true.
	Return bool `xml:"return"`
}

// WriteResult writes a successful response, in XML or JSON by the struct tags of result.
func WriteResult(w http.ResponseWriter, r Request, result any) {
	var body []byte
	var err error
	switch {
	case r.Protocol != Query:
		body, err = json.Marshal(result)
	case r.Service == EC2:
		body, err = ec2Body(r, result)
	default:
		body, err = queryBody(r, result)
	}
	if err != nil {
		WriteError(w, r, fmt.Errorf("writing the answer: %w", err))
		return
	}
	write(w, r, http.StatusOK, body)
}

// WriteError writes an error response.
func WriteError(w http.ResponseWriter, r Request, err error) {
	e := asError(err)
	if r.Protocol == Query {
		write(w, r, e.status(), errorXML(r, e))
		return
	}
	w.Header().Set("X-Amzn-ErrorType", e.Code)
	shape := struct {
		Type    string `json:"__type,omitempty"`
		Message string `json:"message"`
	}{Message: e.Message}
	if r.Protocol == JSON {
		shape.Type = e.Code
	}
	if r.Service == SQS {
		shape.Type = "com.amazonaws.sqs#" + e.Code
		w.Header().Set("X-Amzn-Query-Error", queryCode(e)+";"+fault(e))
	}
	body, err := json.Marshal(shape)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	write(w, r, e.status(), body)
}

func queryCode(e *Error) string {
	if e.QueryCode != "" {
		return e.QueryCode
	}
	return e.Code
}

func fault(e *Error) string {
	if e.serverFault() {
		return "Receiver"
	}
	return "Sender"
}

func write(w http.ResponseWriter, r Request, status int, body []byte) {
	contentType := r.ContentType
	if r.Protocol == Query {
		contentType = "text/xml;charset=UTF-8"
	}
	if contentType == "" {
		contentType = "application/json"
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Amzn-Requestid", r.ID)
	w.WriteHeader(status)
	// A client that has disconnected does not get its response.
	_, _ = w.Write(body)
}

func namespace(service string) string {
	switch service {
	case EC2:
		return "http://ec2.amazonaws.com/doc/2016-11-15/"
	case IAM:
		return "https://iam.amazonaws.com/doc/2010-05-08/"
	case STS:
		return "https://sts.amazonaws.com/doc/2011-06-15/"
	}
	return "http://queue.amazonaws.com/doc/2012-11-05/"
}

// ec2Body writes <ActionResponse><requestId/>result's fields</ActionResponse>.
func ec2Body(r Request, result any) ([]byte, error) {
	inner, err := fields(result)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%s<%sResponse xmlns=%q><requestId>%s</requestId>%s</%sResponse>",
		xml.Header, r.Action, namespace(EC2), r.ID, inner, r.Action), nil
}

// queryBody writes <ActionResponse><ActionResult>fields</ActionResult><ResponseMetadata/></ActionResponse>.
func queryBody(r Request, result any) ([]byte, error) {
	inner, err := fields(result)
	if err != nil {
		return nil, err
	}
	if _, none := result.(Empty); !none {
		inner = fmt.Appendf(nil, "<%sResult>%s</%sResult>", r.Action, inner, r.Action)
	}
	return fmt.Appendf(nil, "%s<%sResponse xmlns=%q>%s<ResponseMetadata><RequestId>%s</RequestId></ResponseMetadata></%sResponse>",
		xml.Header, r.Action, namespace(r.Service), inner, r.ID, r.Action), nil
}

// fields returns the elements of a struct without an enclosing one.
func fields(result any) ([]byte, error) {
	var b bytes.Buffer
	start := xml.StartElement{Name: xml.Name{Local: "x"}}
	if err := xml.NewEncoder(&b).EncodeElement(result, start); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(bytes.TrimPrefix(b.Bytes(), []byte("<x>")), []byte("</x>")), nil
}

func errorXML(r Request, e *Error) []byte {
	type shape struct {
		Type    string `xml:",omitempty"`
		Code    string
		Message string
	}
	out := shape{Code: queryCode(e), Message: e.Message}
	if r.Service != EC2 {
		out.Type = fault(e)
	}
	var b bytes.Buffer
	if err := xml.NewEncoder(&b).EncodeElement(out, xml.StartElement{Name: xml.Name{Local: "Error"}}); err != nil {
		// Three strings always encode.
		return []byte(err.Error())
	}
	if r.Service == EC2 {
		return fmt.Appendf(nil, "%s<Response><Errors>%s</Errors><RequestID>%s</RequestID></Response>", xml.Header, b.Bytes(), r.ID)
	}
	return fmt.Appendf(nil, "%s<ErrorResponse xmlns=%q>%s<RequestId>%s</RequestId></ErrorResponse>",
		xml.Header, namespace(r.Service), b.Bytes(), r.ID)
}
