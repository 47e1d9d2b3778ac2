package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/duration"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/cmd/trellisctl/listing"
	"github.com/trellis-hub/trellis/version"
)

const (
	// worst is how many objects are named as the worst.
	worst = 10
	// most is how many clusters with the most drift, and how many reasons and versions, are named.
	most = 5
)

// Overview is the result of status without arguments, as printed by -o json.
type Overview struct {
	Hub    cli.Heartbeat `json:"hub"`
	Client string        `json:"clientVersion"`
	// Clusters counts TargetClusters by their state, which is the worst of their conditions.
	Clusters Count `json:"clusters"`
	// ClusterReasons counts those that the hub cannot work in by the reason of Ready.
	ClusterReasons map[string]int `json:"clusterReasons,omitempty"`
	// ManagedResources counts them by whether they are ready.
	ManagedResources Count `json:"managedResources"`
	// Reasons counts those that are not ready by their reason.
	Reasons map[string]int `json:"managedResourceReasons,omitempty"`
	// Conditions counts ManagedResources by condition and status.
	Conditions map[resourcesv1alpha1.ConditionType]map[string]int `json:"conditions,omitempty"`
	// Drift is how many objects were corrected in the last hour, DriftedClusters where, the most first.
	Drift           int64          `json:"driftLastHour"`
	DriftedClusters []ClusterDrift `json:"driftedClusters,omitempty"`
	// Versions counts clusters by their Kubernetes version.
	Versions map[string]int `json:"kubernetesVersions,omitempty"`
	// Worst are the objects in the worst state, with their cause.
	Worst []Item `json:"worst,omitempty"`
}

// Count is a number of objects, and how it is made up.
type Count struct {
	Total   int            `json:"total"`
	ByState map[string]int `json:"byState,omitempty"`
}

// ClusterDrift is how many objects of a cluster were corrected in the last hour.
type ClusterDrift struct {
	Cluster string `json:"cluster"`
	Objects int64  `json:"objects"`
}

// Item is an object with a problem.
type Item struct {
	Kind   string `json:"kind"`
	Object string `json:"object"`
	Reason string `json:"reason"`
	// For is for how long, as "10m"; empty if it is not known.
	For     string `json:"for,omitempty"`
	Message string `json:"message,omitempty"`
	// Waiting is how many ManagedResources wait for a cluster.
	Waiting int `json:"waitingManagedResources,omitempty"`
}

// States of ManagedResources.
const (
	stateReady     = "ready"
	stateNotReady  = "not ready"
	stateUnknown   = "unknown"
	stateSuspended = "suspended"
)

// Overview sums up a fleet.
func (f *Fleet) Overview() *Overview {
	o := &Overview{
		Hub: f.Hub, Client: version.Get().Version, ClusterReasons: map[string]int{}, Reasons: map[string]int{},
		Conditions: map[resourcesv1alpha1.ConditionType]map[string]int{}, Versions: map[string]int{},
		Clusters:         Count{Total: len(f.Clusters), ByState: map[string]int{}},
		ManagedResources: Count{Total: len(f.ManagedResources), ByState: map[string]int{}},
	}
	for i := range f.Clusters {
		o.cluster(&f.Clusters[i])
	}
	slices.SortStableFunc(o.DriftedClusters, func(a, b ClusterDrift) int { return cmp.Compare(b.Objects, a.Objects) })
	waiting := map[int]int{}
	for i := range f.ManagedResources {
		e := &f.ManagedResources[i]
		o.managedResource(e)
		if at := f.clusterOf(e); at >= 0 && !usable(&f.Clusters[at]) {
			waiting[at]++
		}
	}
	o.Worst = f.worst(waiting)
	return o
}

