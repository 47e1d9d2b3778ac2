package targetcluster

import (
	"time"

	"github.com/trellis-hub/trellis/clustercache"
)

// observation is everything that is known of a target at one moment.
type observation struct {
	now time.Time
	// registered is false if the registration is gone and nothing is left of the connection. Then status is empty.
	registered bool
	status     clustercache.Status
	health     clustercache.HealthCheckingState
	nodes      nodeSummary
	// conflict says that the cluster at the other end is not the one that it should be; nil if it is.
	conflict error
	// others are the other targets that are the same cluster.
	others []clustercache.ClusterKey
	// elsewhere names another manager at work in the namespace; empty if there is none.
	elsewhere string
	paused    bool
	report    *Report
}

func (o *observation) connected() bool {
	return o.registered && o.status.State == clustercache.StateConnected
}

// credentialEnds returns when the credential ends, and false if it does not or that is not known.
func (o *observation) credentialEnds() (time.Time, bool) {
	return o.status.CredentialExpiry, !o.status.CredentialExpiry.IsZero()
}
