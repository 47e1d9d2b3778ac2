package explain

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
)

// shownEvents is how many Warning events are shown with a cause.
const shownEvents = 3

type why struct {
	env          *cli.Env
	output       cli.Output
	hubNamespace string
	hubLease     string
}

// Answer is the result of why, as printed by -o json.
type Answer struct {
	Kind      cli.Kind `json:"kind"`
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	// OK is true if nothing is wrong; then there is no cause.
	OK     bool    `json:"ok"`
	Cause  *Cause  `json:"cause,omitempty"`
	Events []Event `json:"events,omitempty"`
}

// NewWhy returns the command why.
func NewWhy(env *cli.Env) *cobra.Command {
	w := &why{env: env}
	command := &cobra.Command{
		Use:   "why (mr|cluster) NAME [flags]",
		Short: "Say why something is not as it should be",
		Long: `Say why a ManagedResource or a cluster is not as it should be: the first cause, since when, and what unblocks it. A ManagedResource
that waits for its target has the target's problem as its cause; if no hub works, that is the cause of everything.

The exit code is 0 if nothing is wrong, and 3 if there is a cause. -o wide lists all Warning events about it instead of the last three; -o name
only names it, and only if something is wrong.`,
		Example: `  trellisctl -n shoot--foo--a why mr addons
  trellisctl -n shoot--foo--a why cluster shoot-a -o json | jq -r .cause.reason`,
	}
	env.TakeSubject(command, w.run, cli.KindManagedResource, cli.KindCluster)
	w.output.AddFlags(command, cli.FormatJSON, cli.FormatYAML, cli.FormatWide, cli.FormatName)
	command.Flags().StringVar(&w.hubNamespace, "hub-namespace", "trellis", "Namespace of the hub, where its heartbeat is.")
	command.Flags().StringVar(&w.hubLease, "hub-lease", "trellis-heartbeat",
		"Name of the Lease that the hub renews as its heartbeat.")
	return command
}

func (w *why) run(ctx context.Context, subject cli.Subject) error {
	if err := w.output.Validate(); err != nil {
		return err
	}
	source, err := w.env.Source()
	if err != nil {
		return err
	}
	facts, err := w.gather(ctx, source, subject)
	if err != nil {
		return err
	}
	cause := OfManagedResource
	if subject.Kind == cli.KindCluster {
		cause = OfCluster
	}
	answer := &Answer{Kind: subject.Kind, Namespace: facts.Namespace, Name: facts.Name}
	if c := cause(facts); c.Reason != "" {
		c.Unblock = strings.ReplaceAll(c.Unblock, cli.FieldManager+" ", w.env.Command+" ")
		answer.Cause = &c
	}
	answer.OK = answer.Cause == nil
	if !answer.OK {
		// Events are additional information: the cause is shown although they cannot be read.
		if events, err := list(ctx, source, subject, facts.uid()); err == nil {
			answer.Events = warnings(events)
			if w.output.Format != cli.FormatWide {
				answer.Events = answer.Events[max(0, len(answer.Events)-shownEvents):]
			}
		}
	}
	if err := w.print(answer); err != nil {
		return err
	}
	if !answer.OK {
		return cli.Found()
	}
	return nil
}

func warnings(events []Event) []Event {
	return slices.DeleteFunc(events, func(e Event) bool { return e.Type != corev1.EventTypeWarning })
}

// objectOf is what the answer is about, by its name.
func objectOf(a *Answer) client.Object {
	meta := metav1.ObjectMeta{Namespace: a.Namespace, Name: a.Name}
	if a.Kind == cli.KindCluster {
		return &hubv1alpha1.TargetCluster{ObjectMeta: meta}
	}
	return &resourcesv1alpha1.ManagedResource{ObjectMeta: meta}
}

func (w *why) print(a *Answer) error {
	if w.output.Structured() {
		return w.output.Encode(w.env.Out, a)
	}
	if w.output.Format == cli.FormatName {
		if !a.OK {
			fmt.Fprintln(w.env.Out, cli.Name(cli.Scheme(), objectOf(a)))
		}
		return nil
	}
	style := w.env.Style(w.env.Out)
	what := map[cli.Kind]string{cli.KindManagedResource: "ManagedResource", cli.KindCluster: "Cluster"}[a.Kind]
	if a.OK {
		fmt.Fprintf(w.env.Out, "%s %s/%s is as it should be.\n", what, a.Namespace, a.Name)
		return nil
	}
	paint := style.Bad
	if a.Cause.Wished {
		paint = style.Warn
	}
	fmt.Fprintln(w.env.Out, style.Strong(what+" "+a.Namespace+"/"+a.Name)+": "+paint(cli.Text(a.Cause.Reason)))
	line := func(name, text string) { fmt.Fprintf(w.env.Out, "%-9s %s\n", name, cli.Indent(text, "          ")) }
	line("Cause:", a.Cause.Message)
	if s := a.Cause.Since; s != nil {
		line("Since:", fmt.Sprintf("%s (%s)", s.UTC().Format(time.RFC3339), w.env.Age(s.Time)))
	}
	if a.Cause.Unblock != "" {
		line("Unblock:", a.Cause.Unblock)
	}
	for i, e := range a.Events {
		name := ""
		if i == 0 {
			name = "Events:"
		}
		line(name, fmt.Sprintf("%s ago  %s: %s", w.env.Age(e.Last), e.Reason, cli.FirstLine(e.Message)))
	}
	return nil
}
