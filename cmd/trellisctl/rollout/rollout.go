package rollout

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/cmd/trellisctl/listing"
	"github.com/trellis-hub/trellis/cmd/trellisctl/pack"
	"github.com/trellis-hub/trellis/engine/bundle"
)

const (
	// parallel bounds the ManagedResources whose Secrets are read at a time.
	parallel = 10
	// shown bounds those that are listed for people without -o wide.
	shown = 20
	// poll is the pause between two looks of --watch.
	poll = 2 * time.Second
)

// State is how far a change has come in one ManagedResource.
type State string

// States, the worst first.
const (
	// Failed: the hub could not apply it.
	Failed State = "Failed"
	// Pending: the hub has not applied it yet.
	Pending State = "Pending"
	// Unhealthy: it is applied, and objects are not healthy.
	Unhealthy State = "Unhealthy"
	// Progressing: it is applied, and is being rolled out.
	Progressing State = "Progressing"
	// Done: it is applied, healthy and rolled out.
	Done State = "Done"
)

var states = []State{Failed, Pending, Unhealthy, Progressing, Done}

// Item is a ManagedResource that is to have the change.
type Item struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	State     State  `json:"state"`
	// Reason and Message say why it does not have it yet.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// Progress is how far a change has come, as printed by -o json.
type Progress struct {
	Total  int           `json:"total"`
	States map[State]int `json:"states"`
	// Unread is how many ManagedResources have Secrets that may not be read. Of these only the generation was compared.
	Unread int `json:"unreadSecrets,omitempty"`
	// Items are those that do not have it, the worst first.
	Items []Item `json:"items"`
}

type rollout struct {
	env       *cli.Env
	output    cli.Output
	selection cli.Selection
	watch     bool
	timeout   time.Duration
}

// New returns the command rollout with its subcommand.
func New(env *cli.Env) *cobra.Command {
	command := &cobra.Command{Use: "rollout", Short: "Show how far a change has come in all targets"}
	r := &rollout{env: env}
	status := &cobra.Command{
		Use:   "status (mr|secret) [NAME] [flags]",
		Short: "Show how many targets have a change, which do not, and why",
		Long: `Show how far one change has come: how many of the ManagedResources that are to have it are applied,
healthy and rolled out, which are not, and why. "mr NAME" and "secret NAME" with -A are those of this name in all
namespaces; "secret" are the ManagedResources that refer to it. -l selects by labels, of the ManagedResources or of the
Secrets.

--watch continues until all have it. The exit code is 3 if any does not, and 5 if that takes longer than --timeout.`,
		Example: `  # One ManagedResource of the same name in each namespace
  trellisctl rollout status mr addons -A --watch

  # A Secret that was changed everywhere
  trellisctl rollout status secret -A -l app=monitoring`,
		Args: func(_ *cobra.Command, args []string) error {
			_, _, err := parse(args)
			return err
		},
		ValidArgs: []string{"mr", "secret"},
		RunE:      func(cmd *cobra.Command, args []string) error { return r.run(cmd.Context(), args) },
	}
	r.output.AddFlags(status, cli.FormatJSON, cli.FormatYAML, cli.FormatWide, cli.FormatName)
	r.selection.AddFlags(status)
	status.Flags().BoolVarP(&r.watch, "watch", "w", false, "Continue until all have it.")
	status.Flags().DurationVar(&r.timeout, "timeout", 10*time.Minute, "How long to continue with --watch.")
	command.AddCommand(status)
	return command
}

// parse reads the arguments: whether they are about Secrets, and the name, which may be empty.
func parse(args []string) (secret bool, name string, err error) {
	if len(args) == 1 {
		if kind, rest, slash := strings.Cut(args[0], "/"); slash {
			args = []string{kind, rest}
		}
	}
	usage := cli.Usage("what was changed has to be given as mr NAME or secret NAME, or selected with -l")
	if len(args) == 0 || len(args) > 2 {
		return false, "", usage
	}
	switch strings.ToLower(args[0]) {
	case "mr", "mrs", "managedresource", "managedresources":
	case "secret", "secrets":
		secret = true
	default:
		return false, "", usage
	}
	if len(args) == 2 {
		name = args[1]
	}
	return secret, name, nil
}

func (r *rollout) run(ctx context.Context, args []string) error {
	if err := r.output.Validate(); err != nil {
		return err
	}
	secret, name, err := parse(args)
	if err != nil {
		return err
	}
	selector, err := r.selection.Labels()
	if err != nil {
		return err
	}
	if name == "" && r.selection.Selector == "" {
		return cli.Usage("a NAME or labels with -l have to be given")
	}
	source, err := r.env.Source()
	if err != nil {
		return err
	}
	scope := listing.Scope{Namespace: r.selection.Namespace(source), Selector: selector}
	scope.Name = name
	if namespace, rest, found := strings.Cut(name, "/"); found {
		scope.Namespace, scope.Name = namespace, rest
	}
	look := func(ctx context.Context) (*Progress, error) { return r.look(ctx, source, scope, secret) }
	progress, err := look(ctx)
	if err != nil {
		return err
	}
	if progress.Total == 0 {
		r.selection.None(r.env, source, "ManagedResources with the change")
		return cli.NotFound("nothing is to have this change")
	}
	if r.watch {
		err = r.env.AwaitEvery(ctx, poll, r.timeout, func(ctx context.Context) (bool, string, error) {
			now, err := look(ctx)
			if err != nil {
				return false, "", err
			}
			progress = now
			return progress.States[Done] == progress.Total, progress.String(), nil
		})
		if err != nil && !cli.IsTimeout(err) {
			return err
		}
	}
	if shown := r.print(source, progress); shown != nil {
		return shown
	}
	if err == nil && progress.States[Done] < progress.Total {
		return cli.Found()
	}
	return err
}

