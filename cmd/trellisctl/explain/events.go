package explain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
)

// eventLimit bounds how many events are read.
const eventLimit = 500

// Event is an event about a ManagedResource or a TargetCluster.
type Event struct {
	Name    string    `json:"name"`
	Type    string    `json:"type"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Count   int32     `json:"count"`
	First   time.Time `json:"first"`
	Last    time.Time `json:"last"`
	// By is the component that wrote it.
	By string `json:"by,omitempty"`
}

type events struct {
	env    *cli.Env
	output cli.Output
	bad    bool
}

// NewEvents returns the command events.
func NewEvents(env *cli.Env) *cobra.Command {
	e := &events{env: env}
	command := &cobra.Command{
		Use:   "events (mr|cluster) NAME... [flags]",
		Short: "List the events about a ManagedResource or a cluster",
		Long: `List the events about a ManagedResource or a cluster, the latest last: what the hub did, who changed
what, and when a problem began. If it no longer exists, its remaining events are listed.`,
	}
	e.output.Spaced = true
	env.TakeSubjects(command, &e.output, e.run, cli.KindManagedResource, cli.KindCluster)
	e.output.AddFlags(command, cli.FormatJSON, cli.FormatYAML, cli.FormatWide, cli.FormatName)
	e.output.AddHeadersFlag(command)
	command.Flags().BoolVar(&e.bad, "warnings", false, "List only Warning events.")
	return command
}

func (e *events) run(ctx context.Context, source *cli.Source, subject cli.Subject) error {
	// One that does not exist may have been deleted and have events; without events it is an error.
	uid, missing := uidOf(ctx, source, subject)
	if missing != nil && cli.ExitCode(missing) != cli.ExitNotFound {
		return missing
	}
	all, err := list(ctx, source, subject, uid)
	if err != nil {
		return err
	}
	if len(all) == 0 && missing != nil {
		return missing
	}
	if e.bad {
		all = warnings(all)
	}
	if e.output.Structured() {
		if all == nil {
			all = []Event{}
		}
		return e.output.Encode(e.env.Out, all)
	}
	if e.output.Format == cli.FormatName {
		for _, event := range all {
			fmt.Fprintln(e.env.Out, "event/"+cli.Text(event.Name))
		}
		return nil
	}
	if len(all) == 0 {
		e.env.Note("No events found about %s %s in namespace %s. Events are kept for an hour or so.", subject.Kind,
			subject.Name, source.Namespace)
		return nil
	}
	if e.output.Qualified {
		fmt.Fprintf(e.env.Out, "%s %s/%s\n", kindNames[subject.Kind], source.Namespace, subject.Name)
	}
	table := &metav1.Table{ColumnDefinitions: cli.Columns(
		"Last Seen", "Type", "Reason", "Count", "Message", "(First Seen)", "(By)")}
	for _, event := range all {
		table.Rows = append(table.Rows, cli.Row(e.env.Age(event.Last), event.Type, event.Reason, fmt.Sprint(event.Count),
			cli.FirstLine(event.Message), e.env.Age(event.First), event.By))
	}
	return e.output.Table(e.env.Out, table)
}

func uidOf(ctx context.Context, source *cli.Source, subject cli.Subject) (types.UID, error) {
	if subject.Kind == cli.KindCluster {
		tc, err := source.TargetCluster(ctx, subject.Name)
		if err != nil {
			return "", err
		}
		return tc.UID, nil
	}
	mr, err := source.ManagedResource(ctx, subject.Name)
	if err != nil {
		return "", err
	}
	return mr.UID, nil
}

// kindNames are the kinds as events refer to them.
var kindNames = map[cli.Kind]string{
	cli.KindManagedResource: "ManagedResource", cli.KindCluster: "TargetCluster", cli.KindAccess: "Secret",
	cli.KindCSR: "CertificateSigningRequest", cli.KindNode: "Node", cli.KindService: "Service",
	cli.KindConfigMap: "ConfigMap", cli.KindSecret: "Secret",
}

// list reads the events about an object, the latest last. With a UID, those about an earlier object of the same name
// are excluded.
func list(ctx context.Context, source *cli.Source, subject cli.Subject, uid types.UID) ([]Event, error) {
	key := client.ObjectKey{Namespace: source.Namespace, Name: subject.Name}
	return listIn(ctx, source, kindNames[subject.Kind], key, uid)
}

// listIn reads the events of a namespace about an object.
func listIn(ctx context.Context, from client.Reader, kind string, key client.ObjectKey, uid types.UID) (
	[]Event, error) {
	read := &corev1.EventList{}
	about := client.MatchingFields{"involvedObject.name": key.Name, "involvedObject.kind": kind}
	if uid != "" {
		about["involvedObject.uid"] = string(uid)
	}
	if err := from.List(ctx, read, client.InNamespace(key.Namespace), about, client.Limit(eventLimit)); err != nil {
		return nil, fmt.Errorf("listing events: %w", err)
	}
	out := make([]Event, 0, len(read.Items))
	for i := range read.Items {
		out = append(out, eventOf(&read.Items[i]))
	}
	slices.SortStableFunc(out, func(a, b Event) int { return cmp.Or(a.Last.Compare(b.Last), a.First.Compare(b.First)) })
	return out, nil
}

// eventOf reads an event. Those of the newer API have a series instead of a count.
func eventOf(e *corev1.Event) Event {
	first := firstOf(e.FirstTimestamp.Time, e.EventTime.Time, e.CreationTimestamp.Time)
	out := Event{
		Name: e.Name, Type: e.Type, Reason: e.Reason, Message: e.Message, Count: max(e.Count, 1),
		First: first, Last: firstOf(e.LastTimestamp.Time, e.EventTime.Time, first),
		By: cmp.Or(e.Source.Component, e.ReportingController),
	}
	if e.Series != nil {
		out.Count = max(out.Count, e.Series.Count)
		if e.Series.LastObservedTime.After(out.Last) {
			out.Last = e.Series.LastObservedTime.Time
		}
	}
	return out
}

func firstOf(times ...time.Time) time.Time {
	for _, t := range times {
		if !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}
