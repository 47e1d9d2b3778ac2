package check

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/cmd/trellisctl/listing"
	"github.com/trellis-hub/trellis/cmd/trellisctl/remote"
	"github.com/trellis-hub/trellis/version"
)

// parallel bounds the targets that are connected to at a time.
const parallel = 20

// Outcomes of checks.
const (
	passed  = "ok"
	failed  = "failed"
	warning = "warning"
)

// Result is that of one check, as printed by -o json.
type Result struct {
	// Check is what was checked.
	Check string `json:"check"`
	// Outcome is ok, warning or failed. Warnings are about what only some commands need.
	Outcome string `json:"outcome"`
	Message string `json:"message,omitempty"`
	// Unblock is what to do about it.
	Unblock string `json:"unblock,omitempty"`
}

// checker is the command.
type checker struct {
	env       *cli.Env
	output    cli.Output
	hub       cli.HubFlags
	selection cli.Selection
	remote    remote.Flags
	targets   bool

	heartbeat cli.Heartbeat
	// leftOut are the kubeconfig Secrets that the selector of the hub leaves out.
	leftOut []client.ObjectKey
	results []Result
}

// New returns the command check.
func New(env *cli.Env) *cobra.Command {
	c := &checker{env: env}
	command := &cobra.Command{
		Use:   "check [flags]",
		Short: "Check rights, CRDs, versions, the hub, and whether targets answer",
		Long: `Check whether trellisctl and the hub have what they need: the CRDs in the source cluster, the rights for
commands, the versions of trellisctl, hub and source cluster, the heartbeat of the hub, and the API servers of the
clusters, to which it connects with the credentials of their registrations. --targets=false leaves these out.

The exit code is 3 if a check fails. A missing right that only some commands need is a warning.`,
		Example: `  trellisctl check -A
  trellisctl -n shoot--foo--a check -o json`,
		Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	c.output.AddFlags(command, cli.FormatJSON, cli.FormatYAML, cli.FormatName)
	c.hub.AddFlags(command)
	c.selection.AddFlags(command)
	c.remote.AddConnectFlags(command)
	command.Flags().BoolVar(&c.targets, "targets", true, "Connect to the clusters.")
	return command
}

func (c *checker) add(check, outcome, message, unblock string) {
	c.results = append(c.results, Result{check, outcome, message, c.env.AsCalled(unblock)})
}

func (c *checker) run(ctx context.Context) error {
	if err := c.output.Validate(); err != nil {
		return err
	}
	selector, err := c.selection.Labels()
	if err != nil {
		return err
	}
	source, err := c.env.Source()
	if err != nil {
		return err
	}
	steps := []func(context.Context, *cli.Source) error{c.versions, c.definitions, c.working, c.rights,
		c.registrations}
	if c.targets {
		steps = append(steps, func(ctx context.Context, source *cli.Source) error {
			return c.reach(ctx, source, listing.Scope{Namespace: c.selection.Namespace(source), Selector: selector})
		})
	}
	for _, step := range steps {
		if err := step(ctx, source); err != nil {
			return err
		}
	}
	return c.print()
}

// versions compares the versions. Hub and client are built together, so they should be the same.
func (c *checker) versions(ctx context.Context, source *cli.Source) error {
	v := Versions{Client: version.Get()}
	var err error
	if c.heartbeat, err = v.read(ctx, source, c.hub, c.env.Clock.Now()); err != nil {
		return err
	}
	c.add("source cluster", passed, "it answers, version "+cmp.Or(v.Source, "unknown"), "")
	switch {
	case v.Hub == "":
		c.add("versions", warning, fmt.Sprintf("trellisctl %s, hub unknown: %s", v.Client.Version, v.Problem), "")
	case v.Hub != v.Client.Version:
		c.add("versions", warning, fmt.Sprintf("trellisctl %s, hub %s", v.Client.Version, v.Hub),
			"Use the trellisctl of the hub's version: flags and fields of one may be unknown to the other.")
	default:
		c.add("versions", passed, "trellisctl and hub "+v.Hub, "")
	}
	return nil
}

// definitions checks the CRDs.
func (c *checker) definitions(ctx context.Context, source *cli.Source) error {
	for _, kind := range []schema.GroupVersionKind{
		hubv1alpha1.GroupVersion.WithKind("TargetCluster"), resourcesv1alpha1.GroupVersion.WithKind("ManagedResource"),
	} {
		name := "CRD of " + kind.Kind
		_, err := source.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
		switch {
		case meta.IsNoMatchError(err):
			c.add(name, failed, "the source cluster does not know "+kind.Group+"/"+kind.Version,
				"Install the chart, or look whether --context and --kubeconfig lead to the source cluster.")
		case err != nil:
			return fmt.Errorf("asking the source cluster for its kinds: %w", err)
		default:
			c.add(name, passed, "", "")
		}
	}
	definition := &unstructured.Unstructured{}
	definition.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1",
		Kind: "CustomResourceDefinition"})
	name := "managedresources." + resourcesv1alpha1.GroupVersion.Group
	if source.Get(ctx, client.ObjectKey{Name: name}, definition) != nil {
		return nil //nolint:nilerr // it is missing, or may not be read
	}
	if !hasColumn(definition, "Message") {
		c.add("columns of ManagedResources", warning,
			"the CRD is not that of the chart: lists of the fleet read whole objects, which takes longer",
			"Nothing has to be done. The CRD of the chart has the columns.")
	}
	return nil
}

