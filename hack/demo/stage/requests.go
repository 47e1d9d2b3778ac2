package stage

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/client-go/kubernetes"
)

// Requests counts what a cluster was asked for so far by anybody, itself included, as its API server counts: by the verb in upper
// case and the resource, as in "APPLY configmaps" and "PUT deployments/status".
func (c *Cluster) Requests(ctx context.Context) (map[string]int64, error) {
	clients, err := kubernetes.NewForConfig(c.RESTConfig())
	if err != nil {
		return nil, fmt.Errorf("client for %s: %w", c.Name, err)
	}
	page, err := clients.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
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
	clients, err := kubernetes.NewForConfig(c.RESTConfig())
	if err != nil {
		return fmt.Errorf("client for %s: %w", c.Name, err)
	}
	if _, err := clients.CoreV1().RESTClient().Get().AbsPath("/debug/pprof/heap").Param("gc", "1").DoRaw(ctx); err != nil {
		return fmt.Errorf("having %s collect its garbage: %w", c.Name, err)
	}
	return nil
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
