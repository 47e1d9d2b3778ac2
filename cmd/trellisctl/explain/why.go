package explain

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/cmd/trellisctl/diagnosis"
	"github.com/trellis-hub/trellis/cmd/trellisctl/remote"
)

// shownEvents is how many Warning events are shown with a cause.
const shownEvents = 3

type why struct {
	env       *cli.Env
	output    cli.Output
	remote    remote.Flags
	hub       cli.HubFlags
	hubConfig string
}

// Answer is the result of why, as printed by -o json.
type Answer struct {
	Kind      cli.Kind `json:"kind"`
	Namespace string   `json:"namespace,omitempty"`
	Name      string   `json:"name"`
	// Target is the TargetCluster whose controllers it is about, as namespace/name.
	Target string `json:"target,omitempty"`
	// OK is true if nothing is wrong; then there is no cause.
	OK     bool             `json:"ok"`
	Cause  *diagnosis.Cause `json:"cause,omitempty"`
	Events []Event          `json:"events,omitempty"`
	// Details are what controllers make of it.
	Details []Detail `json:"details,omitempty"`
}

// Detail is one of them.
type Detail struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// NewWhy returns the command why.
func NewWhy(env *cli.Env) *cobra.Command {
	w := &why{env: env}
	command := &cobra.Command{
		Use:   "why (mr|cluster|access|csr|node|service|configmap|secret) NAME [flags]",
		Short: "Find the cause of a problem, and what to do about it",
		Long: `Find what is wrong with a ManagedResource or a cluster: the first cause, since when, and what unblocks
it. A ManagedResource that waits for its target has the target's problem as its cause; if no hub works, that is the
cause of everything.

Of what controllers do in a target, it reports what they would do now, by the same code and without doing it: with a
Secret that requests access (access), and with objects of the target: a CertificateSigningRequest, a Node and its
critical components, the network policies of a Service, and a ConfigMap or Secret that may be garbage. Services,
ConfigMaps and Secrets are given as NAMESPACE/NAME. The target is the only one of the namespace, or that of --target.
The settings are those of the hub's ConfigMap, if it can be read, and of the TargetCluster.

The exit code is 0 if nothing is wrong, and 3 if there is a cause. -o wide lists all Warning events about it instead of
the last three; -o name only names it, and only if something is wrong.`,
		Example: `  trellisctl -n shoot--foo--a why mr addons
  trellisctl -n shoot--foo--a why cluster shoot-a -o json | jq -r .cause.reason
  trellisctl -n shoot--foo--a why access shoot-access-autoscaler
  trellisctl -n shoot--foo--a why node worker-1 --target shoot-a
  trellisctl -n shoot--foo--a why service kube-system/dns`,
	}
	w.output.Spaced = true
	env.TakeSubjects(command, &w.output, w.run, cli.KindManagedResource, cli.KindCluster, cli.KindAccess, cli.KindCSR,
		cli.KindNode, cli.KindService, cli.KindConfigMap, cli.KindSecret)
	w.remote.AddConnectFlags(command)
	command.Flags().StringVar(&w.remote.Target, "target", "", "Target of what controllers work on: NAME or "+
		"NAMESPACE/NAME of a TargetCluster. Default: the one that an access Secret picks, or the only one of the namespace.")
	env.CompleteFlag(command, "target", cli.KindCluster)
	w.output.AddFlags(command, cli.FormatJSON, cli.FormatYAML, cli.FormatWide, cli.FormatName)
	w.hub.AddFlags(command)
	command.Flags().StringVar(&w.hubConfig, "hub-config", "trellis",
		"Name of the ConfigMap with the configuration of the hub, in its namespace.")
	return command
}

func (w *why) run(ctx context.Context, source *cli.Source, subject cli.Subject) error {
	if ask, is := controllers[subject.Kind]; is {
		answer, err := w.inTarget(ctx, source, subject, ask)
		if err != nil {
			return err
		}
		return w.conclude(answer)
	}
	facts, err := w.gather(ctx, source, subject)
	if err != nil {
		return err
	}
	cause := diagnosis.OfManagedResource
	if subject.Kind == cli.KindCluster {
		cause = diagnosis.OfCluster
	}
	answer := &Answer{Kind: subject.Kind, Namespace: facts.Namespace, Name: facts.Name}
	if c := cause(facts); c.Reason != "" {
		answer.Cause = &c
		// Events are additional information: the cause is shown although they cannot be read.
		if events, err := list(ctx, source, subject, facts.UID()); err == nil {
			answer.Events = events
		}
	}
	return w.conclude(answer)
}

// conclude prints an answer. If there is a cause, its events have to be all that there are.
func (w *why) conclude(answer *Answer) error {
	if answer.OK = answer.Cause == nil; !answer.OK {
		answer.Cause.Unblock = w.env.AsCalled(answer.Cause.Unblock)
		answer.Events = warnings(answer.Events)
		if w.output.Format != cli.FormatWide {
			answer.Events = answer.Events[max(0, len(answer.Events)-shownEvents):]
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
	switch a.Kind {
	case cli.KindCluster:
		return &hubv1alpha1.TargetCluster{ObjectMeta: meta}
	case cli.KindAccess, cli.KindSecret:
		return &corev1.Secret{ObjectMeta: meta}
	case cli.KindCSR:
		return &certificatesv1.CertificateSigningRequest{ObjectMeta: meta}
	case cli.KindNode:
		return &corev1.Node{ObjectMeta: meta}
	case cli.KindService:
		return &corev1.Service{ObjectMeta: meta}
	case cli.KindConfigMap:
		return &corev1.ConfigMap{ObjectMeta: meta}
	}
	return &resourcesv1alpha1.ManagedResource{ObjectMeta: meta}
}

func (w *why) print(a *Answer) error {
	if w.output.Structured() {
		return w.output.Encode(w.env.Out, a)
	}
	if w.output.Format == cli.FormatName {
		if !a.OK {
			fmt.Fprintln(w.env.Out, w.output.Name(cli.Scheme(), objectOf(a)))
		}
		return nil
	}
	style := w.env.Style(w.env.Out)
	what := kindNames[a.Kind]
	if a.Kind == cli.KindCluster {
		what = "Cluster"
	}
	what += " " + client.ObjectKey{Namespace: a.Namespace, Name: a.Name}.String()
	if a.Namespace == "" {
		what = kindNames[a.Kind] + " " + a.Name
	}
	line := func(name, text string) { fmt.Fprintf(w.env.Out, "%-9s %s\n", name, cli.Indent(text, "          ")) }
	if a.OK {
		fmt.Fprintf(w.env.Out, "Nothing is wrong with %s.\n", cli.Text(what))
		printDetails(w.env.Out, a)
		return nil
	}
	paint := style.Bad
	if a.Cause.Wished {
		paint = style.Warn
	}
	fmt.Fprintln(w.env.Out, style.Strong(cli.Text(what))+": "+paint(cli.Text(a.Cause.Reason)))
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
	printDetails(w.env.Out, a)
	return nil
}

// printDetails prints what controllers make of something.
func printDetails(out io.Writer, a *Answer) {
	if a.Target != "" {
		fmt.Fprintf(out, "%-16s %s\n", "Target:", cli.Text(a.Target))
	}
	for _, d := range a.Details {
		fmt.Fprintf(out, "%-16s %s\n", d.Name+":", cli.Indent(d.Text, strings.Repeat(" ", 17)))
	}
}
