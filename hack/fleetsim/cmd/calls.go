package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/yaml"

	"github.com/trellis-hub/trellis/hack/fleetsim"
	"github.com/trellis-hub/trellis/hack/fleetsim/control"
	"github.com/trellis-hub/trellis/hack/fleetsim/fault"
)

// addressVariable names the environment variable with the address of the control API.
const addressVariable = "FLEETSIM"

// remote holds the flags of all subcommands that call a fleet.
type remote struct {
	set     *flag.FlagSet
	address *string
	percent *float64
	json    *bool
}

func (c *console) remote(synopsis string) remote {
	set := c.flags(synopsis)
	return remote{
		set:     set,
		address: set.String("control", cmp.Or(os.Getenv(addressVariable), "http://"+defaultListen), "address of the control API; $"+addressVariable+" is its default"),
		percent: set.Float64("percent", 0, "only that part of the targets, always the same; 0 means all"),
		json:    set.Bool("json", false, "print JSON, where there is something to print"),
	}
}

func (r remote) client() control.Client {
	address := *r.address
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	return control.Client{Address: strings.TrimSuffix(address, "/")}
}

func (r remote) selection(names []string) fleetsim.Selection {
	return fleetsim.Selection{Names: names, Percent: *r.percent}
}

// targets are those that the arguments choose.
func (r remote) targets(ctx context.Context, args []string) ([]control.Target, error) {
	names, err := parse(r.set, args)
	if err != nil {
		return nil, err
	}
	return r.client().Targets(ctx, r.selection(names))
}

// changed says which targets a call changed.
func (c *console) changed(names []string, err error) error {
	switch {
	case err != nil:
		return err
	case len(names) == 1:
		fmt.Fprintln(c.stderr, names[0])
	default:
		fmt.Fprintf(c.stderr, "%d targets\n", len(names))
	}
	return nil
}

func printJSON(w io.Writer, content any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(content)
}

