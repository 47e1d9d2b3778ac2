package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/demo/stage"
)

// settle is how long nothing happens before the time of rest begins: what a target's conditions say of what was done to it
// turns up to a minute later, which is written.
const settle = 75 * time.Second

// atRest is what the hub costs while nothing happens.
type atRest struct {
	Seconds float64 `json:"seconds"`
	// Targets counts the source cluster, too: none of them is anything but connected.
	Targets          int     `json:"targets"`
	ManagedResources int     `json:"managedResources"`
	Millicores       float64 `json:"millicores"`
	RSSMiB           float64 `json:"rssMiB"`
	// Target and Source are the requests of the hub at the audited target and at the source cluster, by what they are.
	Target map[string]int `json:"target"`
	Source map[string]int `json:"source"`
	// SourceWrites and LeaseWrites are the writes among those to the source cluster, a minute.
	SourceWrites float64 `json:"sourceWritesPerMinute"`
	LeaseWrites  float64 `json:"leaseWritesPerMinute"`
}

func measureRest(ctx context.Context, w *world) (atRest, error) {
	r := atRest{Seconds: w.rest.Seconds(), Targets: len(targetNames), ManagedResources: len(targetNames) * w.fixture}
	if err := pause(ctx, settle); err != nil {
		return r, err
	}
	began := time.Now()
	before, err := w.hub.CPU()
	if err != nil {
		return r, err
	}
	if err := pause(ctx, w.rest); err != nil {
		return r, err
	}
	after, err := w.hub.CPU()
	if err != nil {
		return r, err
	}
	ended := time.Now()
	r.Millicores = 1000 * (after - before).Seconds() / ended.Sub(began).Seconds()
	rss, err := w.hub.RSS()
	if err != nil {
		return r, err
	}
	r.RSSMiB = float64(rss) / (1 << 20)
	if r.Target, err = requests(w.audited, began, ended); err != nil {
		return r, err
	}
	if r.Source, err = requests(w.source, began, ended); err != nil {
		return r, err
	}
	for request, n := range r.Source {
		verb, what, _ := strings.Cut(request, " ")
		perMinute := float64(n) / ended.Sub(began).Minutes()
		switch {
		case !slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, verb):
		case what == "leases":
			r.LeaseWrites += perMinute
		default:
			r.SourceWrites += perMinute
		}
	}
	return r, nil
}

// requests counts what the hub asked of a cluster.
func requests(cluster *stage.Cluster, from, to time.Time) (map[string]int, error) {
	entries, err := cluster.AuditEntries()
	if err != nil {
		return nil, err
	}
	counts := map[string]int{}
	for _, e := range entries {
		if e.UserAgent == "trellis" && e.Time.After(from) && e.Time.Before(to) {
			counts[describe(e)]++
		}
	}
	return counts, nil
}

func describe(e controlplane.AuditEntry) string {
	switch {
	case e.Verb == "get" && e.Resource == "namespaces" && e.Name == "kube-system":
		return "probe (get namespace)"
	case e.Resource == "":
		return "probe (" + e.Verb + " " + e.RequestURI + ")"
	case e.Subresource != "":
		return fmt.Sprintf("%s %s/%s", e.Verb, e.Resource, e.Subresource)
	}
	return e.Verb + " " + e.Resource
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
