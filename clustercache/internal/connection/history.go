package connection

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/trellis-hub/trellis/untrusted"
)

const (
	// leasesPath has the Leases that are renewed all the time in nearly every cluster: those of API servers and of
	// the controllers of the control plane. leasesMost is how many are looked at.
	leasesPath = "/apis/coordination.k8s.io/v1/namespaces/" + metav1.NamespaceSystem + "/leases"
	leasesMost = 20
)

// History is what is remembered of the past of a target. The zero value is nothing.
type History struct {
	// version is the highest that the target was found to have.
	version string
	// mark is the youngest change that was found.
	mark lease
}

// Version is the highest version that the target was found to have, or empty.
func (h History) Version() string { return h.version }

// lease is a Lease as it was written at a version.
type lease struct {
	Metadata struct {
		Name            string `json:"name"`
		UID             string `json:"uid"`
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Spec struct {
		RenewTime string `json:"renewTime"`
	} `json:"spec"`
}

// leases are some Leases as they were at a version.
type leases struct {
	Metadata struct {
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Items []lease `json:"items"`
}

// HistoryResult is what a look at the history of a target found.
type HistoryResult struct {
	Answered bool // if not, the target is to be asked again soon
	Now      History
	Rewound  bool
}

// compareHistory checks whether a target still has the history that is remembered of it. There is no evidence against
// it if the hub may not read Leases, or a version cannot be compared or is forgotten.
func (c *Connection) compareHistory(ctx context.Context, past History, timeout time.Duration) *HistoryResult {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var present leases
	// Without a version it is a consistent read: the answer is not older than any that was given before, whichever
	// API server gives it.
	err := c.call(ctx, http.MethodGet, leasesPath+"?limit="+strconv.Itoa(leasesMost), nil, &present)
	if err != nil {
		return &HistoryResult{Answered: isAnswered(err), Now: past}
	}
	result := &HistoryResult{Answered: true, Now: History{version: present.Metadata.ResourceVersion,
		mark: present.youngest()}}
	if !isVersion(result.Now.version) {
		result.Now = past
		return result
	}
	if isOlder(result.Now.version, past.version) {
		result.Rewound = true
		return result
	}
	if past.mark == (lease{}) {
		return result
	}
	result.Rewound, err = c.misses(ctx, past.mark)
	result.Answered = err == nil || isAnswered(err)
	if !result.Answered {
		result.Now = past
	}
	return result
}

// misses reports whether a change that was found once is missing in the history of a target. A target that was
// restored, and has had as many changes since, has another change at that version: even one of the same Lease
// has another renew time.
func (c *Connection) misses(ctx context.Context, mark lease) (bool, error) {
	version := mark.Metadata.ResourceVersion
	query := url.Values{
		"fieldSelector": {"metadata.name=" + mark.Metadata.Name}, "resourceVersion": {version},
		"resourceVersionMatch": {string(metav1.ResourceVersionMatchExact)},
	}
	var then leases
	if err := c.call(ctx, http.MethodGet, leasesPath+"?"+query.Encode(), nil, &then); err != nil {
		return false, err
	}
	if then.Metadata.ResourceVersion != version {
		return false, nil // it does not know how to look back
	}
	return !slices.Contains(then.Items, mark), nil
}

// youngest returns the Lease that was written last, the zero value if there is none that can be asked for again.
func (l *leases) youngest() (youngest lease) {
	for _, item := range l.Items {
		m := item.Metadata
		usable := untrusted.Name(m.Name) == m.Name && untrusted.Token(m.UID) == m.UID &&
			isVersion(m.ResourceVersion) && untrusted.Token(item.Spec.RenewTime) == item.Spec.RenewTime
		if usable && (youngest == (lease{}) || isOlder(youngest.Metadata.ResourceVersion, m.ResourceVersion)) {
			youngest = item
		}
	}
	return youngest
}

// isVersion reports whether a text is a version that can be compared with others.
func isVersion(text string) bool {
	_, err := resourceversion.CompareResourceVersion(text, text)
	return err == nil && untrusted.Token(text) == text
}

// isOlder reports whether version a is older than b; false if they cannot be compared.
func isOlder(a, b string) bool {
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && c < 0
}

// isAnswered reports whether the error of a call is an answer of the target that a retry would get, too.
func isAnswered(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code < http.StatusInternalServerError &&
		!apierrors.IsTooManyRequests(err)
}
