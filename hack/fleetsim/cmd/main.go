// Command fleetsim runs a fleet of simulated API servers until it is interrupted, and prints the Secrets that register
// them to stdout: "make fleetsim". docs/development/fleetsim.md shows what one does with it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/trellis-hub/trellis/hack/fleetsim"
	"github.com/trellis-hub/trellis/hack/fleetsim/apiserver"
	"github.com/trellis-hub/trellis/hack/shoot20"
)

// owner is the field manager of what targets hold at the start.
const owner = "trellis"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := serve(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "fleetsim:", err)
		os.Exit(1)
	}
}

// serve starts a fleet, prints the registrations, and returns when ctx ends.
func serve(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var o fleetsim.Options
	flags := flag.NewFlagSet("fleetsim", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&o.Targets, "targets", 10, "number of API servers")
	flags.Int64Var(&o.Seed, "seed", 1, "decides the names, identities and UIDs")
	flags.StringVar(&o.Prefix, "prefix", "target-", "prefix of the names of targets")
	objects := flags.String("objects", "none", "what targets hold at the start: none or shoot-20")
	namespace := flags.String("namespace", "", "namespace of all Secrets; empty: one for each target")
	prefix := flags.String("namespace-prefix", "shoot--fleet--", "prefix of the namespaces, followed by the target's name")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%q is not a flag", flags.Arg(0))
	}
	var err error
	switch *objects {
	case "none":
	case "shoot-20":
		fixture := shoot20.New(shoot20.Options{Seed: o.Seed, Differing: -1}).Objects("any")
		if o.Snapshot, err = apiserver.Prepare(fixture, owner, time.Now()); err != nil {
			return err
		}
	default:
		return fmt.Errorf("there are no objects %q: there are none and shoot-20", *objects)
	}
	began := time.Now()
	fleet, err := fleetsim.Start(ctx, o)
	if err != nil {
		return err
	}
	defer fleet.Stop()
	if err := printSecrets(stdout, fleet.Targets(), *namespace, *prefix); err != nil {
		return err
	}
	fmt.Fprintf(stderr, "%d API servers run, after %s\n", o.Targets, time.Since(began).Round(time.Millisecond))
	<-ctx.Done()
	return nil
}

// printSecrets prints the registrations of targets, and the namespaces that they need, ready to be applied.
func printSecrets(w io.Writer, targets []*fleetsim.Target, namespace, prefix string) error {
	var namespaces, secrets []any
	for _, target := range targets {
		own := namespace
		if own == "" {
			own = prefix + target.Name()
		}
		if namespace == "" || len(namespaces) == 0 {
			namespaces = append(namespaces, corev1.Namespace{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: own},
			})
		}
		secrets = append(secrets, target.Registration(own))
	}
	for _, object := range append(namespaces, secrets...) {
		content, err := yaml.Marshal(object)
		if err != nil {
			return fmt.Errorf("encoding an object: %w", err)
		}
		if _, err := fmt.Fprintf(w, "---\n%s", content); err != nil {
			return fmt.Errorf("printing Secrets: %w", err)
		}
	}
	return nil
}
