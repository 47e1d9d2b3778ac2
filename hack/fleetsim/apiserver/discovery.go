package apiserver

import (
	"net/http"
	"slices"
	"strings"

	"github.com/munnerz/goautoneg"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"github.com/trellis-hub/trellis/hack/fleetsim/kinds"
)

const aggregatedDiscovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// Serves reports whether there are resources of the group version.
func (s *Server) Serves(gv schema.GroupVersion) bool {
	return slices.ContainsFunc(s.registry.Load().Resources(), func(r *kinds.Resource) bool { return r.GVR.GroupVersion() == gv })
}

// discovery answers with what is served: all at once if the client understands that, or else piece by piece.
func (c *call) discovery(path string) {
	registry := c.registry.Load()
	if path == "/api" || path == "/apis" {
		c.w.Header().Set("Vary", "Accept")
		aggregated, acceptable := asksForAggregated(c.r)
		if !acceptable {
			c.fail(notAcceptable("only the following media types are accepted: " + mediaTypes))
			return
		}
		if aggregated {
			doc, etag := registry.Aggregated(path, c.staleVersions()...)
			c.w.Header().Set("ETag", etag)
			if etag != "" && c.r.Header.Get("If-None-Match") == etag {
				c.w.WriteHeader(http.StatusNotModified)
				return
			}
			c.sendDocument(aggregatedDiscovery, doc)
			return
		}
	}
	if c.isStale(path) {
		c.fail(apierrors.NewServiceUnavailable("service unavailable"))
		return
	}
	doc, ok := registry.Legacy(path)
	if !ok {
		c.notServed()
		return
	}
	c.sendDocument("application/json", doc)
}

func (c *call) isStale(path string) bool {
	return slices.ContainsFunc(c.staleVersions(), func(gv schema.GroupVersion) bool {
		return path == "/apis/"+gv.String() || gv.Group == "" && path == "/api/"+gv.Version
	})
}

// asksForAggregated reads the Accept header as negotiate does.
func asksForAggregated(r *http.Request) (aggregated, acceptable bool) {
	header := r.Header.Get("Accept")
	for _, clause := range goautoneg.ParseAccept(header) {
		if clause.Type != "application" && clause.Type != "*" || clause.SubType != "json" && clause.SubType != "*" {
			continue
		}
		if clause.Params["as"] == "" {
			return false, true
		}
		if clause.Params["as"] == "APIGroupDiscoveryList" && clause.Params["g"] == "apidiscovery.k8s.io" && clause.Params["v"] == "v2" {
			return true, true
		}
	}
	return false, header == ""
}

func (c *call) sendDocument(contentType string, doc []byte) {
	c.w.Header().Set("Content-Type", contentType)
	c.w.WriteHeader(http.StatusOK)
	_, _ = c.w.Write(doc) // if the client has gone, there is no one to report it to
}

func (c *call) version() {
	parts := strings.SplitN(strings.TrimPrefix(c.o.Version, "v"), ".", 3)
	info := version.Info{GitVersion: c.o.Version, GoVersion: "go1.26", Compiler: "gc", Platform: "linux/amd64", GitTreeState: "clean"}
	if len(parts) > 1 {
		info.Major, info.Minor = parts[0], parts[1]
	}
	c.sendValue(http.StatusOK, info)
}
