package get

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
)

// wait is the command.
type wait struct {
	env       *cli.Env
	output    cli.Output
	selection cli.Selection
	until     string
	timeout   time.Duration
}

// NewWait returns the command wait.
func NewWait(env *cli.Env) *cobra.Command {
	w := &wait{env: env}
	kinds := []cli.Kind{cli.KindManagedResource, cli.KindCluster}
	command := &cobra.Command{
		Use:   "wait (mr|cluster) [NAME...] [flags]",
		Short: "Wait until ManagedResources or clusters are ready, or gone",
		Long: `Wait until a condition of ManagedResources or clusters has a status, or until they are deleted. Those
that -A and -l select are the ones that exist when the wait begins. A condition of a ManagedResource that is True counts
when its present generation is applied. What is waited for is reported on stderr, and the exit code is 5 if it does not
happen in time.`,
		Example: `  trellisctl -n shoot--foo--a wait mr addons
  trellisctl wait mr -A -l origin=gardener --for condition=ResourcesApplied --timeout 10m
  trellisctl wait cluster shoot--foo--a/shoot-a --for delete`,
		Args: func(_ *cobra.Command, args []string) error {
			_, err := cli.KindOf(args, kinds...)
			return err
		},
		ValidArgsFunction: env.CompleteSubject(kinds...),
		RunE:              func(cmd *cobra.Command, args []string) error { return w.run(cmd.Context(), args, kinds) },
	}
	w.output.AddFlags(command, cli.FormatJSON, cli.FormatYAML, cli.FormatName)
	w.selection.AddFlags(command)
	command.Flags().StringVar(&w.until, "for", "condition=Ready",
		"What to wait for: condition=TYPE, condition=TYPE=STATUS, or delete.")
	command.Flags().DurationVar(&w.timeout, "timeout", 2*time.Minute, "How long to wait.")
	return command
}

func (w *wait) run(ctx context.Context, args []string, kinds []cli.Kind) error {
	if err := w.output.Validate(); err != nil {
		return err
	}
	done, err := w.condition()
	if err != nil {
		return err
	}
	source, err := w.env.Source()
	if err != nil {
		return err
	}
	subjects, err := w.selection.Subjects(ctx, source, args, kinds...)
	if err != nil {
		return err
	}
	if len(subjects) == 0 {
		kind, _ := cli.KindOf(args, kinds...)
		w.selection.None(w.env, source, cli.Plural(kind))
		return nil
	}
	w.output.Qualified = w.selection.Qualifies(subjects)
	all := len(subjects)
	await := func() error {
		return w.env.Await(ctx, w.timeout, func(ctx context.Context) (bool, string, error) {
			state := ""
			var failed error
			subjects = slices.DeleteFunc(subjects, func(s cli.Subject) bool {
				if failed != nil || state != "" && len(subjects) > lookAhead {
					return false // one is enough to wait for; the others are read when it is done
				}
				obj, err := read(ctx, source, s)
				finished, is := done(obj, err)
				switch {
				case err != nil && !finished:
					failed = err
				case finished:
					w.report(source, s, obj)
				case state == "":
					state = is
				}
				return finished
			})
			if all > 1 {
				state = fmt.Sprintf("%d of %d: %s", all-len(subjects), all, state)
			}
			return failed == nil && len(subjects) == 0, state, failed
		})
	}
	if all == 1 && !w.selection.Given() {
		return await()
	}
	return w.output.Together(w.env.Out, await)
}

// lookAhead bounds the objects that are all read in each round.
const lookAhead = 20

// condition reports whether the wait for an object is over, and its state if it is not.
type condition func(obj client.Object, err error) (done bool, state string)

// condition reads --for.
func (w *wait) condition() (condition, error) {
	if w.until == "delete" {
		return func(obj client.Object, err error) (bool, string) {
			if err != nil {
				return cli.ExitCode(err) == cli.ExitNotFound, ""
			}
			return false, obj.GetNamespace() + "/" + obj.GetName() + " exists"
		}, nil
	}
	rest, is := strings.CutPrefix(w.until, "condition=")
	conditionType, status, given := strings.Cut(rest, "=")
	if !is || conditionType == "" || given && status == "" {
		return nil, cli.Usage("--for %q: must be condition=TYPE, condition=TYPE=STATUS or delete", w.until)
	}
	if !given {
		status = "True"
	}
	return func(obj client.Object, err error) (bool, string) {
		if err != nil {
			return false, ""
		}
		now, reason := conditionOf(obj, conditionType)
		name := obj.GetNamespace() + "/" + obj.GetName()
		mr, is := obj.(*resourcesv1alpha1.ManagedResource)
		switch {
		case now == "":
			return false, name + " has no condition " + conditionType
		case !strings.EqualFold(now, status):
			return false, fmt.Sprintf("%s: %s is %s, %s", name, conditionType, now, reason)
		case is && now == "True" && mr.Status.ObservedGeneration != mr.Generation:
			return false, name + ": the hub has not applied the present generation"
		}
		return true, ""
	}, nil
}

// report prints that the wait for an object is over.
func (w *wait) report(source *cli.Source, s cli.Subject, obj client.Object) {
	what := " condition met"
	if w.until == "delete" {
		what = " deleted"
		obj = cli.ObjectOf(s.Kind, source.For(s).Namespace, s.Name)
	}
	switch {
	case w.output.Structured():
		_ = w.output.Encode(w.env.Out, cli.Typed(source.Scheme(), obj)) // it can only fail to write
	case w.output.Format == cli.FormatName:
		fmt.Fprintln(w.env.Out, w.output.Name(source.Scheme(), obj))
	default:
		fmt.Fprintln(w.env.Out, w.output.Name(source.Scheme(), obj)+what)
	}
}