func (o *Overview) cluster(tc *hubv1alpha1.TargetCluster) {
	o.Clusters.ByState[cmp.Or(tc.Labels[hubv1alpha1.StatusLabel], hubv1alpha1.StatusUnknown)]++
	if !usable(tc) {
		reason := listing.ReasonNotSeen
		if ready := meta.FindStatusCondition(tc.Status.Conditions, hubv1alpha1.ConditionReady); ready != nil {
			reason = ready.Reason
		}
		o.ClusterReasons[reason]++
	}
	if v := tc.Status.KubernetesVersion; v != "" {
		o.Versions[v]++
	}
	if drift := tc.Status.DriftLastHour; drift > 0 {
		o.Drift += drift
		o.DriftedClusters = append(o.DriftedClusters, ClusterDrift{tc.Namespace + "/" + tc.Name, drift})
	}
}

func (o *Overview) managedResource(e *listing.Entry) {
	state := stateUnknown
	switch {
	case e.Suspended && !e.Deleting:
		state = stateSuspended
	case e.Ready == "True":
		state = stateReady
	case e.Ready == "False":
		state = stateNotReady
	}
	o.ManagedResources.ByState[state]++
	if cause := e.Cause(); cause != "" && state != stateSuspended {
		o.Reasons[cause]++
	}
	for conditionType, status := range map[resourcesv1alpha1.ConditionType]string{
		resourcesv1alpha1.ConditionReady:                e.Ready,
		resourcesv1alpha1.ConditionResourcesApplied:     e.Applied,
		resourcesv1alpha1.ConditionResourcesHealthy:     e.Healthy,
		resourcesv1alpha1.ConditionResourcesProgressing: e.Progressing,
		resourcesv1alpha1.ConditionContested:            e.Contested,
	} {
		if status == "" && conditionType == resourcesv1alpha1.ConditionContested {
			status = "False" // it is absent until it happens
		}
		if o.Conditions[conditionType] == nil {
			o.Conditions[conditionType] = map[string]int{}
		}
		o.Conditions[conditionType][cmp.Or(status, "Unknown")]++
	}
}

// worst names the objects in the worst state: clusters, those first that most ManagedResources wait for, then
// ManagedResources of usable clusters. Each kind has half of the places, and those that the other leaves.
func (f *Fleet) worst(waiting map[int]int) []Item {
	var clusters, mrs []Item
	for i := range f.Clusters {
		tc := &f.Clusters[i]
		cause := f.causeOf(tc)
		if cause.Reason == "" || cause.Wished {
			continue
		}
		item := Item{Kind: kindCluster, Object: tc.Namespace + "/" + tc.Name, Reason: cause.Reason,
			Message: cause.Message,
			Waiting: waiting[i]}
		if cause.Since != nil {
			item.For = shortAge(cause.Since.Time, f.Now)
		}
		clusters = append(clusters, item)
	}
	slices.SortStableFunc(clusters, func(a, b Item) int { return cmp.Compare(b.Waiting, a.Waiting) })
	for i := range f.ManagedResources {
		e := &f.ManagedResources[i]
		at := f.clusterOf(e)
		if reason := e.Cause(); reason != "" && !e.Suspended && !inProgress(e) && (at < 0 || usable(&f.Clusters[at])) {
			mrs = append(mrs, Item{Kind: kindManagedResource, Object: e.Key(), Reason: reason, For: e.Since,
				Message: cmp.Or(e.Message, reasons[reason])})
		}
		if len(mrs) == worst { // they are sorted
			break
		}
	}
	clusters = clusters[:min(len(clusters), max(worst/2, worst-len(mrs)))]
	return append(clusters, mrs[:min(len(mrs), worst-len(clusters))]...)
}

func shortAge(since, now time.Time) string { return duration.HumanDuration(now.Sub(since)) }

// OverviewFlags are the flags that status has for the fleet. The zero value is ready for AddFlags.
type OverviewFlags struct {
	cli.HubFlags
	watch bool
}

// AddFlags adds the flags.
func (o *OverviewFlags) AddFlags(command *cobra.Command) {
	o.HubFlags.AddFlags(command)
	command.Flags().BoolVarP(&o.watch, "watch", "w", false, "Of the fleet: print it again when it has changed.")
}

