package connection

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// historyShare is the part of the time for a probe that there is beside it for comparing the history.
const historyShare = 4

// Inquiry says what a probe asks beyond the UID of the cluster.
type Inquiry struct {
	// Version has the version read.
	Version bool
	// History is compared with that of the target. Nil: it is not.
	History *History
}

// ProbeResult is what a probe found.
type ProbeResult struct {
	Connection *Connection
	Access     Access // that it was made with
	Err        error
	UID        types.UID // empty if the target did not say
	Version    string    // empty if it was not asked
	Took       time.Duration
	History    *HistoryResult // nil if it was not compared
}

// Probe asks the target for a sign of life. It ends with the connection at the latest.
func (c *Connection) Probe(asked Inquiry) ProbeResult {
	options := &c.dialer.options
	result := ProbeResult{Connection: c, Access: c.Access()}
	historyTimeout := time.Duration(0)
	if asked.History != nil { // beside the time for the answer that decides
		historyTimeout = options.ProbeTimeout / historyShare
	}
	timeout := options.ProbeTimeout + historyTimeout
	result.Err = options.Probes.Do(c.ctx, options.Cluster, timeout, func(ctx context.Context) error {
		if asked.History != nil {
			result.History = c.compareHistory(ctx, *asked.History, historyTimeout)
		}
		started := options.Clock.Now()
		err := c.probe(ctx, asked.Version, &result)
		result.Took = options.Clock.Since(started)
		return err
	})
	return result
}

// probe reads what identifies the cluster: that needs its storage too, and notices when an address leads elsewhere. Any
// answer is a sign of life but one that refuses the credential and one that says that the server does not work.
func (c *Connection) probe(ctx context.Context, withVersion bool, result *ProbeResult) (err error) {
	if withVersion {
		if result.Version, err = c.readVersion(ctx); err != nil {
			return err
		}
	}
	result.UID, err = c.readUID(ctx)
	if apierrors.IsForbidden(err) || apierrors.IsTooManyRequests(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
