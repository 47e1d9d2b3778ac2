package diff

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/cmd/trellisctl/pack"
	"github.com/trellis-hub/trellis/cmd/trellisctl/remote"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/references"
	"github.com/trellis-hub/trellis/engine/apply"
	"github.com/trellis-hub/trellis/engine/bundle"
)

type differ struct {
	env       *cli.Env
	output    cli.Output
	target    remote.Flags
	files     []string
	recursive bool
	name      string
	managedBy string
	clusterID string
	full      bool
}

// Report is the result for one ManagedResource, as printed by -o json.
type Report struct {
	Namespace   string         `json:"namespace"`
	Name        string         `json:"name"`
	Target      string         `json:"target"`
	Summary     map[Action]int `json:"summary"`
	Differences []Difference   `json:"differences"`
	// Problems are documents that cannot be read or applied, whatever the target says. While there are any, nothing is
	// deleted.
	Problems []string `json:"problems,omitempty"`
}

// New returns the command diff.
func New(env *cli.Env) *cobra.Command {
	d := &differ{env: env}
	command := &cobra.Command{
		Use:   "diff (mr NAME | -f FILE [--name NAME]) [flags]",
		Short: "Show what an apply would change, field by field",
		Long: `Show what an apply would change in the target, field by field. It applies the hub's own rules, and has
the target's API server make a dry run. Nothing is written.

"diff mr NAME" compares what is in the Secrets of the ManagedResource with the target: drift, changes that
a suspended ManagedResource has missed, and changes by a hub that takes over from another one.

"diff -f FILE" compares before anything is stored. The file has a ManagedResource with its Secrets, as "pack" prints
them, or else plain manifests for the ManagedResource of --name.

The exit code is 3 if there are differences, or something would fail. Values of Secrets are not shown, only their
lengths. -o wide also lists objects that stay as they are.`,
		Example: `  trellisctl -n shoot--foo--a diff mr addons
  trellisctl -n shoot--foo--a diff -f manifests/ --name addons
  trellisctl -n shoot--foo--a pack -f manifests/ --name addons | trellisctl -n shoot--foo--a diff -f -`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil // then it has to be -f
			}
			_, err := cli.ParseSubject(args, cli.KindManagedResource)
			return err
		},
		ValidArgsFunction: env.CompleteSubject(cli.KindManagedResource),
		RunE:              func(cmd *cobra.Command, args []string) error { return d.run(cmd.Context(), args) },
	}
	d.output.AddFlags(command, cli.FormatJSON, cli.FormatYAML, cli.FormatWide, cli.FormatName)
	d.target.AddFlags(command, env)
	f := command.Flags()
	f.StringSliceVarP(&d.files, "filename", "f", nil, "Files or directories to compare with the target; - reads stdin.")
	f.BoolVarP(&d.recursive, "recursive", "R", false, "Read subdirectories, too.")
	f.StringVar(&d.name, "name", "", "With -f: ManagedResource that plain manifests are for. It need not exist.")
	f.StringVar(&d.managedBy, "managed-by", "", "Value of the label that the hub puts on objects. Default: as on objects that are there, else \""+resourcesv1alpha1.ManagedByDefault+"\".")
	f.StringVar(&d.clusterID, "cluster-id", "",
		"Cluster ID in the origins of objects. Default: as on objects that are there, else none.")
	f.BoolVar(&d.full, "full", false, fmt.Sprintf(
		"Print all that is to say of an object, not only the first %d lines. JSON and YAML always have all.", shownLines))
	env.CompleteFlag(command, "name", cli.KindManagedResource)
	return command
}

// subject is the desired state of a ManagedResource, with its content.
type subject struct {
	mr     *resourcesv1alpha1.ManagedResource
	bundle *bundle.Bundle
}

