package aws

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// dnsRetry is the pause before the address of the cluster's DNS is read again if there was none.
const dnsRetry = time.Minute

// clusterDNS remembers the address of the cluster's DNS.
type clusterDNS struct {
	// read returns the address, empty for none; nil means that it is not known.
	read   func(context.Context) (string, error)
	period time.Duration
	logger logr.Logger

	mu    sync.Mutex
	ip    string
	until time.Time
}

// address returns the address; empty if there is none, or it could never be read: the node's image then takes the usual one.
func (d *clusterDNS) address(ctx context.Context) string {
	if d.read == nil {
		return ""
	}
	d.mu.Lock()
	last, until := d.ip, d.until
	d.mu.Unlock()
	if time.Now().Before(until) {
		return last
	}
	ip, err := d.read(ctx)
	if err != nil {
		d.logger.Info("The address of the cluster's DNS could not be read: nodes get the last one known, or the usual one", "why", err.Error(), "clusterDNS", last)
		ip = last
	}
	period := d.period
	if err != nil || ip == "" {
		period = min(period, dnsRetry)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ip, d.until = ip, time.Now().Add(period)
	return ip
}
