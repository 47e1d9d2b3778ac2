package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

// Formats of Output. The empty one is text for users.
const (
	FormatPeople = ""
	FormatWide   = "wide"
	FormatJSON   = "json"
	FormatYAML   = "yaml"
	FormatName   = "name"
)

// Output is the flag -o of a command. The zero value prints text for users.
type Output struct {
	Format string
	// NoHeaders leaves out the headers of tables.
	NoHeaders bool
	// Qualified has names printed with their namespaces, as kind/namespace/name. Every command takes such names.
	Qualified bool
	// Spaced puts an empty line between the texts about several subjects.
	Spaced bool

	allowed []string
	// together collects what is encoded about several subjects; nil if there is one.
	together *[]any
}

// Together runs what encodes a value for each of several subjects, and writes one list of them, as kubectl does.
func (o *Output) Together(w io.Writer, run func() error) error {
	if !o.Structured() {
		return run()
	}
	items := []any{}
	o.together = &items
	failed := run()
	o.together = nil
	if err := o.Encode(w, map[string]any{"apiVersion": "v1", "kind": "List", "items": items}); err != nil {
		return err
	}
	return failed
}

// Name is the name of an object for -o name.
func (o *Output) Name(scheme *runtime.Scheme, obj client.Object) string {
	name := Name(scheme, obj)
	if kind, rest, found := strings.Cut(name, "/"); found && o.Qualified && obj.GetNamespace() != "" {
		return kind + "/" + obj.GetNamespace() + "/" + rest
	}
	return name
}

// AddFlags adds the flag -o with the formats that a command has besides text.
func (o *Output) AddFlags(cmd *cobra.Command, formats ...string) {
	o.allowed = formats
	cmd.Flags().StringVarP(&o.Format, "output", "o", "", "Output format. One of: ("+strings.Join(formats, ", ")+").")
	must(cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)))
}

// AddHeadersFlag adds the flag --no-headers, of commands that print a table.
func (o *Output) AddHeadersFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.NoHeaders, "no-headers", false, "When printing a table, don't print headers.")
}

func must(err error) {
	if err != nil {
		panic(err) // of flags, which are compiled in
	}
}

// Validate returns an error for a format that the command does not have.
func (o *Output) Validate() error {
	if o.Format != FormatPeople && !slices.Contains(o.allowed, o.Format) {
		return Usage("--output %q: must be one of %s", o.Format, strings.Join(o.allowed, ", "))
	}
	return nil
}

// Structured reports whether the output is for programs.
func (o *Output) Structured() bool { return o.Format == FormatJSON || o.Format == FormatYAML }

// Encode writes a value as JSON or YAML.
func (o *Output) Encode(w io.Writer, value any) error {
	if o.together != nil {
		*o.together = append(*o.together, value)
		return nil
	}
	if o.Format == FormatYAML {
		raw, err := yaml.Marshal(value)
		if err != nil {
			return fmt.Errorf("encoding the output: %w", err)
		}
		_, err = w.Write(raw)
		return err
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "    ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// Table writes a table. Columns with a priority are for -o wide.
func (o *Output) Table(w io.Writer, table *metav1.Table) error {
	out := printers.GetNewTabWriter(w)
	if err := printers.NewTablePrinter(
		printers.PrintOptions{Wide: o.Format == FormatWide, NoHeaders: o.NoHeaders}).PrintObj(table, out); err != nil {
		return fmt.Errorf("printing a table: %w", err)
	}
	return out.Flush()
}

// Columns makes the columns of a table from their names. Those in parentheses are for -o wide.
func Columns(names ...string) []metav1.TableColumnDefinition {
	columns := make([]metav1.TableColumnDefinition, 0, len(names))
	for _, name := range names {
		column := metav1.TableColumnDefinition{Name: strings.Trim(name, "()"), Type: "string"}
		if strings.HasPrefix(name, "(") {
			column.Priority = 1
		}
		columns = append(columns, column)
	}
	return columns
}

// Row makes a row of a table.
func Row(cells ...any) metav1.TableRow { return metav1.TableRow{Cells: cells} }

// Typed sets the kind of an object that a client has read, which clients omit, and removes its managed fields.
func Typed[T client.Object](scheme *runtime.Scheme, obj T) T {
	if gvk, err := apiutil.GVKForObject(obj, scheme); err == nil {
		obj.GetObjectKind().SetGroupVersionKind(gvk)
	}
	obj.SetManagedFields(nil)
	return obj
}

// ObjectOf is a ManagedResource or a TargetCluster of which only the name is known.
func ObjectOf(kind Kind, namespace, name string) client.Object {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	if kind == KindCluster {
		return &hubv1alpha1.TargetCluster{ObjectMeta: meta}
	}
	return &resourcesv1alpha1.ManagedResource{ObjectMeta: meta}
}

// Name is the name of an object for -o name.
func Name(scheme *runtime.Scheme, obj client.Object) string {
	gvk, err := apiutil.GVKForObject(obj, scheme)
	if err != nil {
		return obj.GetName()
	}
	kind := strings.ToLower(gvk.Kind)
	if gvk.Group != "" {
		kind += "." + gvk.Group
	}
	return kind + "/" + obj.GetName()
}

// Aligned writes rows with their columns below each other. paint colours a cell after its width was taken; nil paints
// nothing.
func Aligned(w io.Writer, rows [][]string, paint func(row, column int, text string) string) {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for r, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			shown := cell
			if paint != nil {
				shown = paint(r, i, cell)
			}
			line.WriteString(shown)
			if i < len(row)-1 {
				line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+3))
			}
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}