func (d *differ) run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 0 && len(d.files) == 0:
		return cli.Usage("give mr NAME, or --filename")
	case len(args) > 0 && len(d.files) > 0:
		return cli.Usage("mr NAME and --filename exclude each other; --name says which ManagedResource plain manifests are for")
	}
	if err := d.output.Validate(); err != nil {
		return err
	}
	source, err := d.env.Source()
	if err != nil {
		return err
	}
	subjects, err := d.subjects(ctx, source, args)
	if err != nil {
		return err
	}
	var reports []*Report
	for _, s := range subjects {
		r, err := d.report(ctx, source, s)
		if err != nil {
			return fmt.Errorf("managedResource %s: %w", s.mr.Name, err)
		}
		reports = append(reports, r)
	}
	if err := d.print(reports); err != nil {
		return err
	}
	for _, r := range reports {
		if r.Summary[Nothing]+r.Summary[Keep] < len(r.Differences) || len(r.Problems) > 0 {
			return cli.Found()
		}
	}
	return nil
}

func (d *differ) subjects(ctx context.Context, source *cli.Source, args []string) ([]subject, error) {
	if len(d.files) > 0 {
		return d.fromFiles(ctx, source)
	}
	parsed, err := cli.ParseSubject(args, cli.KindManagedResource)
	if err != nil {
		return nil, err
	}
	mr, err := source.ManagedResource(ctx, parsed.Name)
	if err != nil {
		return nil, err
	}
	b, err := pack.Read(ctx, source, mr)
	if err != nil {
		return nil, err
	}
	return []subject{{mr: mr, bundle: b}}, nil
}

// fromFiles reads ManagedResources with their Secrets, or plain manifests.
func (d *differ) fromFiles(ctx context.Context, source *cli.Source) ([]subject, error) {
	manifests, err := pack.ReadFiles(d.files, d.recursive, d.env.In) //nolint:contextcheck // local, and bounded
	if err != nil {
		return nil, err
	}
	secrets := map[string]*corev1.Secret{}
	var mrs []*resourcesv1alpha1.ManagedResource
	for _, m := range manifests {
		switch gvk := m.GroupVersionKind(); {
		case gvk.Group == resourcesv1alpha1.GroupVersion.Group && gvk.Kind == "ManagedResource":
			mr := &resourcesv1alpha1.ManagedResource{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(m.Object, mr); err != nil {
				return nil, cli.Refused("%s: not a ManagedResource: %w", m.Place, err)
			}
			mrs = append(mrs, mr)
		case gvk.Group == "" && gvk.Kind == "Secret":
			s := &corev1.Secret{}
			// else it is a manifest that the hub will reject
			if runtime.DefaultUnstructuredConverter.FromUnstructured(m.Object, s) == nil {
				secrets[s.Name] = withStringData(s)
			}
		}
	}
	if len(mrs) == 0 {
		return d.plain(ctx, source, manifests)
	}
	if d.name != "" {
		return nil, cli.Usage("--name is for plain manifests, and the files have a ManagedResource")
	}
	var subjects []subject
	for _, mr := range mrs {
		if mr.Namespace != "" && mr.Namespace != source.Namespace {
			return nil, cli.Usage("the ManagedResource %s in the files is for namespace %s, and this is %s: give --namespace",
				mr.Name, mr.Namespace, source.Namespace)
		}
		mr.Namespace = source.Namespace
		b, err := withContent(ctx, source, mr, secrets)
		if err != nil {
			return nil, err
		}
		if err := d.inherit(ctx, source, mr); err != nil {
			return nil, err
		}
		subjects = append(subjects, subject{mr: mr, bundle: b})
	}
	return subjects, nil
}

// withStringData merges stringData into data, as an API server does.
func withStringData(s *corev1.Secret) *corev1.Secret {
	if s.Data == nil {
		s.Data = map[string][]byte{}
	}
	for key, value := range s.StringData {
		s.Data[key] = []byte(value)
	}
	return s
}

// withContent decodes the Secrets of a ManagedResource: those of the files, and others from the source.
func withContent(ctx context.Context, source *cli.Source, mr *resourcesv1alpha1.ManagedResource,
	given map[string]*corev1.Secret) (*bundle.Bundle, error) {
	var all []*corev1.Secret
	refs, err := references.Of(mr)
	if err != nil {
		return nil, err
	}
	for _, ref := range refs {
		s := given[ref.Name]
		if s == nil {
			s = &corev1.Secret{}
			if err := source.Get(ctx, ref, s); err != nil {
				if apierrors.IsNotFound(err) {
					return nil, cli.NotFound("Secret %s of ManagedResource %s is neither in the files nor in namespace %s", ref.Name,
						mr.Name, mr.Namespace)
				}
				return nil, fmt.Errorf("reading Secret %s: %w", ref, err)
			}
		}
		all = append(all, s)
	}
	return bundle.Decode(pack.Sources(all), bundle.Limits{}), nil //nolint:contextcheck // local, and bounded
}

// plain uses manifests as the content of one ManagedResource.
func (d *differ) plain(ctx context.Context, source *cli.Source, manifests []pack.Manifest) ([]subject, error) {
	if d.name == "" {
		return nil, cli.Usage("the files have no ManagedResource: say with --name which one their manifests are for")
	}
	options := pack.Options{Namespace: source.Namespace, Name: d.name, Brotli: true}
	packed, err := pack.Pack(manifests, options) //nolint:contextcheck // local, and bounded
	if err != nil {
		return nil, err
	}
	mr := packed.ManagedResource
	known := &resourcesv1alpha1.ManagedResource{}
	switch err := source.Get(ctx, client.ObjectKeyFromObject(mr), known); {
	case err == nil:
		mr = known
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("reading ManagedResource %s/%s: %w", mr.Namespace, mr.Name, err)
	}
	b := bundle.Decode(pack.Sources(packed.Secrets), bundle.Limits{}) //nolint:contextcheck // local, and bounded
	return []subject{{mr: mr, bundle: b}}, nil
}

// inherit copies the hub's state from the existing ManagedResource to one from a file.
func (d *differ) inherit(ctx context.Context, source *cli.Source, mr *resourcesv1alpha1.ManagedResource) error {
	known := &resourcesv1alpha1.ManagedResource{}
	if err := source.Get(ctx, client.ObjectKeyFromObject(mr), known); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("reading ManagedResource %s/%s: %w", mr.Namespace, mr.Name, err)
	}
	mr.Status = known.Status
	if uid := known.Annotations[hubv1alpha1.TargetUIDAnnotation]; uid != "" {
		mr.Annotations = maps.Clone(mr.Annotations)
		if mr.Annotations == nil {
			mr.Annotations = map[string]string{}
		}
		mr.Annotations[hubv1alpha1.TargetUIDAnnotation] = uid
	}
	return nil
}

