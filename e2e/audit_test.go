package e2e

import (
	"slices"
	"strings"
	"time"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

type request = controlplane.AuditEntry

// listen returns a function that returns the requests of hubs to a cluster's API server since now.
func listen(g *WithT, cluster *testbed.Cluster) func() []request {
	began := time.Now()
	return func() []request {
		all, err := cluster.AuditEntries()
		g.Expect(err).NotTo(HaveOccurred())
		return slices.DeleteFunc(all, func(e request) bool { return e.Time.Before(began) || e.UserAgent != "trellis" })
	}
}

// isConnectionCheck reports whether a request is one that establishes or checks a connection: reachability, identity of
// the cluster, restored etcd, own identity, discovery.
func isConnectionCheck(e request) bool {
	switch {
	case e.Resource == "namespaces" && e.Name == "kube-system" && e.Verb == "get":
		return true
	case e.Resource == "leases" && e.Namespace == "kube-system" && e.Verb == "list":
		return true
	case e.Resource == "selfsubjectreviews" && e.Verb == "create":
		return true
	}
	path, _, _ := strings.Cut(e.RequestURI, "?")
	segments := strings.Count(strings.Trim(path, "/"), "/") + 1
	discovery := path == "/version" || path == "/api" || path == "/apis" ||
		strings.HasPrefix(path, "/api/") && segments == 2 || strings.HasPrefix(path, "/apis/") && segments <= 3
	return discovery && e.Resource == "" && e.Verb == "get"
}

// isRead reports whether a request lists or watches.
func isRead(e request) bool { return (e.Verb == "list" || e.Verb == "watch") && !isConnectionCheck(e) }

// isWrite reports whether a request changes an object.
func isWrite(e request) bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, e.Verb) && !isConnectionCheck(e)
}

// without drops requests that a test allows.
func without(entries []request, allowed ...func(request) bool) []request {
	return slices.DeleteFunc(slices.Clone(entries), func(e request) bool {
		return slices.ContainsFunc(allowed, func(f func(request) bool) bool { return f(e) })
	})
}

// texts renders requests for failures.
func texts(entries []request) []string {
	out := []string{}
	for _, e := range entries {
		out = append(out, e.String())
	}
	return out
}