// look finds out how far the change has come now. The scope is that of the Secrets if they were changed.
func (r *rollout) look(ctx context.Context, source *cli.Source, scope listing.Scope, secret bool) (*Progress, error) {
	about := func(*resourcesv1alpha1.ManagedResource) bool { return true }
	if secret {
		changed, err := secrets(ctx, source, scope)
		if err != nil {
			return nil, err
		}
		about = func(mr *resourcesv1alpha1.ManagedResource) bool {
			return slices.ContainsFunc(mr.Spec.SecretRefs, func(ref corev1.LocalObjectReference) bool {
				return changed[client.ObjectKey{Namespace: mr.Namespace, Name: ref.Name}]
			})
		}
		scope = listing.Scope{Namespace: scope.Namespace}
	}
	var mrs []*resourcesv1alpha1.ManagedResource
	if err := listing.WholeManagedResources(ctx, source, scope, func(mr *resourcesv1alpha1.ManagedResource) {
		if about(mr) {
			mrs = append(mrs, slim(mr))
		}
	}, func() { mrs = nil }); err != nil {
		return nil, fmt.Errorf("listing ManagedResources: %w", err)
	}
	return judgeAll(ctx, source, mrs)
}

// slim leaves out what is not needed, so that pages can be collected.
func slim(mr *resourcesv1alpha1.ManagedResource) *resourcesv1alpha1.ManagedResource {
	out := &resourcesv1alpha1.ManagedResource{Spec: mr.Spec, Status: mr.Status}
	out.Namespace, out.Name, out.Generation, out.Annotations = mr.Namespace, mr.Name, mr.Generation, mr.Annotations
	out.Status.Resources = nil
	return out
}

// secrets are the Secrets that were changed.
func secrets(ctx context.Context, source *cli.Source, scope listing.Scope) (map[client.ObjectKey]bool, error) {
	keys, err := source.Keys(ctx, corev1.SchemeGroupVersion.WithKind("Secret"), nil, scope)
	if err != nil {
		return nil, fmt.Errorf("listing Secrets: %w", err)
	}
	found := make(map[client.ObjectKey]bool, len(keys))
	for _, key := range keys {
		found[key] = true
	}
	return found, nil
}