// hasColumn reports whether a version of a CRD has a printer column.
func hasColumn(definition *unstructured.Unstructured, name string) bool {
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	return slices.ContainsFunc(versions, func(v any) bool {
		version, _ := v.(map[string]any)
		columns, _, _ := unstructured.NestedSlice(version, "additionalPrinterColumns")
		return slices.ContainsFunc(columns, func(c any) bool {
			column, _ := c.(map[string]any)
			return column["name"] == name
		})
	})
}

// working checks the heartbeat, which was read with the versions.
func (c *checker) working(context.Context, *cli.Source) error {
	h := c.heartbeat
	switch {
	case !h.Known:
		c.add("hub", warning, h.Problem,
			"Name the Lease with --hub-namespace and --hub-lease, and look whether you may read it.")
	case !h.Working:
		c.add("hub", failed, fmt.Sprintf("the last heartbeat of %s was %s ago", h.Leader, c.env.Age(*h.Renewed)),
			"Look at the hub's pods and their log: kubectl -n "+c.hub.Namespace+" get pods")
	default:
		c.add("hub", passed, h.Leader+" leads", "")
	}
	return nil
}

// right is what commands need in the source cluster.
type right struct {
	group, resource string
	verbs           []string
	// needed is true if nearly no command works without it.
	needed bool
	// commands are those that need it.
	commands string
}

var rights = []right{
	{hubv1alpha1.GroupVersion.Group, "targetclusters", []string{"get", "list"}, true, "every command"},
	{resourcesv1alpha1.GroupVersion.Group, "managedresources", []string{"get", "list"}, true, "every command"},
	{resourcesv1alpha1.GroupVersion.Group, "managedresources", []string{"patch"}, false,
		"reconcile, suspend, resume, pack --apply"},
	{"", "events", []string{"list"}, false, "events, why"},
	{"", "secrets", []string{"get"}, false, "status, tree, diff, unpack, kubeconfig, kubectl"},
	{"", "secrets", []string{"create", "patch", "delete"}, false, "cluster add, rotate and remove, pack --apply"},
}

// rights asks the source cluster what the user may do there.
func (c *checker) rights(ctx context.Context, source *cli.Source) error {
	namespace := c.selection.Namespace(source)
	where := "namespace " + namespace
	if c.selection.All {
		where = "all namespaces"
	}
	for _, r := range rights {
		var missing []string
		for _, verb := range r.verbs {
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb,
					Group:    r.group,
					Resource: r.resource},
			}}
			if err := source.Create(ctx, review); err != nil {
				return fmt.Errorf("asking the source cluster for rights: %w", err)
			}
			if !review.Status.Allowed {
				missing = append(missing, verb)
			}
		}
		name := fmt.Sprintf("right to %s %s in %s", strings.Join(r.verbs, ", "), r.resource, where)
		switch {
		case len(missing) == 0:
			c.add(name, passed, "", "")
		case r.needed:
			c.add(name, failed, "you may not "+strings.Join(missing, ", "),
				"Have the right granted to you: "+r.commands+" needs it.")
		default:
			c.add(name, warning, "you may not "+strings.Join(missing, ", "), "Needed for: "+r.commands+".")
		}
	}
	return nil
}

