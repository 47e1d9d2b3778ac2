package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/trellis-hub/trellis/hack/fleetsim"
	"github.com/trellis-hub/trellis/hack/fleetsim/apiserver"
	"github.com/trellis-hub/trellis/hack/fleetsim/control"
	"github.com/trellis-hub/trellis/hack/fleetsim/journal"
	"github.com/trellis-hub/trellis/hack/shoot20"
)

// defaultListen is where the control API is, unless somebody says something else.
const defaultListen = "127.0.0.1:8710"

// serve starts a fleet and stays until ctx ends.
func serve(ctx context.Context, c *console, args []string) error {
	set := c.flags("[flags]: start a fleet and stay until ^C")
	var o fleetsim.Options
	set.IntVar(&o.Targets, "targets", 10, "how many API servers there are")
	set.Int64Var(&o.Seed, "seed", 1, "decides identities and everything that is drawn by lot")
	set.StringVar(&o.Prefix, "prefix", "target-", "of the targets' names")
	set.StringVar((*string)(&o.Credentials), "credentials", string(fleetsim.Token), "what kubeconfigs have: token, certificate or token-and-certificate")
	objects := set.String("objects", "none", "what targets hold at the start: none or shoot-20")
	owner := set.String("owner", "trellis", "whose the content is: the field manager or the first word of the user agent of who corrects drift; what targets hold at the start is his")
	listen := set.String("listen", defaultListen, "where the control API is, on 127.0.0.1; port 0 takes a free one")
	printed := set.Bool("secrets", false, "print the Secrets that register the targets")
	secrets := secretFlags(set)
	rest, err := parse(set, args)
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return usagef("it takes no arguments, but was given %q", rest)
	}
	var owned map[string]bool
	if o.Snapshot, owned, err = content(*objects, *owner, o.Seed); err != nil {
		return err
	}
	o.Journal = journal.New(journal.Options{Owner: ownedBy(*owner), Owned: func(_ string, c journal.Change) bool { return owned[c.Object()] }})
	listener, err := listenLocally(ctx, *listen)
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }() // the server does, if it came so far

	began := time.Now()
	fleet, err := fleetsim.Start(ctx, o)
	if err != nil {
		return err
	}
	defer fleet.Stop()
	if *printed {
		made, err := control.MakeSecrets(fleet.Targets(), secrets())
		if err != nil {
			return usageError{err}
		}
		if err := printSecrets(c.stdout, made); err != nil {
			return err
		}
	}
	fmt.Fprintf(c.stderr, "%d API servers run, after %s; the control API is at http://%s\n", o.Targets, time.Since(began).Round(time.Millisecond), listener.Addr())

	server := &http.Server{Handler: control.Handler(fleet), ReadHeaderTimeout: 10 * time.Second}
	end := context.AfterFunc(ctx, func() { _ = server.Close() }) // its listener is gone in any case
	defer end()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the control API: %w", err)
	}
	return nil
}

// ownedBy are the writes of the owner of the content.
func ownedBy(owner string) journal.Writers {
	manager, program := journal.ByManager(owner), journal.ByUserAgent(owner)
	return func(c journal.Change) bool { return manager(c) || program(c) }
}

// content makes what targets hold at the start, as the owner would have applied it, and tells what of that is his, by
// journal.Change.Object. It is the same for all of them.
func content(objects, owner string, seed int64) (*apiserver.Snapshot, map[string]bool, error) {
	switch objects {
	case "none":
		return nil, nil, nil
	case "shoot-20":
		fixture := shoot20.New(shoot20.Options{Seed: seed, Differing: -1}).Objects("any")
		owned := make(map[string]bool, len(fixture))
		for _, o := range fixture {
			resource, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind()) // the fixture has no irregular plural
			owned[journal.Change{Resource: resource.GroupResource().String(), Namespace: o.GetNamespace(), Name: o.GetName()}.Object()] = true
		}
		snapshot, err := apiserver.Prepare(fixture, owner, time.Now())
		return snapshot, owned, err
	default:
		return nil, nil, usagef("there are no objects %q: there are none and shoot-20", objects)
	}
}

func listenLocally(ctx context.Context, address string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil || !net.ParseIP(host).IsLoopback() {
		return nil, usagef("the control API cannot be at %q: it must be an address and a port of this machine only, such as %s", address, defaultListen)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("opening the control API: %w", err)
	}
	return listener, nil
}
