package kind_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// clusterDNS is the tenth address of serviceCIDR, as kubeadm gives it to CoreDNS.
const clusterDNS = "10.96.0.10"

// namesResolve holds that the cluster's DNS, a Deployment like any other, answers through its Service.
func (c *cluster) namesResolve(t *testing.T) {
	t.Helper()
	name := dnsmessage.MustNewName("kubernetes.default.svc.cluster.local.")
	query := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 1, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}},
	}
	packed, err := query.Pack()
	if err != nil {
		t.Fatal(err)
	}
	// DNS over TCP has the length first; bash speaks TCP on any node image. The query is part of the command, since docker exec may
	// never close what it reads from its own standard input.
	var framed strings.Builder
	for _, b := range append(binary.BigEndian.AppendUint16(nil, uint16(len(packed))), packed...) {
		fmt.Fprintf(&framed, `\x%02x`, b)
	}
	ask := "exec 3<>/dev/tcp/" + clusterDNS + "/53 && printf '" + framed.String() + "' >&3 && exec cat <&3"
	c.ready(t, "CoreDNS to answer", func(ctx context.Context) (bool, error) {
		// The server leaves the connection open for a while: timeout ends cat, and what was read stands.
		out, err := runAll(ctx, nil, "docker", "exec", c.controlPlane(), "timeout", "5", "bash", "-c", ask)
		if len(out) == 0 {
			return false, err
		}
		address, err := answer([]byte(out))
		if err == nil && address != "10.96.0.1" {
			err = fmt.Errorf("%s is %s", name, address)
		}
		return err == nil, err
	})
}

// answer is the first address of a DNS message that came over TCP.
func answer(framed []byte) (string, error) {
	reader := bytes.NewReader(framed)
	var size uint16
	if err := binary.Read(reader, binary.BigEndian, &size); err != nil {
		return "", err
	}
	data := make([]byte, size)
	if _, err := io.ReadFull(reader, data); err != nil {
		return "", err
	}
	var message dnsmessage.Message
	if err := message.Unpack(data); err != nil {
		return "", err
	}
	for _, a := range message.Answers {
		if r, ok := a.Body.(*dnsmessage.AResource); ok {
			return fmt.Sprintf("%d.%d.%d.%d", r.A[0], r.A[1], r.A[2], r.A[3]), nil
		}
	}
	return "", fmt.Errorf("no address in %s", message.GoString())
}
