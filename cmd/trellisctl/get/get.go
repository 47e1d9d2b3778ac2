package get

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/cli-runtime/pkg/printers"
	kubectlget "k8s.io/kubectl/pkg/cmd/get"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/cmd/trellisctl/listing"
)

// formats are those of kubectl get.
var formats = []string{cli.FormatJSON, cli.FormatYAML, cli.FormatWide, cli.FormatName, "jsonpath", "jsonpath-as-json",
	"jsonpath-file", "go-template", "go-template-file", "custom-columns", "custom-columns-file"}

// none stands in tables for values that are not known.
const none = "-"

// get is the command.
type get struct {
	env       *cli.Env
	print     *kubectlget.PrintFlags
	selection cli.Selection
	sortBy    string
	bad       bool
	watch     bool

	kind cli.Kind
}

// New returns the command get.
func New(env *cli.Env) *cobra.Command {
	g := &get{env: env, print: kubectlget.NewGetPrintFlags()}
	command := &cobra.Command{
		Use:   "get (mr|cluster) [NAME...] [flags]",
		Short: "List ManagedResources or clusters, the worst first",
		Long: `List ManagedResources or clusters with Ready and its reason, the worst first. -o, --sort-by, -l and
--watch are as for kubectl get, and -o wide also has the message.`,
		Example: `  # All ManagedResources of the fleet that are not ready
  trellisctl get mr -A --not-ready

  # Clusters by their age
  trellisctl get cluster -A --sort-by .metadata.creationTimestamp

  # In pipes
  trellisctl get mr -A --not-ready -o name | xargs trellisctl why
  trellisctl get cluster -A -o custom-columns=NAME:.metadata.name,VERSION:.status.kubernetesVersion`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usage("what to list has to be given: mr or cluster")
			}
			_, err := kindOf(args)
			return err
		},
		ValidArgsFunction: env.CompleteSubject(cli.KindManagedResource, cli.KindCluster),
		RunE:              func(cmd *cobra.Command, args []string) error { return g.run(cmd.Context(), args) },
	}
	g.print.JSONYamlPrintFlags.AddFlags(command)
	g.print.TemplateFlags.AddFlags(command)
	command.Flags().StringVarP(g.print.OutputFormat, "output", "o", "",
		"Output format. One of: ("+strings.Join(formats, ", ")+").")
	command.Flags().BoolVar(g.print.NoHeaders, "no-headers", false,
		"When printing a table or custom columns, don't print headers.")
	cli.CompleteWords(command, "output", formats...)
	command.Flags().StringVar(&g.sortBy, "sort-by", "",
		"Sort by a field, given as a JSONPath expression such as .metadata.name.")
	command.Flags().BoolVar(&g.bad, "not-ready", false, "List only those that are not ready.")
	command.Flags().BoolVarP(&g.watch, "watch", "w", false, "After the list, print what changes.")
	g.selection.AddFlags(command)
	return command
}

// kindOf reads the kind of the arguments.
func kindOf(args []string) (cli.Kind, error) {
	return cli.KindOf(args, cli.KindManagedResource, cli.KindCluster)
}

func (g *get) run(ctx context.Context, args []string) error {
	format := *g.print.OutputFormat
	if name, _, _ := strings.Cut(format, "="); format != "" && !slices.Contains(formats, name) {
		return cli.Usage("--output %q: must be one of %s", format, strings.Join(formats, ", "))
	}
	selector, err := g.selection.Labels()
	if err != nil {
		return err
	}
	if g.kind, err = kindOf(args); err != nil {
		return err
	}
	source, err := g.env.Source()
	if err != nil {
		return err
	}
	var named []cli.Subject
	if len(args) > 1 || strings.Contains(args[0], "/") {
		if named, err = g.selection.Subjects(ctx, source, args, g.kind); err != nil {
			return err
		}
	}
	scope := listing.Scope{Namespace: g.selection.Namespace(source), Selector: selector}
	if !g.watch {
		return g.list(ctx, source, scope, named)
	}
	// From before the list, so that nothing is missed in between.
	version, err := g.version(ctx, source, scope)
	if err != nil {
		return err
	}
	if err := g.list(ctx, source, scope, named); err != nil {
		return err
	}
	return g.follow(ctx, source, scope, named, version)
}

// whole reports whether whole objects are needed.
func (g *get) whole() bool {
	return g.sortBy != "" || !slices.Contains([]string{"", cli.FormatWide, cli.FormatName}, *g.print.OutputFormat)
}

// list prints what there is.
func (g *get) list(ctx context.Context, source *cli.Source, scope listing.Scope, named []cli.Subject) error {
	if g.kind == cli.KindManagedResource && !g.whole() && named == nil {
		entries, err := listing.ManagedResources(ctx, source, scope, g.env.Clock.Now())
		if err != nil {
			return err
		}
		if g.bad {
			entries = slices.DeleteFunc(entries, func(e listing.Entry) bool { return e.Ready == "True" })
		}
		return g.entries(source, entries)
	}
	objects, err := g.objects(ctx, source, scope, named)
	if err != nil {
		return err
	}
	return g.printed(source, objects, named, len(named) == 1 && len(objects) == 1)
}

