package inspect

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/cmd/trellisctl/remote"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/assignment"
)

// Report is the result of status and tree, as printed by -o json.
type Report struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Class     string `json:"class"`
	// Target is namespace/name of the TargetCluster, or "source"; empty if it was not found.
	Target string `json:"target,omitempty"`
	// Suspended is true if the hub ignores the ManagedResource.
	Suspended bool `json:"suspended,omitempty"`
	// Deleting is when its deletion began.
	Deleting *time.Time `json:"deleting,omitempty"`
	// Generation is the desired generation, AppliedGeneration the applied one.
	Generation        int64                         `json:"generation"`
	AppliedGeneration int64                         `json:"appliedGeneration"`
	Secrets           []string                      `json:"secrets,omitempty"`
	Conditions        []resourcesv1alpha1.Condition `json:"conditions"`
	Objects           []Object                      `json:"objects"`
	// Problem says why the target could not be read; empty if it was.
	Problem string `json:"problem,omitempty"`

	err error
}

// inspection is one of the commands.
type inspection struct {
	env      *cli.Env
	output   cli.Output
	target   remote.Flags
	children bool
	// selection are the flags -A and -l.
	selection *cli.Selection
	print     func(*Report) error
}

func (i *inspection) command(use, short, long, example string, formats ...string) *cobra.Command {
	command := &cobra.Command{
		Use: use + " mr NAME... [flags]", Short: short, Long: long, Example: example,
	}
	i.output.Spaced = true
	i.selection = i.env.TakeSubjects(command, &i.output, i.run, cli.KindManagedResource)
	i.output.AddFlags(command, formats...)
	i.target.AddFlags(command, i.env)
	return command
}

func (i *inspection) run(ctx context.Context, source *cli.Source, subject cli.Subject) error {
	mr, err := source.ManagedResource(ctx, subject.Name)
	if err != nil {
		return err
	}
	report := i.report(ctx, source, mr)
	switch {
	case i.output.Structured():
		err = i.output.Encode(i.env.Out, report)
	case i.output.Format == cli.FormatName:
		for o := range report.Objects {
			fmt.Fprintln(i.env.Out, cli.Text(report.Objects[o].Key().String()))
		}
	default:
		err = i.print(report)
	}
	if err != nil {
		return err
	}
	if report.err != nil {
		return fmt.Errorf("the live objects cannot be seen: %w", report.err)
	}
	if !report.well() {
		return cli.Found()
	}
	return nil
}

// report makes the report.
func (i *inspection) report(ctx context.Context, source *cli.Source, mr *resourcesv1alpha1.ManagedResource) *Report {
	r := &Report{
		Namespace: mr.Namespace, Name: mr.Name, Class: assignment.ClassName(assignment.SpecClass(mr)),
		Suspended:  resourcesv1alpha1.IsTruthy(mr.Annotations[resourcesv1alpha1.IgnoreAnnotation]),
		Generation: mr.Generation, AppliedGeneration: mr.Status.ObservedGeneration,
		Conditions: slices.Clone(mr.Status.Conditions),
		Objects:    unseen(mr.Status.Resources),
	}
	if mr.DeletionTimestamp != nil {
		r.Deleting = &mr.DeletionTimestamp.Time
	}
	for _, ref := range mr.Spec.SecretRefs {
		r.Secrets = append(r.Secrets, ref.Name)
	}
	found, connection, err := i.target.Open(ctx, source, mr)
	if found != nil {
		r.Target = found.String()
	}
	if err != nil {
		r.Problem, r.err = err.Error(), err
		return r
	}
	l := &reader{connection: connection, withChildren: i.children, pods: map[string]*namespacePods{}}
	r.Objects = l.read(ctx, mr.Status.Resources)
	if i.children {
		l.adopt(r.Objects)
	}
	return r
}

// well reports whether nothing is wrong.
func (r *Report) well() bool {
	ready := resourcesv1alpha1.GetCondition(r.Conditions, resourcesv1alpha1.ConditionReady)
	return ready != nil && ready.Status == resourcesv1alpha1.ConditionTrue && !r.Suspended &&
		r.Generation == r.AppliedGeneration &&
		!slices.ContainsFunc(r.Objects, func(o Object) bool { return o.Health != Healthy })
}

// count counts the objects by health.
func (r *Report) count() string {
	counts := map[Health]int{}
	for i := range r.Objects {
		counts[r.Objects[i].Health]++
	}
	text := cli.Count(len(r.Objects), "object")
	for _, h := range []Health{Missing, Unhealthy, Progressing, Unknown} {
		if counts[h] > 0 {
			text += fmt.Sprintf(", %d %s", counts[h], h)
		}
	}
	return text
}
