package pack

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/cmd/trellisctl/operate"
)

type packer struct {
	env        *cli.Env
	options    Options
	output     cli.Output
	files      []string
	recursive  bool
	allowEmpty bool
	apply      bool
	force      bool
	prune      bool
	wait       bool
	timeout    time.Duration

	shared sets.Set[string] // Secrets that other ManagedResources refer to
}

// New returns the command pack.
func New(env *cli.Env) *cobra.Command {
	p := &packer{env: env}
	command := &cobra.Command{
		Use:   "pack -f FILE|DIR|- --name NAME [flags]",
		Short: "Pack manifests into a ManagedResource",
		Long: `Pack manifests into a ManagedResource and the Secrets that it refers to, and print them, or apply them
with --apply (and print them with -o, too).

Equal manifests give equal output, whatever files they are in and in whatever order. Input that the hub could
not read or would refuse is refused: documents that are no objects, duplicate objects, more than fits into a Secret or
an inventory. Content that exceeds one Secret is spread over several.

Each --filename has to have manifests: a pipeline that failed leaves stdin empty, and the hub deletes what is
missing. With --allow-empty it need not.

With --immutable, Secrets are immutable and their names end in a hash of their content. --prune then deletes those that
the ManagedResource no longer refers to, once the hub has applied the new ones.

Secrets that were applied with --apply belong to the ManagedResource: when it is deleted, the cluster's garbage
collector deletes them, too, but not those that another ManagedResource referred to. --apply refuses Secrets that exist
and were not packed for it.`,
		Example: `  # Look at it, then apply it
  trellisctl -n shoot--foo--a pack -f manifests/ --name addons --brotli | less
  trellisctl -n shoot--foo--a pack -f manifests/ --name addons --brotli --apply --wait

  # From a pipeline
  kustomize build overlays/a | trellisctl -n shoot--foo--a pack -f - --name addons --immutable --apply --prune`,
		Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.run(cmd.Context()) },
	}
	f := command.Flags()
	f.StringSliceVarP(&p.files, "filename", "f", nil, "Files or directories with manifests; - reads stdin.")
	f.BoolVarP(&p.recursive, "recursive", "R", false, "Read subdirectories, too.")
	f.BoolVar(&p.allowEmpty, "allow-empty", false,
		"Take files, directories or stdin without manifests: all objects that were in them before are deleted.")
	f.StringVar(&p.options.Name, "name", "", "Name of the ManagedResource.")
	f.BoolVar(&p.options.Brotli, "brotli", false, "Compress the manifests.")
	f.BoolVar(&p.options.Immutable, "immutable", false,
		"Make the Secrets immutable, with names that end in a hash of their content.")
	f.StringVar(&p.options.Class, "class", "", "Class of the ManagedResource. Default: the default class.")
	f.StringVar(&p.options.Cluster, "for-cluster", "", "Cluster that it is for, where the namespace has several.")
	f.BoolVar(&p.options.KeepObjects, "keep-objects", false,
		"Leave the objects in the cluster when the ManagedResource is deleted.")
	f.BoolVar(&p.options.ForceOverwriteLabels, "force-overwrite-labels", false,
		"Remove labels that others add to objects.")
	f.BoolVar(&p.options.ForceOverwriteAnnotations, "force-overwrite-annotations", false,
		"Remove annotations that others add to objects.")
	f.BoolVar(&p.options.DeletePersistentVolumeClaims, "delete-persistent-volume-claims", false,
		"Delete the claims of a StatefulSet with it.")
	f.StringToStringVar(&p.options.InjectLabels, "inject-labels", nil,
		"Labels for every object and the pods of it (KEY=VALUE,...).")
	f.StringToStringVar(&p.options.Labels, "labels", nil, "Labels of the ManagedResource (KEY=VALUE,...).")
	f.BoolVar(&p.apply, "apply", false, "Apply them to the source cluster instead of printing them.")
	f.BoolVar(&p.force, "force-conflicts", false, "With --apply: take over fields that another client set.")
	f.BoolVar(&p.prune, "prune", false,
		"With --apply: delete Secrets that were packed for the ManagedResource before and are no longer needed.")
	f.BoolVar(&p.wait, "wait", false, "With --apply: wait until the ManagedResource is ready.")
	f.DurationVar(&p.timeout, "timeout", 5*time.Minute, "How long to wait for the hub.")
	p.output.AddFlags(command, cli.FormatYAML, cli.FormatJSON, cli.FormatName)
	env.CompleteFlag(command, "name", cli.KindManagedResource)
	env.CompleteFlag(command, "for-cluster", cli.KindCluster)
	return command
}