// objects reads whole objects, the worst first.
func (g *get) objects(ctx context.Context, source *cli.Source, scope listing.Scope, named []cli.Subject) (
	[]client.Object, error) {
	var all []client.Object
	take := func(obj client.Object) {
		if !g.bad || !isReady(obj) {
			all = append(all, cli.Typed(source.Scheme(), obj))
		}
	}
	switch {
	case named != nil:
		for _, subject := range named {
			obj, err := read(ctx, source, subject)
			if err != nil {
				return nil, err
			}
			take(obj)
		}
		return all, nil
	case g.kind == cli.KindCluster:
		clusters, err := listing.Clusters(ctx, source, scope)
		if err != nil {
			return nil, err
		}
		for i := range clusters {
			take(&clusters[i])
		}
	default:
		if err := listing.WholeManagedResources(ctx, source, scope, func(mr *resourcesv1alpha1.ManagedResource) {
			take(mr)
		}, func() { all = nil }); err != nil {
			return nil, fmt.Errorf("listing ManagedResources: %w", err)
		}
	}
	slices.SortStableFunc(all, func(a, b client.Object) int { return severity(a) - severity(b) })
	return all, g.sort(all)
}

// sort sorts by the field of --sort-by.
func (g *get) sort(all []client.Object) error {
	if g.sortBy == "" || len(all) == 0 {
		return nil
	}
	objects := make([]runtime.Object, len(all))
	for i := range all {
		content, err := toUnstructured(all[i])
		if err != nil {
			return err
		}
		objects[i] = content
	}
	sorter, err := kubectlget.SortObjects(decoder, objects, g.sortBy)
	if err != nil {
		return cli.Usage("--sort-by: %w", err)
	}
	before := slices.Clone(all)
	for i := range all {
		all[i] = before[sorter.OriginalPosition(i)]
	}
	return nil
}

// decoder is needed by kubectl for objects that are not decoded yet, which those here are.
var decoder = serializer.NewCodecFactory(cli.Scheme()).UniversalDecoder(hubv1alpha1.GroupVersion,
	resourcesv1alpha1.GroupVersion)

// printed prints whole objects: as a list, unless there is one that stands alone.
func (g *get) printed(source *cli.Source, objects []client.Object, named []cli.Subject, alone bool) error {
	switch format := *g.print.OutputFormat; format {
	case "", cli.FormatWide:
		if g.kind == cli.KindManagedResource {
			var entries []listing.Entry
			for _, obj := range objects {
				if mr, is := obj.(*resourcesv1alpha1.ManagedResource); is {
					entries = append(entries, listing.Of(mr, g.env.Clock.Now()))
				}
			}
			return g.entries(source, entries)
		}
		return g.clusters(source, objects)
	case cli.FormatName:
		output := cli.Output{Qualified: g.selection.Qualifies(named)}
		for _, obj := range objects {
			fmt.Fprintln(g.env.Out, output.Name(source.Scheme(), obj))
		}
		return nil
	}
	printer, err := g.print.ToPrinter()
	if err != nil {
		return cli.Usage("--output: %w", err)
	}
	if alone {
		return g.object(printer, objects[0])
	}
	list := &unstructured.UnstructuredList{Object: map[string]any{
		"apiVersion": "v1", "kind": "List", "metadata": map[string]any{"resourceVersion": ""}}}
	for _, obj := range objects {
		content, err := toUnstructured(obj)
		if err != nil {
			return err
		}
		list.Items = append(list.Items, *content)
	}
	if err := printer.PrintObj(list, g.env.Out); err != nil {
		return cli.Usage("--output: %w", err)
	}
	return nil
}

func (g *get) object(printer printers.ResourcePrinter, obj client.Object) error {
	content, err := toUnstructured(obj)
	if err != nil {
		return err
	}
	if err := printer.PrintObj(content, g.env.Out); err != nil {
		return cli.Usage("--output: %w", err)
	}
	return nil
}

// output are the flags of tables.
func (g *get) output() *cli.Output {
	return &cli.Output{Format: *g.print.OutputFormat, NoHeaders: *g.print.NoHeaders}
}

