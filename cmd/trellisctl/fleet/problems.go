package fleet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/cmd/trellisctl/diagnosis"
	"github.com/trellis-hub/trellis/cmd/trellisctl/listing"
)

const (
	// shownObjects bounds the names of a problem that are printed.
	shownObjects = 5
	// explained bounds the problems for which an object is read to find out what unblocks them.
	explained = 50
)

// Kinds of problems.
const (
	kindHub             = "Hub"
	kindCluster         = "Cluster"
	kindManagedResource = "ManagedResource"
)

// Problem is what is wrong with some objects for one cause.
type Problem struct {
	// Kind of the objects: Hub, Cluster or ManagedResource.
	Kind string `json:"kind"`
	diagnosis.Cause
	// For is for how long the first of the objects has had the problem, as "10m".
	For string `json:"for,omitempty"`
	// Objects are namespace/name of those that have it.
	Objects []string `json:"objects"`
	// Waiting is how many ManagedResources the hub cannot reconcile because of these clusters.
	Waiting int `json:"waitingManagedResources,omitempty"`
}

// Problems are those of a fleet.
type Problems struct {
	Items []*Problem `json:"problems"`
	// InProgress is how many ManagedResources are not ready because they are being applied or rolled out.
	InProgress int `json:"inProgress"`
}

// Problems groups what is wrong by its cause, the worst first.
func (f *Fleet) Problems() *Problems {
	all := &Problems{Items: []*Problem{}}
	groups := map[string]*Problem{}
	add := func(key, kind, object string, cause diagnosis.Cause, since string) *Problem {
		p := groups[key]
		if p == nil {
			p = &Problem{Kind: kind, Cause: cause, For: since}
			groups[key] = p
			all.Items = append(all.Items, p)
		}
		if s := cause.Since; s != nil && (p.Since == nil || s.Before(p.Since)) {
			p.Since = s
		}
		p.Objects = append(p.Objects, object)
		return p
	}
	if cause := diagnosis.OfHub(&diagnosis.Facts{Now: f.Now, Heartbeat: f.Hub}); cause.Reason != "" {
		add(kindHub, kindHub, f.Hub.Leader, cause, "")
	}
	unusable := map[int]*Problem{}
	for i := range f.Clusters {
		tc := &f.Clusters[i]
		cause := f.causeOf(tc)
		if cause.Reason == "" {
			continue
		}
		key := strings.Join([]string{kindCluster, cause.Reason, shape(cause.Message, tc.Namespace, tc.Name)}, "\n")
		p := add(key, kindCluster, tc.Namespace+"/"+tc.Name, cause, "")
		if !usable(tc) {
			unusable[i] = p
		}
	}
	for i := range f.ManagedResources {
		e := &f.ManagedResources[i]
		reason := e.Cause()
		if reason == "" {
			continue
		}
		if p := unusable[f.clusterOf(e)]; p != nil && !e.Suspended {
			p.Waiting++
			continue
		}
		if inProgress(e) {
			all.InProgress++
			continue
		}
		message := e.Message
		if message == "" || e.Suspended {
			message = reasons[reason]
		}
		key := strings.Join([]string{kindManagedResource, reason, shape(message, e.Namespace, e.Name)}, "\n")
		add(key, kindManagedResource, e.Key(),
			diagnosis.Cause{Reason: reason, Message: message, Wished: e.Suspended}, e.Since)
	}
	for _, p := range all.Items {
		if p.For == "" && p.Since != nil {
			p.For = shortAge(p.Since.Time, f.Now)
		}
	}
	slices.SortStableFunc(all.Items, func(a, b *Problem) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(len(b.Objects)+b.Waiting, len(a.Objects)+a.Waiting),
			strings.Compare(a.Reason, b.Reason))
	})
	return all
}

// reasons are messages for reasons that no condition has.
var reasons = map[string]string{
	listing.ReasonSuspended: "Suspended: the hub does not reconcile it.",
	listing.ReasonNotSeen:   "No hub has looked at it yet.",
}

