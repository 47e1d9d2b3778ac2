package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

// Selection are the flags that select several objects of the source. The zero value selects those of the namespace.
type Selection struct {
	// All selects objects of all namespaces.
	All bool
	// Selector selects by labels.
	Selector string
}

// AddFlags adds -A and -l.
func (s *Selection) AddFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&s.All, "all-namespaces", "A", false, "Those of all namespaces.")
	cmd.Flags().StringVarP(&s.Selector, "selector", "l", "", "Labels that they have to have, as for kubectl.")
}

// Given reports whether anything was selected.
func (s *Selection) Given() bool { return s.All || s.Selector != "" }

// Qualifies reports whether names are to be printed with their namespaces: with -A, and if they were given like that.
func (s *Selection) Qualifies(subjects []Subject) bool {
	return s.All || !s.Given() && slices.ContainsFunc(subjects, func(s Subject) bool { return s.Namespace != "" })
}

// Labels parses the selector.
func (s *Selection) Labels() (labels.Selector, error) {
	selector, err := labels.Parse(s.Selector)
	if err != nil {
		return nil, Usage("--selector: %w", err)
	}
	return selector, nil
}

// Namespace is what to list; empty for all namespaces.
func (s *Selection) Namespace(source *Source) string {
	if s.All {
		return ""
	}
	return source.Namespace
}

// None prints on stderr that nothing was found, and how to find more.
func (s *Selection) None(e *Env, source *Source, what string) {
	where := "in any namespace"
	if !s.All {
		where = "in namespace " + source.Namespace
	}
	if s.Selector != "" {
		where += " with labels " + s.Selector
	}
	if !s.All {
		where += "; -A looks into all namespaces"
	}
	e.Note("No %s found %s.", what, where)
}

// plurals are the words for the kinds that can be selected.
var plurals = map[Kind]string{KindManagedResource: "ManagedResources", KindCluster: "clusters"}

// Plural is the word for several objects of a kind that can be selected.
func Plural(kind Kind) string { return plurals[kind] }

// subjects lists what is selected, in the order of the names.
func (s *Selection) subjects(ctx context.Context, source *Source, kind Kind) ([]Subject, error) {
	selector, err := s.Labels()
	if err != nil {
		return nil, err
	}
	gvk := resourcesv1alpha1.GroupVersion.WithKind("ManagedResource")
	switch kind {
	case KindManagedResource:
	case KindCluster:
		gvk = hubv1alpha1.GroupVersion.WithKind("TargetCluster")
	default:
		return nil, Usage("-A and -l select ManagedResources and clusters only")
	}
	keys, err := source.Keys(ctx, gvk, nil, client.InNamespace(s.Namespace(source)),
		client.MatchingLabelsSelector{Selector: selector})
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", plurals[kind], err)
	}
	all := make([]Subject, len(keys))
	for i, key := range keys {
		all[i] = Subject{Kind: kind, Namespace: key.Namespace, Name: key.Name}
	}
	return all, nil
}

// Subjects are what a command line is about: those that are named, or all that are selected.
func (s *Selection) Subjects(ctx context.Context, source *Source, args []string, kinds ...Kind) ([]Subject, error) {
	subjects, kind, err := parseSubjects(args, kinds...)
	switch {
	case err != nil:
		return nil, err
	case len(subjects) > 0 && s.Given():
		return nil, Usage("names and -A or -l exclude each other")
	case len(subjects) > 0:
		return subjects, nil
	case !s.Given():
		return nil, Usage("what it is about has to be given as %s, or selected with -A or -l", forms(kinds))
	}
	return s.subjects(ctx, source, kind)
}

// Task is the work of a command on one subject. The namespace of source is that of the subject.
type Task func(ctx context.Context, source *Source, subject Subject) error

// TakeSubjects makes a command take subjects of some kinds as its arguments or by flags, complete them, and run with
// each. It returns the flags. If it fails for one, the others follow nevertheless, and the exit code is that of the
// first failure.
func (e *Env) TakeSubjects(command *cobra.Command, output *Output, run Task, kinds ...Kind) *Selection {
	selection := &Selection{}
	selection.AddFlags(command)
	command.Args = func(_ *cobra.Command, args []string) error {
		_, _, err := parseSubjects(args, kinds...)
		return err
	}
	command.ValidArgsFunction = e.CompleteSubject(kinds...)
	command.RunE = func(cmd *cobra.Command, args []string) error {
		if err := output.Validate(); err != nil {
			return err
		}
		source, err := e.Source()
		if err != nil {
			return err
		}
		subjects, err := selection.Subjects(cmd.Context(), source, args, kinds...)
		if err != nil {
			return err
		}
		if len(subjects) == 0 {
			kind, _ := KindOf(args, kinds...)
			selection.None(e, source, plurals[kind])
			return output.Together(e.Out, func() error { return nil })
		}
		output.Qualified = selection.Qualifies(subjects)
		if len(subjects) == 1 && !selection.Given() { // what is selected is a list, however many there are
			return run(cmd.Context(), source.For(subjects[0]), subjects[0])
		}
		return output.Together(e.Out, func() error { return e.each(cmd.Context(), source, output, subjects, run) })
	}
	return selection
}

// TakeSubject makes a command take one subject of some kinds as its arguments, complete it, and run with it.
func (e *Env) TakeSubject(command *cobra.Command, output *Output, run Task, kinds ...Kind) {
	command.Args = func(_ *cobra.Command, args []string) error {
		_, err := ParseSubject(args, kinds...)
		return err
	}
	command.ValidArgsFunction = e.CompleteSubject(kinds...)
	command.RunE = func(cmd *cobra.Command, args []string) error {
		subject, err := ParseSubject(args, kinds...)
		if err == nil {
			err = output.Validate()
		}
		if err != nil {
			return err
		}
		source, err := e.Source()
		if err != nil {
			return err
		}
		return run(cmd.Context(), source.For(subject), subject)
	}
}

// WithoutArguments makes a command that takes subjects do something else if there are no arguments.
func WithoutArguments(command *cobra.Command, run func(context.Context) error) {
	validArgs, withArguments := command.Args, command.RunE
	command.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return validArgs(cmd, args)
	}
	command.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return run(cmd.Context())
		}
		return withArguments(cmd, args)
	}
}

// For is the source with the namespace of a subject.
func (s *Source) For(subject Subject) *Source {
	if subject.Namespace == "" {
		return s
	}
	return s.In(subject.Namespace)
}

// each runs a command for several subjects.
func (e *Env) each(ctx context.Context, source *Source, output *Output, subjects []Subject, run Task) error {
	var first error
	for i, subject := range subjects {
		if i > 0 && output.Format != FormatName && !output.Structured() && output.Spaced {
			fmt.Fprintln(e.Out)
		}
		at := source.For(subject)
		err := run(ctx, at, subject)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil && err.Error() != "" {
			fmt.Fprintf(e.ErrOut, "%s %s %s/%s: %s\n", e.Style(e.ErrOut).Bad("Error:"), subject.Kind, at.Namespace,
				subject.Name, Text(e.Explain(err).Error()))
		}
		if err != nil && (first == nil || ExitCode(first) == ExitFound) {
			first = &ExitError{Code: ExitCode(err)}
		}
	}
	return first
}
