package app

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/fairqueue"
	"github.com/trellis-hub/trellis/metrics"
	"github.com/trellis-hub/trellis/version"
)

// debugPath is where the debug page is, on the port of the metrics.
const debugPath = "/debug/targets"

// maxRows bounds each table of the debug page.
const maxRows = 2000

// debugPage is what the hub is doing at one moment. Nothing in it is secret: credentials were removed from
// messages, and of Secrets it has names only.
type debugPage struct {
	Time     time.Time     `json:"time"`
	Identity string        `json:"identity"`
	Version  string        `json:"version"`
	Leading  bool          `json:"leading"`
	Stuck    string        `json:"stuckLoop,omitempty"` // the loop that makes no progress
	Targets  []debugTarget `json:"targets"`
	Queues   []debugQueue  `json:"queues"`
	// Omitted is how many targets and flows there are beside.
	Omitted int `json:"omitted,omitempty"`
}

type debugTarget struct {
	Target              string       `json:"target"`
	State               string       `json:"state"`
	Since               time.Time    `json:"since"`
	Reason              string       `json:"reason,omitempty"`
	Message             string       `json:"message,omitempty"`
	Usable              bool         `json:"usable"`
	Connection          int64        `json:"connection"`
	Secret              string       `json:"secret,omitempty"`
	SecretVersion       string       `json:"secretResourceVersion,omitempty"`
	PendingReason       string       `json:"pendingReason,omitempty"`
	PendingMessage      string       `json:"pendingMessage,omitempty"`
	Overfull            string       `json:"overfull,omitempty"`
	UID                 string       `json:"uid,omitempty"`
	KubernetesVersion   string       `json:"kubernetesVersion,omitempty"`
	RoundTrip           string       `json:"roundTrip,omitempty"`
	CredentialExpiry    *time.Time   `json:"credentialExpiry,omitempty"`
	NextAttempt         *time.Time   `json:"nextAttempt,omitempty"`
	LastProbe           *time.Time   `json:"lastProbe,omitempty"`
	LastSuccess         *time.Time   `json:"lastSuccess,omitempty"`
	ConsecutiveFailures int          `json:"consecutiveFailures"`
	InFlight            int          `json:"requestsInFlight"`
	MaxInFlight         int          `json:"maxRequestsInFlight"`
	Succeeded           uint64       `json:"requestsSucceeded"`
	Failed              uint64       `json:"requestsFailed"`
	Objects             int          `json:"watchedObjects"`
	Unsynced            int          `json:"watchesUnsynced"`
	Watches             []debugWatch `json:"watches"`
}

type debugWatch struct {
	Name    string `json:"name"`
	Synced  bool   `json:"synced"`
	Absent  bool   `json:"absent,omitempty"`
	Objects int    `json:"objects"`
}

type debugQueue struct {
	Class    string      `json:"class"`
	Depth    int         `json:"depth"`
	Delayed  int         `json:"delayed"`
	InFlight int         `json:"inFlight"`
	Waiting  int         `json:"waiting"`
	Oldest   string      `json:"oldest"`
	Flows    []debugFlow `json:"flows"`
}

type debugFlow struct {
	Name     string `json:"name"`
	Ready    int    `json:"ready"`
	InFlight int    `json:"inFlight"`
	Waiting  int    `json:"waiting"`
	Oldest   string `json:"oldest"`
}

// debugTargets serves the page.
func (h *hub) debugTargets(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "only GET is allowed", http.StatusMethodNotAllowed)
		return
	}
	page := h.debugPage()
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if r.URL.Query().Get("format") == "json" || strings.Contains(r.Header.Get("Accept"), "application/json") {
		w.Header().Set("Content-Type", "application/json")
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		_ = encoder.Encode(page) // an error can only be that the client is gone
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	_, _ = io.WriteString(w, page.html())
}

func (h *hub) debugPage() debugPage {
	now := h.Clock.Now()
	page := debugPage{Time: now, Identity: h.Identity, Version: version.Get().Version, Leading: h.leader.Leading(),
		Targets: []debugTarget{}, Queues: []debugQueue{}}
	page.Stuck, _ = h.loops.Stuck()
	for i, in := range h.clusters.Inspect() {
		if i >= maxRows {
			page.Omitted++
			continue
		}
		page.Targets = append(page.Targets, describeTarget(in))
	}
	rows := 0
	for _, q := range h.metrics.Queues.Snapshots() {
		queue := debugQueue{Class: q.Class, Depth: q.Depth, Delayed: q.Delayed, InFlight: q.InFlight,
			Waiting: q.Waiting, Oldest: round(q.Oldest), Flows: []debugFlow{}}
		for _, f := range q.Flows {
			if rows++; rows > maxRows {
				page.Omitted++
				continue
			}
			queue.Flows = append(queue.Flows, describeFlow(f))
		}
		page.Queues = append(page.Queues, queue)
	}
	return page
}

func describeTarget(in clustercache.Inspection) debugTarget {
	s := in.Status
	t := debugTarget{
		Target: metrics.TargetName(s.Cluster), State: string(s.State), Since: s.Since, Reason: s.Reason, Message: s.Message,
		Usable: in.Usable, Connection: s.Connection, Secret: s.SecretName, SecretVersion: s.SecretResourceVersion,
		PendingReason: s.PendingReason, PendingMessage: s.PendingMessage, Overfull: s.Overfull,
		UID: string(s.UID), KubernetesVersion: s.KubernetesVersion,
		CredentialExpiry: timeOrNil(s.CredentialExpiry), NextAttempt: timeOrNil(s.NextAttempt),
		LastProbe: timeOrNil(in.Health.LastProbeTime), LastSuccess: timeOrNil(in.Health.LastProbeSuccessTime),
		ConsecutiveFailures: in.Health.ConsecutiveFailures,
		InFlight:            in.InFlight, MaxInFlight: in.MaxInFlight, Succeeded: in.Succeeded, Failed: in.Failed,
		Watches: []debugWatch{},
	}
	if s.RoundTrip > 0 {
		t.RoundTrip = round(s.RoundTrip)
	}
	for _, w := range in.Watches {
		t.Objects += w.Objects
		if !w.Synced && !w.Absent {
			t.Unsynced++
		}
		t.Watches = append(t.Watches, debugWatch{Name: w.Name, Synced: w.Synced, Absent: w.Absent, Objects: w.Objects})
	}
	return t
}

func describeFlow(f fairqueue.Flow) debugFlow {
	return debugFlow{Name: strings.TrimPrefix(f.Name, "/"), Ready: f.Ready, InFlight: f.InFlight, Waiting: f.Waiting,
		Oldest: round(f.Oldest)}
}

// round makes a duration readable.
func round(d time.Duration) string {
	if d > time.Second {
		return d.Round(time.Second).String()
	}
	return d.Round(100 * time.Microsecond).String()
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
