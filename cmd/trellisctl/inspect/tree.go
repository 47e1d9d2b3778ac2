package inspect

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
)

// NewTree returns the command tree.
func NewTree(env *cli.Env) *cobra.Command {
	i := &inspection{env: env, children: true}
	t := &tree{inspection: i}
	i.print = t.print
	return i.command("tree", "Show a ManagedResource as a tree, down to the pods", `
Show a ManagedResource as a tree: its Secrets, its objects by namespace, and below workloads their ReplicaSets, Jobs and
Pods, each with its present state in the target. -o wide also shows the warning events about it.

The exit code is 3 if anything is wrong, and 6 if the target does not answer. Then only what the hub knows is
shown.`[1:],
		`  trellisctl -n shoot--foo--a tree mr addons`, cli.FormatJSON, cli.FormatYAML, cli.FormatWide, cli.FormatName)
}

type tree struct{ *inspection }

// branch is a line of the tree with what is below it.
type branch struct {
	text     string
	branches []branch
}

func (t *tree) print(r *Report) error {
	t.header(r)
	style := t.env.Style(t.env.Out)
	var top []branch
	for _, s := range r.Secrets {
		top = append(top, branch{text: "Secret " + r.Namespace + "/" + s + style.Faint(" (content)")})
	}
	for _, namespace := range namespaces(r.Objects) {
		group := branch{text: style.Strong("cluster-scoped")}
		if namespace != "" {
			group.text = style.Strong("namespace " + cli.Text(namespace))
		}
		for i := range r.Objects {
			if r.Objects[i].Namespace == namespace {
				group.branches = append(group.branches, t.branch(&r.Objects[i], style))
			}
		}
		top = append(top, group)
	}
	write(t.env.Out, top, "")
	return nil
}

// namespaces are those of objects, that of cluster-scoped ones first.
func namespaces(objects []Object) []string {
	var names []string
	for i := range objects {
		if !slices.Contains(names, objects[i].Namespace) {
			names = append(names, objects[i].Namespace)
		}
	}
	slices.Sort(names)
	return names
}

func (t *tree) branch(o *Object, style cli.Style) branch {
	key := o.Key()
	text := fmt.Sprintf("%s %s  %s", key.GroupKind(), cli.Text(o.Name), o.Health.paint(style, string(o.Health)))
	if o.Created != nil {
		text += style.Faint("  " + t.age(o))
	}
	if message := o.text(); message != "" {
		text += "  " + cli.FirstLine(message)
	}
	b := branch{text: text}
	if t.output.Format == cli.FormatWide {
		for _, note := range o.Notes {
			b.branches = append(b.branches, branch{text: style.Faint(cli.FirstLine(note))})
		}
	}
	for i := range o.Children {
		b.branches = append(b.branches, t.branch(&o.Children[i], style))
	}
	return b
}

func write(w io.Writer, branches []branch, indent string) {
	for i, b := range branches {
		here, below := "├─ ", "│  "
		if i == len(branches)-1 {
			here, below = "└─ ", "   "
		}
		fmt.Fprintln(w, indent+here+b.text)
		write(w, b.branches, indent+below)
	}
}