// watchPause is the pause between two reads of --watch.
const watchPause = 5 * time.Second

// Overview prints the state of the fleet, and with --watch again when it has changed, until ctx ends. A user who may
// not list the whole fleet gets the part in the namespace.
func (o *OverviewFlags) Overview(ctx context.Context, env *cli.Env, output *cli.Output,
	selection *cli.Selection) error {
	if err := output.Validate(); err != nil {
		return err
	}
	selector, err := selection.Labels()
	if err != nil {
		return err
	}
	source, err := env.Source()
	if err != nil {
		return err
	}
	scope := listing.Scope{Selector: selector}
	last := ""
	for {
		f, err := read(ctx, env, source, scope, o.HubFlags)
		if apierrors.IsForbidden(err) && !selection.All && scope.Namespace == "" {
			env.Note("Only namespace %s is shown: you may not list clusters and ManagedResources of all namespaces.",
				source.Namespace)
			scope.Namespace = source.Namespace
			continue
		}
		if err != nil {
			return err
		}
		overview := f.Overview()
		if state := overview.state(); state != last {
			if last != "" && !output.Structured() {
				fmt.Fprintln(env.Out)
			}
			last = state
			if err := overview.write(env, output, f); err != nil {
				return err
			}
		}
		switch {
		case o.watch:
		case len(overview.Worst) > 0 || f.Hub.Known && !f.Hub.Working:
			return cli.Found()
		default:
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-env.Clock.After(watchPause):
		}
	}
}

// state is what is compared with the overview before: everything but ages.
func (o *Overview) state() string {
	plain := *o
	plain.Hub.Renewed = nil
	plain.Worst = slices.Clone(o.Worst)
	for i := range plain.Worst {
		plain.Worst[i].For = ""
	}
	raw, _ := json.Marshal(plain) // of strings and numbers
	return string(raw)
}

// write prints an overview in a format.
func (o *Overview) write(env *cli.Env, output *cli.Output, f *Fleet) error {
	output.Qualified = true
	switch {
	case output.Structured():
		return output.Encode(env.Out, o)
	case output.Format == cli.FormatName:
		for _, item := range o.Worst {
			fmt.Fprintln(env.Out, output.Name(cli.Scheme(), objectOf(item.Kind, item.Object)))
		}
		return nil
	}
	return o.print(env, output, f.Now)
}

// print prints an overview for people.
func (o *Overview) print(env *cli.Env, output *cli.Output, now time.Time) error {
	style := env.Style(env.Out)
	line := func(name, text string) { fmt.Fprintf(env.Out, "%-18s %s\n", name, cli.Text(text)) }
	line("Hub:", o.hub(now))
	line("Versions:", o.versions())
	line("Clusters:", counted(o.Clusters, hubv1alpha1.StatusHealthy, hubv1alpha1.StatusProgressing,
		hubv1alpha1.StatusUnknown, hubv1alpha1.StatusUnhealthy))
	if len(o.ClusterReasons) > 0 {
		line("", "the hub cannot work in "+total(o.ClusterReasons)+": "+top(o.ClusterReasons))
	}
	line("ManagedResources:", counted(o.ManagedResources, stateReady, stateNotReady, stateUnknown, stateSuspended))
	if len(o.Reasons) > 0 {
		line("", top(o.Reasons))
	}
	line("Drift:", o.drift())
	if o.ManagedResources.Total > 0 {
		fmt.Fprintln(env.Out)
		cli.Aligned(env.Out, o.conditions(), nil)
	}
	if len(o.Worst) == 0 {
		return nil
	}
	fmt.Fprintf(env.Out, "\n%s\n", style.Strong("The worst:"))
	rows := [][]string{{"OBJECT", "REASON", "FOR", "MESSAGE"}}
	if output.NoHeaders {
		rows = nil
	}
	for _, item := range o.Worst {
		message := cli.FirstLine(item.Message)
		if item.Waiting > 0 {
			message = fmt.Sprintf("(%s) %s", cli.Count(item.Waiting, "ManagedResource"), message)
		}
		if limit := 100; output.Format != cli.FormatWide && len([]rune(message)) > limit {
			message = string([]rune(message)[:limit]) + "..."
		}
		rows = append(rows, []string{
			map[string]string{kindCluster: "cluster/", kindManagedResource: "mr/"}[item.Kind] + cli.Text(item.Object),
			cli.Text(item.Reason), cmp.Or(item.For, "-"), message,
		})
	}
	cli.Aligned(env.Out, rows, func(row, column int, text string) string {
		if column == 1 && (row > 0 || output.NoHeaders) {
			return style.Bad(text)
		}
		return text
	})
	fmt.Fprintf(env.Out, "\n\"%s problems -A\" has all, by cause.\n", env.Command)
	return nil
}