// report makes the report of one ManagedResource.
func (d *differ) report(ctx context.Context, source *cli.Source, s subject) (*Report, error) {
	found, connection, err := d.target.Open(ctx, source, s.mr)
	if err != nil {
		return nil, err
	}
	if uid := s.mr.Annotations[hubv1alpha1.TargetUIDAnnotation]; uid != "" && uid != string(connection.UID) {
		d.env.Warn("the objects of the ManagedResource are in the cluster with UID %s, and this is the one with UID %s: what is there is compared, and nothing counts as to be deleted", uid, connection.UID)
		s.mr.Status.Resources = nil
	}
	others := &resourcesv1alpha1.ManagedResourceList{}
	if err := source.List(ctx, others, client.InNamespace(s.mr.Namespace)); err != nil {
		return nil, fmt.Errorf("listing ManagedResources: %w", err)
	}
	r := &planner{
		mr: s.mr, bundle: s.bundle, connection: connection, others: others.Items,
		marks:   findMarks(ctx, connection, s.mr, d.managedBy, d.clusterID),
		applier: &apply.Applier{FieldManager: hubv1alpha1.FieldManager},
	}
	differences, err := r.run(ctx)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(differences, func(a, b Difference) int { return a.key.Compare(b.key) })
	report := &Report{Namespace: s.mr.Namespace, Name: s.mr.Name, Target: found.String(), Summary: map[Action]int{},
		Differences: differences, Problems: r.problems}
	for _, difference := range differences {
		report.Summary[difference.Action]++
	}
	return report, nil
}