func (p *packer) run(ctx context.Context) error {
	switch {
	case len(p.files) == 0:
		return cli.Usage("--filename is required")
	case p.options.Name == "":
		return cli.Usage("--name is required")
	case !p.apply && (p.force || p.prune || p.wait):
		return cli.Usage("--force-conflicts, --prune and --wait go with --apply")
	}
	if err := p.output.Validate(); err != nil {
		return err
	}
	if err := p.options.Validate(); err != nil {
		return err
	}
	manifests, err := ReadFiles(p.files, p.recursive, p.env.In) //nolint:contextcheck // local, and bounded
	if err != nil {
		return err
	}
	if empty := p.empty(manifests); len(empty) > 0 && !p.allowEmpty {
		return cli.Refused("there are no manifests in %s: the hub would delete all objects that were; if that is meant, say --allow-empty", strings.Join(empty, ", "))
	}
	if len(manifests) == 0 {
		p.env.Warn("there are no manifests: the ManagedResource will have no objects, and those that it had will be deleted")
	}
	namespace, _, err := p.env.Flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return fmt.Errorf("reading the kubeconfig of the source cluster: %w", err)
	}
	p.options.Namespace = namespace
	packed, err := Pack(manifests, p.options) //nolint:contextcheck // local, and bounded
	if err != nil {
		return err
	}
	if p.apply {
		return p.applied(ctx, packed)
	}
	return p.print(packed)
}

// empty are the files that have no manifests.
func (p *packer) empty(manifests []Manifest) []string {
	var empty []string
	for _, file := range p.files {
		if slices.ContainsFunc(manifests, func(m Manifest) bool { return m.From == file }) {
			continue
		}
		if file == "-" {
			file = "stdin"
		}
		empty = append(empty, file)
	}
	return empty
}

func (p *packer) print(packed *Packed) error {
	objects := make([]any, 0, len(packed.Secrets)+1)
	for _, o := range packed.objects() {
		if p.output.Format == cli.FormatName {
			fmt.Fprintln(p.env.Out, cli.Name(cli.Scheme(), o))
			continue
		}
		content, err := plain(o)
		if err != nil {
			return err
		}
		objects = append(objects, content)
	}
	if p.output.Format == cli.FormatName {
		return nil
	}
	if p.output.Format == cli.FormatJSON {
		return p.output.Encode(p.env.Out, map[string]any{"apiVersion": "v1", "kind": "List", "items": objects})
	}
	documents := cli.Output{Format: cli.FormatYAML}
	for _, o := range objects {
		fmt.Fprintln(p.env.Out, "---")
		if err := documents.Encode(p.env.Out, o); err != nil {
			return err
		}
	}
	return nil
}

// objects are the Secrets and, after them, the ManagedResource.
func (p *Packed) objects() []client.Object {
	objects := make([]client.Object, 0, len(p.Secrets)+1)
	for _, s := range p.Secrets {
		objects = append(objects, s)
	}
	return append(objects, p.ManagedResource)
}

// plain is an object without fields that only servers set.
func plain(o client.Object) (map[string]any, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", o.GetName(), err)
	}
	delete(content, "status")
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	return content, nil
}