// rank is the order of problems: the hub, clusters, ManagedResources, and what a user paused or suspended.
func rank(p *Problem) int {
	if p.Wished {
		return 3
	}
	return slices.Index([]string{kindHub, kindCluster, kindManagedResource}, p.Kind)
}

// shape is the first line of a message without the words that differ between objects with the same cause: the name of
// the object itself, and what has digits in it, such as names of pods and addresses.
func shape(message, namespace, name string) string {
	line, _, _ := strings.Cut(message, "\n")
	words := strings.Fields(line)
	for i, word := range words {
		if strings.ContainsFunc(word, unicode.IsDigit) || strings.Contains(word, namespace+"/"+name) {
			words[i] = "*"
		}
	}
	return strings.Join(words, " ")
}

// explainWith finds what unblocks the problems of ManagedResources, from the first object of each.
func (p *Problems) explainWith(ctx context.Context, source *cli.Source, now time.Time) error {
	read := 0
	for _, problem := range p.Items {
		if problem.Kind != kindManagedResource || len(problem.Objects) == 0 {
			continue
		}
		if read++; read > explained {
			return nil
		}
		namespace, name, _ := strings.Cut(problem.Objects[0], "/")
		mr, err := source.In(namespace).ManagedResource(ctx, name)
		switch {
		case cli.ExitCode(err) == cli.ExitNotFound || cli.ExitCode(err) == cli.ExitRefused:
			continue // deleted since, or only lists are allowed
		case err != nil:
			return err
		}
		cause := diagnosis.OfManagedResource(&diagnosis.Facts{Now: now, Namespace: namespace, Name: name,
			ManagedResource: mr,
			Source:          true}) // its cluster is usable, so the cause is its own
		if cause.Reason == problem.Reason || problem.Reason == listing.ReasonNotSeen {
			// Commands in it are about one of several namespaces.
			problem.Unblock = strings.ReplaceAll(cause.Unblock, "mr "+name+"\"", "mr "+problem.Objects[0]+"\"")
			problem.Message = cmp.Or(cause.Message, problem.Message)
		}
	}
	return nil
}

type problems struct {
	env       *cli.Env
	output    cli.Output
	hub       cli.HubFlags
	selection cli.Selection
}

// NewProblems returns the command problems.
func NewProblems(env *cli.Env) *cobra.Command {
	p := &problems{env: env}
	command := &cobra.Command{
		Use:   "problems [flags]",
		Short: "List everything that is wrong, grouped by its cause",
		Long: `List everything that is wrong with clusters and ManagedResources, grouped by its cause: first what is
wrong with the hub, then clusters with the ManagedResources that wait for them, then the other ManagedResources, and
last what a user paused or suspended. What is being applied or rolled out is only counted. -o wide names all objects,
-o name only prints their names.

The exit code is 3 if there is any problem.`,
		Example: `  # All of the fleet
  trellisctl problems -A

  # The cause of each in full
  trellisctl problems -A -o name | xargs trellisctl why`,
		Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.run(cmd.Context()) },
	}
	p.output.AddFlags(command, cli.FormatJSON, cli.FormatYAML, cli.FormatWide, cli.FormatName)
	p.selection.AddFlags(command)
	p.hub.AddFlags(command)
	return command
}

func (p *problems) run(ctx context.Context) error {
	if err := p.output.Validate(); err != nil {
		return err
	}
	selector, err := p.selection.Labels()
	if err != nil {
		return err
	}
	source, err := p.env.Source()
	if err != nil {
		return err
	}
	f, err := read(ctx, p.env, source, listing.Scope{Namespace: p.selection.Namespace(source), Selector: selector},
		p.hub)
	if err != nil {
		return err
	}
	found := f.Problems()
	if p.output.Format != cli.FormatName {
		if err := found.explainWith(ctx, source, f.Now); err != nil {
			return err
		}
	}
	if err := p.print(source, f, found); err != nil {
		return err
	}
	if len(found.Items) > 0 {
		return cli.Found()
	}
	return nil
}