// judgeAll judges ManagedResources, several at a time.
func judgeAll(ctx context.Context, source *cli.Source, mrs []*resourcesv1alpha1.ManagedResource) (*Progress, error) {
	p := &Progress{Total: len(mrs), States: map[State]int{}, Items: []Item{}}
	items := make([]Item, len(mrs))
	unread := make([]bool, len(mrs))
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(parallel)
	for i := range mrs {
		work.Go(func() error {
			sum, err := checksum(ctx, source, mrs[i])
			if apierrors.IsForbidden(err) {
				unread[i], err = true, nil
			}
			items[i] = judge(mrs[i], sum, err)
			return client.IgnoreNotFound(err) // a missing Secret is a state
		})
	}
	if err := work.Wait(); err != nil {
		return nil, err
	}
	for i, item := range items {
		if unread[i] {
			p.Unread++
		}
		p.States[item.State]++
		if item.State != Done {
			p.Items = append(p.Items, item)
		}
	}
	slices.SortStableFunc(p.Items, func(a, b Item) int {
		return cmp.Or(cmp.Compare(slices.Index(states, a.State), slices.Index(states, b.State)),
			strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return p, nil
}

// contentMatters reports whether it depends on the content of the Secrets how far the change has come: all else in the
// status is about the present generation, and good.
func contentMatters(mr *resourcesv1alpha1.ManagedResource) bool {
	applied := resourcesv1alpha1.GetCondition(mr.Status.Conditions, resourcesv1alpha1.ConditionResourcesApplied)
	return mr.Status.SecretsDataChecksum != nil && mr.Status.ObservedGeneration == mr.Generation &&
		applied != nil && applied.Status == resourcesv1alpha1.ConditionTrue &&
		!resourcesv1alpha1.IsTruthy(mr.Annotations[resourcesv1alpha1.IgnoreAnnotation])
}

// checksum is that of the present content of a ManagedResource; empty if it does not matter, or the status has none to
// compare it with.
func checksum(ctx context.Context, source *cli.Source, mr *resourcesv1alpha1.ManagedResource) (string, error) {
	if !contentMatters(mr) {
		return "", nil
	}
	var read []*corev1.Secret
	for _, ref := range mr.Spec.SecretRefs {
		s := &corev1.Secret{}
		key := client.ObjectKey{Namespace: mr.Namespace, Name: ref.Name}
		if err := source.Get(ctx, key, s); err != nil {
			return "", fmt.Errorf("reading Secret %s: %w", key, err)
		}
		read = append(read, s)
	}
	return bundle.Decode(pack.Sources(read), bundle.Limits{}).Checksum, nil //nolint:contextcheck // local, and bounded
}

// judge says how far the change has come in one ManagedResource. sum is the checksum of its content; empty: not known.
func judge(mr *resourcesv1alpha1.ManagedResource, sum string, missing error) Item {
	item := Item{Namespace: mr.Namespace, Name: mr.Name}
	status := func(t resourcesv1alpha1.ConditionType) resourcesv1alpha1.ConditionStatus {
		c := resourcesv1alpha1.GetCondition(mr.Status.Conditions, t)
		if c == nil {
			return resourcesv1alpha1.ConditionUnknown
		}
		item.Reason, item.Message = c.Reason, c.Message
		return c.Status
	}
	switch applied := status(resourcesv1alpha1.ConditionResourcesApplied); {
	case missing != nil:
		item.State, item.Reason, item.Message = Failed, resourcesv1alpha1.ReasonCannotReadSecret, missing.Error()
		return item
	case applied == resourcesv1alpha1.ConditionFalse:
		item.State = Failed
		return item
	case resourcesv1alpha1.IsTruthy(mr.Annotations[resourcesv1alpha1.IgnoreAnnotation]):
		item.State, item.Reason, item.Message = Pending, resourcesv1alpha1.ReasonManagedResourceIgnored,
			"It is suspended."
		return item
	case mr.Status.ObservedGeneration != mr.Generation, sum != "" && sum != *mr.Status.SecretsDataChecksum,
		applied != resourcesv1alpha1.ConditionTrue:
		item.State = Pending
		if ready := status(resourcesv1alpha1.ConditionReady); applied == resourcesv1alpha1.ConditionTrue &&
			ready != resourcesv1alpha1.ConditionUnknown { // these are about the content before
			item.Reason, item.Message = "NotAppliedYet", "The hub has not applied it yet."
		}
		return item
	}
	if status(resourcesv1alpha1.ConditionResourcesHealthy) != resourcesv1alpha1.ConditionTrue {
		item.State = Unhealthy
		return item
	}
	if status(resourcesv1alpha1.ConditionResourcesProgressing) == resourcesv1alpha1.ConditionTrue {
		item.State = Progressing
		return item
	}
	item.State, item.Reason, item.Message = Done, "", ""
	return item
}

// String is one line for people.
func (p *Progress) String() string {
	text := fmt.Sprintf("%d of %s have the change", p.States[Done], cli.Count(p.Total, "ManagedResource"))
	separator := ": "
	for _, state := range states[:len(states)-1] {
		if n := p.States[state]; n > 0 {
			text += fmt.Sprintf("%s%d %s", separator, n, strings.ToLower(string(state)))
			separator = ", "
		}
	}
	return text
}

func (r *rollout) print(source *cli.Source, p *Progress) error {
	r.output.Qualified = r.selection.All
	switch {
	case r.output.Structured():
		return r.output.Encode(r.env.Out, p)
	case r.output.Format == cli.FormatName:
		for _, item := range p.Items {
			mr := cli.ObjectOf(cli.KindManagedResource, item.Namespace, item.Name)
			fmt.Fprintln(r.env.Out, r.output.Name(source.Scheme(), mr))
		}
		return nil
	}
	fmt.Fprintln(r.env.Out, p)
	if p.Unread > 0 {
		r.env.Warn("Secrets of %s may not be read: only their generations were compared",
			cli.Count(p.Unread, "ManagedResource"))
	}
	if len(p.Items) == 0 {
		return nil
	}
	items := p.Items
	if r.output.Format != cli.FormatWide {
		items = items[:min(shown, len(items))]
	}
	rows := [][]string{{"MANAGEDRESOURCE", "STATE", "REASON", "MESSAGE"}}
	for _, item := range items {
		rows = append(rows, []string{cli.Text(item.Namespace + "/" + item.Name), string(item.State),
			cli.Text(cmp.Or(item.Reason, "-")), cli.FirstLine(item.Message)})
	}
	fmt.Fprintln(r.env.Out)
	style := r.env.Style(r.env.Out)
	cli.Aligned(r.env.Out, rows, func(row, column int, text string) string {
		switch {
		case row == 0 || column != 1:
			return text
		case text == string(Failed) || text == string(Unhealthy):
			return style.Bad(text)
		}
		return style.Warn(text)
	})
	if more := len(p.Items) - len(items); more > 0 {
		fmt.Fprintf(r.env.Out, "and %d more; -o wide lists all.\n", more)
	}
	return nil
}
