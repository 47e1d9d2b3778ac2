package operate

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
)

// operation is one of the commands on one ManagedResource.
type operation struct {
	env     *cli.Env
	output  cli.Output
	wait    bool
	timeout time.Duration
}

// command makes a command of an operation.
func (o *operation) command(use, short, long, example string, run func(
	context.Context, *cli.Source, *resourcesv1alpha1.ManagedResource) error) *cobra.Command {
	command := &cobra.Command{
		Use: use + " mr NAME... [flags]", Short: short, Long: long, Example: example,
	}
	o.env.TakeSubjects(command, &o.output, func(ctx context.Context, source *cli.Source, subject cli.Subject) error {
		mr, err := source.ManagedResource(ctx, subject.Name)
		if err != nil {
			return err
		}
		return run(ctx, source, mr)
	}, cli.KindManagedResource)
	o.output.AddFlags(command, cli.FormatJSON, cli.FormatYAML, cli.FormatName)
	command.Flags().BoolVar(&o.wait, "wait", true, "Wait until the hub has done it.")
	command.Flags().DurationVar(&o.timeout, "timeout", 2*time.Minute, "How long to wait for the hub.")
	return command
}

// NewReconcile returns the command reconcile.
func NewReconcile(env *cli.Env) *cobra.Command {
	o := &operation{env: env}
	return o.command("reconcile", "Have the hub apply a ManagedResource now", `Have the hub apply every object of a ManagedResource now, also those that it knows to be right, and wait until it is done. The exit code
is 3 if the ManagedResource is not ready then.

Nobody needs this to have a change or drift noticed: the hub notices by itself. It helps when something that the hub cannot see has
changed, such as a webhook in the target that would now let an object pass.`,
		`  trellisctl -n shoot--foo--a reconcile mr addons`, o.reconcile)
}

func (o *operation) reconcile(ctx context.Context, source *cli.Source, mr *resourcesv1alpha1.ManagedResource) error {
	if resourcesv1alpha1.IsTruthy(mr.Annotations[resourcesv1alpha1.IgnoreAnnotation]) && mr.DeletionTimestamp == nil {
		return cli.Refused("managedResource %s is suspended: \"resume mr %s\" lets the hub work on it again", mr.Name,
			mr.Name)
	}
	switch operation := mr.Annotations[resourcesv1alpha1.OperationAnnotation]; operation {
	case "", resourcesv1alpha1.OperationReconcile:
	default:
		return cli.Refused("managedResource %s has the annotation %s=%s, which another client waits for", mr.Name,
			resourcesv1alpha1.OperationAnnotation, operation)
	}
	if err := o.annotate(ctx, source, mr, resourcesv1alpha1.OperationAnnotation,
		resourcesv1alpha1.OperationReconcile); err != nil {
		return err
	}
	if !o.wait {
		return o.report(mr, ": the hub is asked to reconcile it")
	}
	quiet := 0
	err := o.env.Await(ctx, o.timeout, func(ctx context.Context) (done bool, state string, err error) {
		now, err := source.ManagedResource(ctx, mr.Name)
		if err != nil {
			return false, "", err
		}
		mr = now
		if mr.Annotations[resourcesv1alpha1.OperationAnnotation] == resourcesv1alpha1.OperationReconcile {
			quiet = 0
			return false, "waiting for the hub to begin", nil
		}
		if !settled(mr) {
			quiet = 0
			return false, "the hub is working: " + Say(mr, resourcesv1alpha1.ConditionReady), nil
		}
		quiet++
		return quiet == 2, "the hub is working", nil
	})
	if err != nil {
		return fmt.Errorf("managedResource %s: %w", mr.Name, err)
	}
	if err := o.report(mr, " reconciled: "+Say(mr, resourcesv1alpha1.ConditionReady)); err != nil {
		return err
	}
	if !is(mr, resourcesv1alpha1.ConditionReady, resourcesv1alpha1.ConditionTrue) {
		return cli.Found()
	}
	return nil
}