func (p *problems) print(source *cli.Source, f *Fleet, found *Problems) error {
	for _, problem := range found.Items {
		problem.Unblock = p.env.AsCalled(problem.Unblock)
	}
	p.output.Qualified = p.selection.All
	switch {
	case p.output.Structured():
		return p.output.Encode(p.env.Out, found)
	case p.output.Format == cli.FormatName:
		for _, problem := range found.Items {
			if problem.Kind == kindHub {
				continue
			}
			for _, object := range problem.Objects {
				fmt.Fprintln(p.env.Out, p.output.Name(source.Scheme(), objectOf(problem.Kind, object)))
			}
		}
		return nil
	case len(f.Clusters)+len(f.ManagedResources) == 0:
		p.selection.None(p.env, source, "clusters and ManagedResources")
		return nil
	}
	style := p.env.Style(p.env.Out)
	for i, problem := range found.Items {
		if i > 0 {
			fmt.Fprintln(p.env.Out)
		}
		p.block(style, problem)
	}
	if len(found.Items) == 0 {
		fmt.Fprintf(p.env.Out, "Nothing is wrong with %s and %s.\n", cli.Count(len(f.Clusters), "cluster"),
			cli.Count(len(f.ManagedResources), "ManagedResource"))
	}
	if found.InProgress > 0 {
		p.env.Note("%s being applied or rolled out.", are(found.InProgress, "ManagedResource"))
	}
	return nil
}

// block prints one problem.
func (p *problems) block(style cli.Style, problem *Problem) {
	paint := style.Bad
	if problem.Wished {
		paint = style.Warn
	}
	head := style.Strong(countOf(problem)) + ": " + paint(cli.Text(problem.Reason))
	if problem.For != "" {
		head += ", for " + problem.For
	}
	if problem.Waiting > 0 {
		what := map[bool]string{true: "it", false: "them"}[len(problem.Objects) == 1]
		head += "; " + cli.Count(problem.Waiting, "ManagedResource") + " cannot be worked on because of " + what
	}
	fmt.Fprintln(p.env.Out, head)
	line := func(name, text string) { fmt.Fprintf(p.env.Out, "  %-9s %s\n", name, text) }
	if p.output.Format == cli.FormatWide {
		line("Cause:", cli.Indent(problem.Message, "            "))
	} else {
		line("Cause:", cli.FirstLine(problem.Message))
	}
	if problem.Unblock != "" {
		line("Unblock:", cli.Indent(problem.Unblock, "            "))
	}
	if problem.Kind == kindHub {
		return
	}
	shown := problem.Objects
	if p.output.Format != cli.FormatWide && len(shown) > shownObjects {
		shown = append(slices.Clone(shown[:shownObjects]), fmt.Sprintf("and %d more",
			len(problem.Objects)-shownObjects))
	}
	line("Where:", cli.Text(strings.Join(shown, ", ")))
}

func countOf(problem *Problem) string {
	if problem.Kind == kindHub {
		return kindHub
	}
	if problem.Kind == kindCluster {
		return cli.Count(len(problem.Objects), "cluster")
	}
	return cli.Count(len(problem.Objects), "ManagedResource")
}

// are is "1 thing is" or "2 things are".
func are(n int, thing string) string {
	if n == 1 {
		return cli.Count(n, thing) + " is"
	}
	return cli.Count(n, thing) + " are"
}

// objectOf is a cluster or a ManagedResource, by its name.
func objectOf(kind, key string) client.Object {
	namespace, name, _ := strings.Cut(key, "/")
	of := cli.KindManagedResource
	if kind == kindCluster {
		of = cli.KindCluster
	}
	return cli.ObjectOf(of, namespace, name)
}
