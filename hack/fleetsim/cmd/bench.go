package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/cluster-api/util/secret"

	"github.com/trellis-hub/trellis/hack/fleetsim/control"
)

// probeTimeout is generous: on a busy machine, a probe that fails would end the benchmark.
const probeTimeout = 30 * time.Second

// watched are the twelve kinds that a client of the benchmark watches, the ones that a hub with a usual bundle does.
var watched = []schema.GroupVersionResource{
	{Version: "v1", Resource: "configmaps"}, {Version: "v1", Resource: "secrets"}, {Version: "v1", Resource: "services"},
	{Version: "v1", Resource: "serviceaccounts"}, {Version: "v1", Resource: "namespaces"},
	{Group: "apps", Version: "v1", Resource: "deployments"}, {Group: "apps", Version: "v1", Resource: "daemonsets"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"}, {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}, {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
	{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
}

// bench connects one client to each target of a fleet in another process, with up to twelve watches of metadata and a probe, and
// prints what the fleet takes.
func bench(ctx context.Context, c *console, args []string) error {
	r := c.remote("[flags] [target ...]: measure a fleet that serves, with clients that watch and probe")
	rest := r.set.Duration("rest", time.Minute, "how long the fleet is measured at rest")
	probe := r.set.Duration("probe", 5*time.Second, "between two probes of a client")
	watches := r.set.Int("watches", len(watched), "of a client, each of another kind")
	names, err := parse(r.set, args)
	if err != nil {
		return err
	}
	if *watches < 0 || *watches > len(watched) {
		return usagef("--watches must be between 0 and %d", len(watched))
	}
	if *rest <= 0 || *probe <= 0 {
		return usagef("--rest and --probe must be positive")
	}
	client := r.client()
	made, err := client.Secrets(ctx, control.GetSecrets{Selection: r.selection(names), Namespace: "default"})
	if err != nil {
		return err
	}
	before, err := client.Stats(ctx)
	if err != nil {
		return err
	}
	fmt.Fprint(c.stdout, "alone:   ")
	printStats(c.stdout, before)

	began := time.Now()
	ctx, cancel := context.WithCancel(ctx)
	var clients errgroup.Group
	defer func() { cancel(); _ = clients.Wait() }() // their errors are those of the end
	var connecting errgroup.Group
	connecting.SetLimit(4 * runtime.GOMAXPROCS(0))
	for i := range made.Secrets {
		connecting.Go(func() error {
			v, err := newVisitor(ctx, &made.Secrets[i], watched[:*watches])
			if err != nil {
				return fmt.Errorf("connecting to %s: %w", made.Secrets[i].Name, err)
			}
			clients.Go(func() error { v.stay(ctx, *probe); return nil })
			return nil
		})
	}
	if err := connecting.Wait(); err != nil {
		return err
	}
	fmt.Fprintf(c.stderr, "%d clients are connected, after %s; now %s of rest\n", len(made.Secrets), time.Since(began).Round(time.Millisecond), *rest)
	settled := time.NewTimer(*probe) // what was left to do from connecting is no rest
	defer settled.Stop()
	select {
	case <-settled.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	first, err := client.Stats(ctx)
	if err != nil {
		return err
	}
	over := time.NewTimer(*rest)
	defer over.Stop()
	select {
	case <-over.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	last, err := client.Stats(ctx)
	if err != nil {
		return err
	}
	fmt.Fprint(c.stdout, "clients: ")
	printStats(c.stdout, last)
	cores := (last.CPU.Duration - first.CPU.Duration).Seconds() / last.At.Sub(first.At).Seconds()
	fmt.Fprintf(c.stdout, "at rest: %.3f cores over %s\n", cores, last.At.Sub(first.At).Round(time.Second))
	return nil
}

// visitor is a client with a connection of its own.
type visitor struct {
	http    *http.Client
	host    string
	watches []func()
}

func newVisitor(ctx context.Context, registration *corev1.Secret, watched []schema.GroupVersionResource) (*visitor, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(registration.Data[secret.KubeconfigDataName])
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	config.UserAgent = "fleetsim-bench"
	config.Dial = (&net.Dialer{Timeout: 30 * time.Second}).DialContext // a transport of its own
	v := &visitor{host: config.Host}
	if v.http, err = rest.HTTPClientFor(config); err != nil {
		return nil, err
	}
	client, err := metadata.NewForConfigAndClient(metadata.ConfigFor(config), v.http)
	if err != nil {
		return nil, err
	}
	if err := v.probe(ctx); err != nil {
		return nil, err
	}
	for _, gvr := range watched {
		list, err := client.Resource(gvr).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return nil, err
		}
		w, err := client.Resource(gvr).Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion, AllowWatchBookmarks: true})
		if err != nil {
			return nil, err
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for open := true; open; { // until the watch is stopped
				_, open = <-w.ResultChan()
			}
		}()
		v.watches = append(v.watches, func() { w.Stop(); <-done })
	}
	return v, nil
}

// stay probes until ctx ends, and leaves then.
func (v *visitor) stay(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case <-ticker.C:
			_ = v.probe(ctx) // a target that is down is not what is measured
		case <-ctx.Done():
		}
	}
	for _, stop := range v.watches {
		stop()
	}
	v.http.CloseIdleConnections()
}

func (v *visitor) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, v.host+"/readyz", nil)
	if err != nil {
		return err
	}
	response, err := v.http.Do(r)
	if err != nil {
		return err
	}
	return response.Body.Close()
}