// NewSuspend returns the command suspend.
func NewSuspend(env *cli.Env) *cobra.Command {
	o := &operation{env: env}
	return o.command("suspend", "Pause the reconciliation of a ManagedResource", `
Pause the reconciliation of a ManagedResource until "resume": nothing is applied, drift is not corrected, health is not
checked. Its objects stay as they are. Its deletion still deletes them.`[1:],
		`  trellisctl -n shoot--foo--a suspend mr addons`,
		func(ctx context.Context, source *cli.Source, mr *resourcesv1alpha1.ManagedResource) error {
			if mr.DeletionTimestamp != nil {
				return cli.Refused("managedResource %s is being deleted, and that cannot be suspended", mr.Name)
			}
			return o.ignore(ctx, source, mr, "true", "suspended", true)
		})
}

// NewResume returns the command resume.
func NewResume(env *cli.Env) *cobra.Command {
	o := &operation{env: env}
	return o.command("resume", "Resume the reconciliation of a ManagedResource", `
Resume the reconciliation of a ManagedResource that was suspended. What has changed meanwhile, in its Secrets or in the
target, is applied: "diff mr" shows beforehand what that will be.`[1:],
		`  trellisctl -n shoot--foo--a diff mr addons
  trellisctl -n shoot--foo--a resume mr addons`,
		func(ctx context.Context, source *cli.Source, mr *resourcesv1alpha1.ManagedResource) error {
			return o.ignore(ctx, source, mr, "", "resumed", false)
		})
}

// ignore sets or removes the annotation and waits until the conditions show it.
func (o *operation) ignore(ctx context.Context, source *cli.Source, mr *resourcesv1alpha1.ManagedResource, value,
	what string, ignored bool) error {
	if err := o.annotate(ctx, source, mr, resourcesv1alpha1.IgnoreAnnotation, value); err != nil {
		return err
	}
	if !o.wait {
		return o.report(mr, ": the hub is asked for it to be "+what)
	}
	err := o.env.Await(ctx, o.timeout, func(ctx context.Context) (done bool, state string, err error) {
		now, err := source.ManagedResource(ctx, mr.Name)
		if err != nil {
			return false, "", err
		}
		mr = now
		says := because(mr, resourcesv1alpha1.ConditionResourcesApplied, resourcesv1alpha1.ReasonManagedResourceIgnored)
		known := resourcesv1alpha1.GetCondition(mr.Status.Conditions, resourcesv1alpha1.ConditionResourcesApplied) != nil
		return known && says == ignored, "waiting for the hub: " + Say(mr, resourcesv1alpha1.ConditionResourcesApplied), nil
	})
	if err != nil {
		return fmt.Errorf("managedResource %s has its annotation, but the hub does not report that it is %s: %w",
			mr.Name, what,
			err)
	}
	return o.report(mr, " "+what)
}

// report prints what was done, or the current ManagedResource.
func (o *operation) report(mr *resourcesv1alpha1.ManagedResource, what string) error {
	switch {
	case o.output.Structured():
		return o.output.Encode(o.env.Out, cli.Typed(cli.Scheme(), mr))
	case o.output.Format == cli.FormatName:
		fmt.Fprintln(o.env.Out, o.output.Name(cli.Scheme(), mr))
	default:
		name := mr.Name
		if o.output.Qualified {
			name = mr.Namespace + "/" + name
		}
		fmt.Fprintln(o.env.Out, "managedresource/"+name+what)
	}
	return nil
}

// annotate sets an annotation, or removes it if the value is empty.
func (o *operation) annotate(ctx context.Context, source *cli.Source, mr *resourcesv1alpha1.ManagedResource, key,
	value string) error {
	before := mr.DeepCopy()
	if value == "" {
		delete(mr.Annotations, key)
	} else {
		metav1.SetMetaDataAnnotation(&mr.ObjectMeta, key, value)
	}
	if err := source.Patch(ctx, mr, client.MergeFrom(before), client.FieldOwner(cli.FieldManager)); err != nil {
		return fmt.Errorf("annotating ManagedResource %s/%s: %w", mr.Namespace, mr.Name, err)
	}
	return nil
}