func targets(ctx context.Context, c *console, args []string) error {
	r := c.remote("[flags] [target ...]: list targets")
	list, err := r.targets(ctx, args)
	if err != nil {
		return err
	}
	if *r.json {
		return printJSON(c.stdout, list)
	}
	w := tabwriter.NewWriter(c.stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tHOST\tSTATE\tCONNECTIONS\tOBJECTS\tSKEW\tFAULTS")
	for _, t := range list {
		var ids []string
		for _, f := range t.Faults {
			ids = append(ids, f.ID)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\t%s\n", t.Name, t.Host, t.State, t.Connections, t.Objects, t.Skew.Duration, cmp.Or(strings.Join(ids, ","), "-"))
	}
	return w.Flush()
}

func kubeconfig(ctx context.Context, c *console, args []string) error {
	r := c.remote("target: print its kubeconfig")
	names, err := parse(r.set, args)
	if err != nil {
		return err
	}
	if len(names) != 1 {
		return usagef("it takes the name of one target")
	}
	made, err := r.client().Secrets(ctx, control.GetSecrets{Selection: r.selection(names), Namespace: "default"})
	if err != nil {
		return err
	}
	if len(made.Secrets) != 1 {
		return usagef("%s are %d targets", names[0], len(made.Secrets))
	}
	if _, err := c.stdout.Write(made.Secrets[0].Data[secret.KubeconfigDataName]); err != nil {
		return fmt.Errorf("printing the kubeconfig: %w", err)
	}
	return nil
}

// secretFlags adds the flags that say into which namespaces Secrets go.
func secretFlags(set *flag.FlagSet) func() control.GetSecrets {
	namespace := set.String("namespace", "", "of all Secrets; empty: each has a namespace of its own")
	prefix := set.String("namespace-prefix", "shoot--fleet--", "of the namespaces if each Secret has its own; they go on with the target's name")
	return func() control.GetSecrets {
		if *namespace != "" {
			return control.GetSecrets{Namespace: *namespace}
		}
		return control.GetSecrets{NamespacePrefix: *prefix}
	}
}

func secrets(ctx context.Context, c *console, args []string) error {
	r := c.remote("[flags] [target ...]: print the Secrets that register targets, and their namespaces, as YAML")
	get := secretFlags(r.set)
	names, err := parse(r.set, args)
	if err != nil {
		return err
	}
	request := get()
	request.Selection = r.selection(names)
	made, err := r.client().Secrets(ctx, request)
	if err != nil {
		return err
	}
	return printSecrets(c.stdout, made)
}

func printSecrets(w io.Writer, made control.Secrets) error {
	var documents []any
	for i := range made.Namespaces {
		documents = append(documents, made.Namespaces[i])
	}
	for i := range made.Secrets {
		documents = append(documents, made.Secrets[i])
	}
	for _, d := range documents {
		content, err := yaml.Marshal(d)
		if err != nil {
			return fmt.Errorf("encoding an object: %w", err)
		}
		if _, err := fmt.Fprintf(w, "---\n%s", content); err != nil {
			return fmt.Errorf("printing Secrets: %w", err)
		}
	}
	return nil
}

func rotate(ctx context.Context, c *console, args []string) error {
	r := c.remote("[flags] token|client-certificate|serving-certificate|ca [target ...]: replace it")
	var request control.Rotate
	r.set.BoolVar(&request.Revoke, "revoke", false, "end older credentials at once; with ca, reset connections")
	r.set.DurationVar(&request.Lifetime.Duration, "lifetime", 0, "of the new one; negative: it has expired; 0: the usual one")
	rest, err := parse(r.set, args)
	if err != nil {
		return err
	}
	if len(rest) == 0 {
		return usagef("it needs to know what to rotate: token, client-certificate, serving-certificate or ca")
	}
	request.What, request.Selection = rest[0], r.selection(rest[1:])
	return c.changed(r.client().Rotate(ctx, request))
}

func skew(ctx context.Context, c *console, args []string) error {
	r := c.remote("[flags] duration [target ...]: set clocks wrong; 0s sets them right, -- goes before a negative one")
	rest, err := parse(r.set, args)
	if err != nil {
		return err
	}
	if len(rest) == 0 {
		return usagef("it needs to know by how much")
	}
	by, err := time.ParseDuration(rest[0])
	if err != nil {
		return usageError{err}
	}
	request := control.Skew{Selection: r.selection(rest[1:])}
	request.By.Duration = by
	return c.changed(r.client().Skew(ctx, request))
}

func do(ctx context.Context, c *console, args []string) error {
	r := c.remote("[flags] [target ...]")
	names, err := parse(r.set, args)
	if err != nil {
		return err
	}
	return c.changed(r.client().Do(ctx, control.Do{Selection: r.selection(names), What: c.name}))
}

func crd(ctx context.Context, c *console, args []string) error {
	r := c.remote("[flags] on file | off name [target ...]: let a CustomResourceDefinition come or go")
	rest, err := parse(r.set, args)
	if err != nil {
		return err
	}
	if len(rest) < 2 || rest[0] != "on" && rest[0] != "off" {
		return usagef(`it needs "on" and the file of a CustomResourceDefinition, or "off" and its name`)
	}
	request := control.SetCRD{Selection: r.selection(rest[2:])}
	if rest[0] == "off" {
		request.Remove = rest[1]
	} else {
		content, err := os.ReadFile(rest[1])
		if err != nil {
			return fmt.Errorf("reading a CustomResourceDefinition: %w", err)
		}
		request.CRD = &unstructured.Unstructured{}
		if err := yaml.Unmarshal(content, &request.CRD.Object); err != nil {
			return fmt.Errorf("reading %s: %w", rest[1], err)
		}
	}
	return c.changed(r.client().SetCRD(ctx, request))
}

func discovery(ctx context.Context, c *console, args []string) error {
	r := c.remote("[flags] [target ...]: let the discovery of group versions fail, or make it whole")
	var fail list
	r.set.Var(&fail, "fail", "group versions such as apps/v1; none: discovery is whole again")
	names, err := parse(r.set, args)
	if err != nil {
		return err
	}
	return c.changed(r.client().FailDiscovery(ctx, control.FailDiscovery{Selection: r.selection(names), GroupVersions: fail}))
}

func tellJournal(ctx context.Context, c *console, args []string) error {
	r := c.remote("[flags] [target]: tell what was asked for, and judge it")
	var request control.GetJournal
	r.set.Var((*list)(&request.Programs), "programs", "whose writes are judged, by the first word of their user agents; none: all")
	r.set.DurationVar(&request.Window.Duration, "window", time.Minute, "of the checks for flapping and for two writers at a time")
	reset := r.set.Bool("reset", false, "begin a new phase: counts and latencies start from nothing")
	names, err := parse(r.set, args)
	if err != nil {
		return err
	}
	if len(names) > 1 {
		return usagef("it takes one target or none, which means all")
	}
	if *reset {
		return r.client().ResetJournal(ctx)
	}
	request.Target = strings.Join(names, "")
	j, err := r.client().Journal(ctx, request)
	if err != nil {
		return err
	}
	if *r.json {
		return printJSON(c.stdout, j)
	}
	if err := j.Counts.Print(c.stdout); err != nil {
		return fmt.Errorf("printing counts: %w", err)
	}
	fmt.Fprintf(c.stdout, "\ndrift:       %s; %d pending, %d superseded\npropagation: %s\n", j.Latencies.Drift, j.Latencies.PendingTotal, j.Latencies.Superseded, j.Latencies.Propagation)
	for _, v := range j.Verdicts {
		fmt.Fprintln(c.stdout, v)
	}
	for _, kind := range slices.Sorted(maps.Keys(j.Struck)) {
		fmt.Fprintf(c.stdout, "fault %s struck %d times\n", kind, j.Struck[kind])
	}
	return nil
}

func stats(ctx context.Context, c *console, args []string) error {
	r := c.remote("[flags]: tell what the simulator takes")
	if rest, err := parse(r.set, args); err != nil || len(rest) > 0 {
		return cmp.Or(err, usagef("it takes no arguments"))
	}
	s, err := r.client().Stats(ctx)
	if err != nil {
		return err
	}
	if *r.json {
		return printJSON(c.stdout, s)
	}
	printStats(c.stdout, s)
	return nil
}

func printStats(w io.Writer, s control.Stats) {
	const mib = 1 << 20
	fmt.Fprintf(w, "%d targets, %d objects, %d connections, %d goroutines, %d open files, %d MiB resident (most: %d), %d MiB heap, %s CPU\n",
		s.Targets, s.Objects, s.Connections, s.Goroutines, s.Descriptors, s.RSSBytes/mib, s.MaxRSSBytes/mib, s.HeapBytes/mib, s.CPU.Round(10*time.Millisecond))
}

func faults(ctx context.Context, c *console, args []string) error {
	if len(args) == 0 {
		return usagef("it needs to know what to do: set, clear or list")
	}
	what := args[0]
	c.name += " " + what
	switch what {
	case "set":
		return setFault(ctx, c, args[1:])
	case "clear":
		r := c.remote("[flags] [target ...]: clear faults")
		var which list
		r.set.Var(&which, "faults", "IDs or kinds; none: all")
		names, err := parse(r.set, args[1:])
		if err != nil {
			return err
		}
		return c.changed(r.client().ClearFaults(ctx, control.ClearFaults{Selection: r.selection(names), Faults: which}))
	case "list":
		return listFaults(ctx, c, args[1:])
	case "-h", "-help", "--help":
		fmt.Fprintf(c.stderr, "fleetsim fault set|clear|list\nkinds of faults: %v, or a code such as 429\n", fault.Kinds())
		return nil
	default:
		return usagef("it sets, clears or lists, but was asked to %q", what)
	}
}

func setFault(ctx context.Context, c *console, args []string) error {
	r := c.remote(fmt.Sprintf("[flags] kind [target ...]: set a fault\nkinds: %v, or a code such as 429", fault.Kinds()))
	var f fault.Fault
	r.set.StringVar(&f.ID, "id", "", "name of the fault; one of the same name is replaced")
	r.set.Float64Var(&f.Share, "share", 0, "of the requests or connections that are struck, up to 1; 0 means all")
	r.set.Var((*list)(&f.Match.Verbs), "verbs", "that are struck: get, list, watch, create, update, patch, apply, delete, deletecollection")
	r.set.Var((*list)(&f.Match.Resources), "resources", `that are struck, such as configmaps or "*.apps"`)
	r.set.Var((*list)(&f.Match.UserAgents), "user-agents", `that are struck, such as "kubectl/*"`)
	r.set.Var((*list)(&f.Match.Paths), "paths", `that are struck, such as /version or "/apis/*"`)
	r.set.DurationVar(&f.Delay.Duration, "delay", 0, "of latency and slow-watch")
	r.set.DurationVar(&f.Jitter.Duration, "jitter", 0, "how much more the delay may be")
	r.set.DurationVar(&f.RetryAfter.Duration, "retry-after", 0, "what a code is sent with")
	r.set.Int64Var(&f.After, "after", 0, "bytes of an answer before a reset")
	r.set.Int64Var(&f.Rate, "rate", 0, "bytes a second of drip")
	r.set.StringVar(&f.Connections, "connections", "", "that a blackhole swallows: existing or new; empty means all")
	r.set.StringVar(&f.At, "at", "", "when silent is: before-handshake or after-handshake")
	rest, err := parse(r.set, args)
	if err != nil {
		return err
	}
	if len(rest) == 0 {
		return usagef("it needs the kind of the fault: one of %v, or a code such as 429", fault.Kinds())
	}
	f.Kind = fault.Kind(rest[0])
	if code, err := strconv.Atoi(rest[0]); err == nil {
		f.Kind, f.Code = fault.Status, code
	}
	if err := f.Validate(); err != nil {
		return usageError{err}
	}
	return c.changed(r.client().SetFault(ctx, control.SetFault{Selection: r.selection(rest[1:]), Fault: f}))
}

func listFaults(ctx context.Context, c *console, args []string) error {
	r := c.remote("[flags] [target ...]: list faults")
	list, err := r.targets(ctx, args)
	if err != nil {
		return err
	}
	if *r.json {
		all := map[string][]fault.State{}
		for _, t := range list {
			if len(t.Faults) > 0 {
				all[t.Name] = t.Faults
			}
		}
		return printJSON(c.stdout, all)
	}
	w := tabwriter.NewWriter(c.stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "TARGET\tFAULT\tFOR\tSTRUCK\tPARAMETERS")
	for _, t := range list {
		for _, f := range t.Faults {
			parameters, err := json.Marshal(f.Fault)
			if err != nil {
				return fmt.Errorf("encoding a fault: %w", err)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", t.Name, f.ID, time.Since(f.Since).Round(time.Second), f.Struck, parameters)
		}
	}
	return w.Flush()
}