// registrations finds the kubeconfig Secrets that the selector of the hub leaves out.
func (c *checker) registrations(ctx context.Context, source *cli.Source) error {
	if c.heartbeat.RegistrationSelector == "" {
		return nil
	}
	message := fmt.Sprintf("the hub uses only Secrets whose labels match %q", c.heartbeat.RegistrationSelector)
	keys, err := source.Keys(ctx, corev1.SchemeGroupVersion.WithKind("Secret"),
		func(s *metav1.PartialObjectMetadata) bool {
			return s.Name == remote.SecretName(s.Labels[hubv1alpha1.ClusterNameLabel]) && !c.heartbeat.Registers(s.Labels)
		}, client.InNamespace(c.selection.Namespace(source)), client.HasLabels{hubv1alpha1.ClusterNameLabel})
	switch {
	case cli.ExitCode(err) == cli.ExitRefused: // without the right to list Secrets, they are not counted
	case err != nil:
		return fmt.Errorf("listing registrations: %w", err)
	default:
		message += fmt.Sprintf("; %s left out", cli.Count(len(keys), "kubeconfig Secret"))
	}
	c.leftOut = keys
	c.add("registrations", passed, message, "")
	return nil
}

// reach connects to the clusters.
func (c *checker) reach(ctx context.Context, source *cli.Source, scope listing.Scope) error {
	clusters, err := listing.Clusters(ctx, source, scope)
	if cli.ExitCode(err) == cli.ExitRefused || meta.IsNoMatchError(err) {
		return nil // reported by definitions or rights
	}
	if err != nil {
		return err
	}
	policy, err := c.remote.Policy()
	if err != nil {
		return err
	}
	clusters = slices.DeleteFunc(clusters, func(tc hubv1alpha1.TargetCluster) bool { // these need not answer
		secret := client.ObjectKey{Namespace: tc.Namespace, Name: remote.SecretName(tc.Name)}
		return slices.Contains(c.leftOut, secret) ||
			tc.Spec.Paused || resourcesv1alpha1.IsTruthy(tc.Annotations[hubv1alpha1.HibernatedAnnotation])
	})
	errs := make([]error, len(clusters))
	work := errgroup.Group{}
	work.SetLimit(parallel)
	for i := range clusters {
		work.Go(func() error {
			_, errs[i] = remote.Open(ctx, source, &remote.Found{Cluster: &clusters[i]}, c.remote.ConnectTimeout, policy)
			return nil
		})
	}
	_ = work.Wait() // what failed is in errs
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	answered := 0
	for i, err := range errs {
		if err == nil {
			answered++
			continue
		}
		tc := &clusters[i]
		c.add("cluster "+tc.Namespace+"/"+tc.Name, failed, err.Error(),
			fmt.Sprintf("trellisctl why cluster %s/%s", tc.Namespace, tc.Name))
	}
	if len(clusters) == 0 || answered > 0 {
		c.add("clusters", passed, fmt.Sprintf("%d of %d answer", answered, len(clusters)), "")
	}
	return nil
}

func (c *checker) print() error {
	bad := slices.ContainsFunc(c.results, func(r Result) bool { return r.Outcome == failed })
	switch {
	case c.output.Structured():
		if err := c.output.Encode(c.env.Out, map[string]any{"checks": c.results}); err != nil {
			return err
		}
	case c.output.Format == cli.FormatName:
		for _, r := range c.results {
			if r.Outcome == failed {
				fmt.Fprintln(c.env.Out, cli.Text(r.Check))
			}
		}
	default:
		c.text()
	}
	if bad {
		return cli.Found()
	}
	return nil
}

func (c *checker) text() {
	style := c.env.Style(c.env.Out)
	for _, r := range c.results {
		word := fmt.Sprintf("%-8s", r.Outcome)
		switch r.Outcome {
		case passed:
			word = style.Good(word)
		case failed:
			word = style.Bad(word)
		default:
			word = style.Warn(word)
		}
		text := r.Check
		if r.Message != "" {
			text += ": " + r.Message
		}
		fmt.Fprintln(c.env.Out, word+cli.FirstLine(text))
		if r.Unblock != "" {
			fmt.Fprintln(c.env.Out, "        "+style.Faint(cli.FirstLine(r.Unblock)))
		}
	}
}
