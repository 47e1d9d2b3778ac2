package testbed

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/client-go/kubernetes"
)

// Requests counts the requests to a cluster so far by all clients, itself included, as its API server counts: by the
// verb in upper case and the resource, as in "APPLY configmaps" and "PUT deployments/status".
func (c *Cluster) Requests(ctx context.Context) (map[string]int64, error) {
	page, err := c.get(ctx, "/metrics")
	if err != nil {
		return nil, fmt.Errorf("reading the figures of %s: %w", c.Name, err)
	}
	counts := map[string]int64{}
	err = EachSeries(page, "apiserver_request_total", func(series string, value float64) {
		what := Label(series, "verb") + " " + Label(series, "resource")
		if sub := Label(series, "subresource"); sub != "" && !strings.HasPrefix(sub, "/") {
			what += "/" + sub
		}
		counts[what] += int64(value)
	})
	if err != nil {
		return nil, fmt.Errorf("reading the figures of %s: %w", c.Name, err)
	}
	return counts, nil
}

// CollectGarbage has the API server of a cluster that serves profiles collect its garbage now.
func (c *Cluster) CollectGarbage(ctx context.Context) error {
	if _, err := c.get(ctx, "/debug/pprof/heap?gc=1"); err != nil {
		return fmt.Errorf("having %s collect its garbage: %w", c.Name, err)
	}
	return nil
}

// get asks the API server for something that is no resource.
func (c *Cluster) get(ctx context.Context, uri string) ([]byte, error) {
	clients, err := kubernetes.NewForConfig(c.RESTConfig())
	if err != nil {
		return nil, err
	}
	return clients.CoreV1().RESTClient().Get().RequestURI(uri).DoRaw(ctx)
}

// Writes are those among counts of Requests, of Leases and of anything else, that were added since earlier ones.
func Writes(before, after map[string]int64) (leases, others int64, what map[string]int64) {
	what = map[string]int64{}
	for request, n := range after {
		verb, resource, _ := strings.Cut(request, " ")
		n -= before[request]
		switch verb {
		case "POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION":
		default:
			continue
		}
		switch {
		case n == 0:
		case resource == "leases":
			leases += n
		case strings.HasSuffix(resource, "reviews"), resource == "serviceaccounts/token":
			// Nothing is stored.
		default:
			others += n
			what[request] = n
		}
	}
	return leases, others, what
}

// Label finds the value of one in a line of the exposition format. None of those that are looked for has quotes in it.
func Label(series, name string) string {
	_, labels, _ := strings.Cut(series, "{")
	_, rest, _ := strings.Cut(","+labels, ","+name+`="`)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}