// applied applies the Secrets, then the ManagedResource that refers to them.
func (p *packer) applied(ctx context.Context, packed *Packed) error {
	source, err := p.env.Source()
	if err != nil {
		return err
	}
	before := &resourcesv1alpha1.ManagedResource{}
	if err := source.Get(ctx, client.ObjectKeyFromObject(packed.ManagedResource), before); err != nil &&
		!apierrors.IsNotFound(err) {
		return fmt.Errorf("reading ManagedResource %s/%s: %w", source.Namespace, p.options.Name, err)
	}
	if before.DeletionTimestamp != nil {
		return cli.Refused("ManagedResource %s/%s is being deleted", source.Namespace, p.options.Name)
	}
	for _, s := range packed.Secrets {
		if err := p.mayWrite(ctx, source, s); err != nil {
			return err
		}
	}
	if p.shared, err = p.sharedSecrets(ctx, source, packed.Secrets); err != nil {
		return err
	}
	owner := before.UID
	for _, o := range packed.objects() {
		applied, err := p.applyOne(ctx, source, o, owner)
		if err != nil {
			return err
		}
		if o == packed.ManagedResource {
			owner = applied.GetUID()
		}
		p.report("%s applied", cli.Name(source.Scheme(), o))
	}
	if owner != before.UID { // it was created just now
		for _, s := range packed.Secrets {
			if p.shared.Has(s.Name) {
				continue
			}
			if _, err := p.applyOne(ctx, source, s, owner); err != nil {
				return err
			}
		}
	}
	if p.output.Format != cli.FormatPeople {
		if err := p.print(packed); err != nil {
			return err
		}
	}
	old := p.unneeded(ctx, source, before, packed.ManagedResource)
	if p.wait || p.prune && len(old) > 0 {
		if err := operate.AwaitReady(ctx, p.env, source, p.options.Name, p.timeout, p.wait); err != nil {
			return err
		}
	}
	return p.dispose(ctx, source, old)
}

// applyOne applies a Secret or the ManagedResource, and returns what is stored now. A Secret gets the ManagedResource
// as its owner, if that has a UID yet and no other one refers to it.
func (p *packer) applyOne(ctx context.Context, source *cli.Source, o client.Object, owner types.UID) (
	*unstructured.Unstructured, error) {
	content, err := plain(o)
	if err != nil {
		return nil, err
	}
	u, name := &unstructured.Unstructured{Object: content}, cli.Name(source.Scheme(), o)
	if _, isSecret := o.(*corev1.Secret); isSecret && owner != "" && !p.shared.Has(o.GetName()) {
		// The hub does not need the Secrets to delete objects, so they may be deleted first.
		u.SetOwnerReferences([]metav1.OwnerReference{{
			APIVersion: resourcesv1alpha1.GroupVersion.String(), Kind: "ManagedResource", Name: p.options.Name, UID: owner,
		}})
	}
	options := []client.ApplyOption{client.FieldOwner(cli.FieldManager)}
	if p.force {
		options = append(options, client.ForceOwnership)
	}
	err = source.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), options...)
	switch {
	case apierrors.IsConflict(err):
		return nil, cli.Refused("applying %s: %w; --force-conflicts takes these fields over", name, err)
	case err != nil:
		return nil, fmt.Errorf("applying %s: %w", name, err)
	case u.GetDeletionTimestamp() != nil:
		return nil, refuseGoing(name)
	}
	return u, nil
}

// unneeded are the Secrets that were packed for the ManagedResource and that it no longer refers to.
func (p *packer) unneeded(ctx context.Context, source *cli.Source, before,
	now *resourcesv1alpha1.ManagedResource) []*corev1.Secret {
	var old []*corev1.Secret
	needed := sets.New(now.Spec.SecretRefs...)
	for _, ref := range before.Spec.SecretRefs {
		if needed.Has(ref) {
			continue
		}
		s := &corev1.Secret{}
		if err := source.Get(ctx, client.ObjectKey{Namespace: source.Namespace, Name: ref.Name}, s); err == nil &&
			s.Labels[PackedLabel] == p.options.Name {
			old = append(old, s)
		}
	}
	return old
}

func (p *packer) dispose(ctx context.Context, source *cli.Source, old []*corev1.Secret) error {
	for _, s := range old {
		if !p.prune {
			p.env.Note("secret/%s is no longer needed; --prune deletes such Secrets.", s.Name)
			continue
		}
		if err := client.IgnoreNotFound(source.Delete(ctx, s, client.Preconditions{UID: ptr.To(s.UID)})); err != nil {
			return fmt.Errorf("deleting the old Secret %s/%s: %w", s.Namespace, s.Name, err)
		}
		p.report("secret/%s deleted", s.Name)
	}
	return nil
}

// report prints what was done, on stderr if the applied objects are the output.
func (p *packer) report(format string, args ...any) {
	if p.output.Format != cli.FormatPeople {
		p.env.Note(format, args...)
		return
	}
	fmt.Fprintf(p.env.Out, format+"\n", args...)
}