// entries prints a table of ManagedResources.
func (g *get) entries(source *cli.Source, entries []listing.Entry) error {
	if *g.print.OutputFormat == cli.FormatName {
		output := cli.Output{Qualified: g.selection.All}
		for i := range entries {
			fmt.Fprintln(g.env.Out, output.Name(source.Scheme(), &resourcesv1alpha1.ManagedResource{
				ObjectMeta: metav1.ObjectMeta{Namespace: entries[i].Namespace, Name: entries[i].Name}}))
		}
		return nil
	}
	if len(entries) == 0 {
		g.noneFound(source, "ManagedResources")
		return nil
	}
	table := &metav1.Table{ColumnDefinitions: g.columns("Name", "Class", "Ready", "Reason", "For", "Applied", "Healthy",
		"Progressing", "Age", "(Message)")}
	for i := range entries {
		e := &entries[i]
		table.Rows = append(table.Rows, g.row(e.Namespace, e.Name, cmp.Or(e.Class, none), cmp.Or(e.Ready, none),
			cmp.Or(e.Cause(), e.Reason, none), cmp.Or(e.Since, none), cmp.Or(e.Applied, none), cmp.Or(e.Healthy, none),
			cmp.Or(e.Progressing, none), g.env.Age(e.Created), cli.FirstLine(e.Message)))
	}
	return g.output().Table(g.env.Out, table)
}

// clusters prints a table of clusters.
func (g *get) clusters(source *cli.Source, objects []client.Object) error {
	if len(objects) == 0 {
		g.noneFound(source, "clusters")
		return nil
	}
	table := &metav1.Table{ColumnDefinitions: g.columns("Name", "Ready", "Reason", "For", "Status", "Version", "Nodes",
		"MRs", "MRs Ready", "Drift", "Age", "(Region)", "(Message)")}
	for _, obj := range objects {
		tc, is := obj.(*hubv1alpha1.TargetCluster)
		if !is {
			continue
		}
		ready := meta.FindStatusCondition(tc.Status.Conditions, hubv1alpha1.ConditionReady)
		if ready == nil {
			ready = &metav1.Condition{Status: metav1.ConditionUnknown, Reason: listing.ReasonNotSeen,
				Message: "No hub has looked at it yet."}
		}
		since := none
		if !ready.LastTransitionTime.IsZero() {
			since = g.env.Age(ready.LastTransitionTime.Time)
		}
		nodes, mrs, mrsReady := none, none, none
		if n := tc.Status.NodeCounts; n != nil {
			nodes = fmt.Sprint(n.Total)
		}
		if n := tc.Status.ManagedResources; n != nil {
			mrs, mrsReady = fmt.Sprint(n.Total), fmt.Sprint(n.Ready)
		}
		table.Rows = append(table.Rows, g.row(tc.Namespace, tc.Name, string(ready.Status), ready.Reason, since,
			cmp.Or(tc.Labels[hubv1alpha1.StatusLabel], none), cmp.Or(tc.Status.KubernetesVersion, none), nodes, mrs,
			mrsReady, fmt.Sprint(tc.Status.DriftLastHour), g.env.Age(tc.CreationTimestamp.Time),
			cmp.Or(tc.Status.Region, none), cli.FirstLine(ready.Message)))
	}
	return g.output().Table(g.env.Out, table)
}

// columns are those of a table, with the namespace where there may be several.
func (g *get) columns(names ...string) []metav1.TableColumnDefinition {
	if g.selection.All {
		names = append([]string{"Namespace"}, names...)
	}
	return cli.Columns(names...)
}

func (g *get) row(namespace string, cells ...any) metav1.TableRow {
	if g.selection.All {
		cells = append([]any{namespace}, cells...)
	}
	for i := range cells {
		if text, is := cells[i].(string); is {
			cells[i] = cli.Text(text)
		}
	}
	return cli.Row(cells...)
}

func (g *get) noneFound(source *cli.Source, what string) {
	if g.bad {
		what += " that are not ready"
	}
	g.selection.None(g.env, source, what)
}

// read reads an object that was named.
func read(ctx context.Context, source *cli.Source, subject cli.Subject) (client.Object, error) {
	source = source.For(subject)
	if subject.Kind == cli.KindCluster {
		return source.TargetCluster(ctx, subject.Name)
	}
	return source.ManagedResource(ctx, subject.Name)
}

// isReady reports whether the condition Ready of an object is True.
func isReady(obj client.Object) bool {
	status, _ := conditionOf(obj, "Ready")
	return status == "True"
}

// severity is the order of objects: those that are not ready, those of which that is unknown, the others.
func severity(obj client.Object) int {
	switch status, _ := conditionOf(obj, "Ready"); status {
	case "False":
		return 0
	case "True":
		return 2
	}
	return 1
}

// conditionOf is the status and the reason of a condition; empty if there is none.
func conditionOf(obj client.Object, conditionType string) (status, reason string) {
	switch o := obj.(type) {
	case *hubv1alpha1.TargetCluster:
		if c := meta.FindStatusCondition(o.Status.Conditions, conditionType); c != nil {
			return string(c.Status), c.Reason
		}
	case *resourcesv1alpha1.ManagedResource:
		t := resourcesv1alpha1.ConditionType(conditionType)
		if c := resourcesv1alpha1.GetCondition(o.Status.Conditions, t); c != nil {
			return string(c.Status), c.Reason
		}
	}
	return "", ""
}
