package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
)

// Overview is what status prints if nothing is named.
type Overview interface {
	AddFlags(command *cobra.Command)
	Overview(ctx context.Context, env *cli.Env, output *cli.Output, selection *cli.Selection) error
}

// NewStatus returns the command status. Without arguments it prints the overview.
func NewStatus(env *cli.Env, overview Overview) *cobra.Command {
	i := &inspection{env: env}
	s := &status{inspection: i}
	i.print = s.print
	command := i.command("status", "Show the state of the fleet, or of ManagedResources and their objects",
		`Without arguments, show the state of the fleet: clusters by state, ManagedResources by condition, drift of the last
hour, the leader, versions, and the ten worst objects with their cause. It needs the right to list clusters and
ManagedResources of all namespaces; without it, the namespace is shown.

With "mr NAME", show the conditions of a ManagedResource, and the present state of each of its objects in the target, by
the rules of the hub. The worst come first. -o wide also shows the warning events that explain it.

The exit code is 3 if anything is wrong, and 6 if the target does not answer; then only what the hub knows is shown.`,
		`  # The fleet, and again whenever it changes
  trellisctl status
  trellisctl status --watch

  trellisctl -n shoot--foo--a status mr addons
  trellisctl status mr shoot--foo--a/addons shoot--foo--b/addons

  # In scripts
  trellisctl -n shoot--foo--a status mr addons -o json | jq '.objects[] | select(.health != "Healthy")'`,
		cli.FormatJSON, cli.FormatYAML, cli.FormatWide, cli.FormatName)
	i.output.AddHeadersFlag(command)
	command.Use = "status [mr NAME...] [flags]"
	overview.AddFlags(command)
	cli.WithoutArguments(command, func(ctx context.Context) error {
		return overview.Overview(ctx, env, &i.output, i.selection)
	})
	command.Flags().BoolVar(&s.bad, "not-healthy", false, "List only objects that are not healthy.")
	return command
}

type status struct {
	*inspection
	bad bool
}

func (s *status) print(r *Report) error {
	s.header(r)
	style := s.env.Style(s.env.Out)
	rows := [][]string{{"CONDITION", "STATUS", "REASON", "FOR", "MESSAGE"}}
	for _, c := range r.Conditions {
		rows = append(rows, []string{string(c.Type), string(c.Status), c.Reason, s.env.Age(c.LastTransitionTime.Time),
			cli.FirstLine(c.Message)})
	}
	if len(r.Conditions) > 0 {
		fmt.Fprintln(s.env.Out)
		cli.Aligned(s.env.Out, rows, func(row, column int, text string) string {
			if row == 0 || column != 1 {
				return text
			}
			return paintCondition(style, r.Conditions[row-1], text)
		})
	}
	s.objects(r, style)
	return nil
}

// paintCondition colours the status of a condition. False is good for ResourcesProgressing and Contested.
func paintCondition(style cli.Style, c resourcesv1alpha1.Condition, text string) string {
	good := resourcesv1alpha1.ConditionTrue
	if c.Type == resourcesv1alpha1.ConditionResourcesProgressing || c.Type == resourcesv1alpha1.ConditionContested {
		good = resourcesv1alpha1.ConditionFalse
	}
	switch {
	case c.Status == good:
		return style.Good(text)
	case c.Status == resourcesv1alpha1.ConditionFalse || c.Type == resourcesv1alpha1.ConditionContested:
		return style.Bad(text)
	}
	return style.Warn(text)
}

// order is the order of objects in the list.
var order = []Health{Missing, Unhealthy, Unknown, Progressing, Healthy}

func (s *status) objects(r *Report, style cli.Style) {
	listed := slices.Clone(r.Objects)
	if s.bad {
		listed = slices.DeleteFunc(listed, func(o Object) bool { return o.Health == Healthy })
	}
	slices.SortStableFunc(listed, func(a, b Object) int {
		return cmp.Compare(slices.Index(order, a.Health), slices.Index(order, b.Health))
	})
	if len(listed) == 0 {
		return
	}
	rows := [][]string{{"OBJECT", "HEALTH", "AGE", "MESSAGE"}}
	if s.output.NoHeaders {
		rows = nil
	}
	var healths []Health
	for i := range listed {
		o := &listed[i]
		if s.output.NoHeaders || i > 0 {
			healths = append(healths, o.Health)
		} else {
			healths = append(healths, "", o.Health)
		}
		rows = append(rows, []string{cli.Text(o.Key().String()), string(o.Health), s.age(o), cli.FirstLine(o.text())})
		if s.output.Format == cli.FormatWide {
			for _, note := range o.Notes {
				rows, healths = append(rows, []string{"", "", "", cli.FirstLine(note)}), append(healths, "")
			}
		}
	}
	fmt.Fprintln(s.env.Out)
	cli.Aligned(s.env.Out, rows, func(row, column int, text string) string {
		if column != 1 {
			return text
		}
		return healths[row].paint(style, text)
	})
}

// paint colours a text by a health; the empty one has no colour.
func (h Health) paint(style cli.Style, text string) string {
	switch h {
	case Healthy:
		return style.Good(text)
	case Missing, Unhealthy:
		return style.Bad(text)
	case Progressing, Unknown:
		return style.Warn(text)
	}
	return text
}

func (i *inspection) age(o *Object) string {
	if o.Created == nil {
		return "-"
	}
	return i.env.Age(*o.Created)
}

// text is the text about an object.
func (o *Object) text() string {
	if !o.Replaced {
		return o.Message
	}
	return strings.TrimSuffix("this is another object than the one that was applied; "+o.Message, "; ")
}

// header prints the ManagedResource and its state as a whole.
func (i *inspection) header(r *Report) {
	style := i.env.Style(i.env.Out)
	where := r.Target
	if where == "" {
		where = "unknown"
	}
	fmt.Fprintf(i.env.Out, "%s (class %s, target %s): %s\n", style.Strong("ManagedResource "+r.Namespace+"/"+r.Name),
		r.Class, where, r.count())
	if r.Suspended {
		fmt.Fprintln(i.env.Out, style.Warn("It is suspended: the hub does not reconcile it."))
	}
	if r.Deleting != nil {
		fmt.Fprintln(i.env.Out, style.Warn("It is being deleted, for "+i.env.Age(*r.Deleting)+"."))
	}
	if r.Generation != r.AppliedGeneration {
		fmt.Fprintln(i.env.Out, style.Warn(
			fmt.Sprintf("Its generation %d is not applied yet; the last one that was is %d.", r.Generation,
				r.AppliedGeneration)))
	}
}