func (o *Overview) hub(now time.Time) string {
	switch {
	case !o.Hub.Known:
		return "unknown: " + o.Hub.Problem
	case !o.Hub.Working:
		return fmt.Sprintf("does not work: the last heartbeat of %s was %s ago", o.Hub.Leader,
			shortAge(*o.Hub.Renewed, now))
	}
	text := o.Hub.Leader + " leads"
	if o.Hub.LeadsSince != nil {
		text += ", for " + shortAge(*o.Hub.LeadsSince, now)
	}
	return fmt.Sprintf("%s; heartbeat %s ago", text, shortAge(*o.Hub.Renewed, now))
}

func (o *Overview) versions() string {
	text := fmt.Sprintf("hub %s, trellisctl %s", cmp.Or(o.Hub.Version, "unknown"), o.Client)
	if len(o.Versions) > 0 {
		text += "; Kubernetes " + top(o.Versions)
	}
	return text
}

func (o *Overview) drift() string {
	if o.Drift == 0 {
		return "none in the last hour"
	}
	text := fmt.Sprintf("%s corrected in the last hour, in %s: ", cli.Count(int(o.Drift), "object"),
		cli.Count(len(o.DriftedClusters), "cluster"))
	for i, d := range o.DriftedClusters[:min(most, len(o.DriftedClusters))] {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%s (%d)", d.Cluster, d.Objects)
	}
	if more := len(o.DriftedClusters) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// conditions are the rows of the table of conditions.
func (o *Overview) conditions() [][]string {
	rows := [][]string{{"CONDITION", "TRUE", "FALSE", "PROGRESSING", "UNKNOWN"}}
	for _, t := range []resourcesv1alpha1.ConditionType{
		resourcesv1alpha1.ConditionReady, resourcesv1alpha1.ConditionResourcesApplied,
		resourcesv1alpha1.ConditionResourcesHealthy, resourcesv1alpha1.ConditionResourcesProgressing,
		resourcesv1alpha1.ConditionContested,
	} {
		c := o.Conditions[t]
		rows = append(rows, []string{string(t), fmt.Sprint(c["True"]), fmt.Sprint(c["False"]),
			fmt.Sprint(c["Progressing"]),
			fmt.Sprint(c["Unknown"])})
	}
	return rows
}

// counted is a count with its states in an order.
func counted(c Count, states ...string) string {
	text := fmt.Sprint(c.Total)
	separator := ": "
	for _, state := range states {
		if n := c.ByState[state]; n > 0 {
			text += fmt.Sprintf("%s%d %s", separator, n, state)
			separator = ", "
		}
	}
	return text
}

func total(counts map[string]int) string {
	n := 0
	for _, count := range counts {
		n += count
	}
	return fmt.Sprint(n)
}

// top names those with the highest counts.
func top(counts map[string]int) string {
	keys := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b))
	})
	var parts []string
	for _, key := range keys[:min(most, len(keys))] {
		parts = append(parts, fmt.Sprintf("%s (%d)", key, counts[key]))
	}
	text := strings.Join(parts, ", ")
	if more := len(keys) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
