package fleet

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/trellis-hub/trellis/hack/fleetsim/journal"
	"github.com/trellis-hub/trellis/hack/perf/figures"
	"github.com/trellis-hub/trellis/hack/perf/rig"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// controllersStep is the name of the step, and of its flag.
const controllersStep = "controllers"

// switched is a controller that works in targets.
type switched struct {
	// name is that of the controller in metrics, and setting switches it on for a class.
	name, setting string
	// verb and resource are of what it asks for in a populated target, at least so often; zero: nothing once it is at
	// rest.
	verb, resource string
	least          int
	// absent is how many kinds it watches that targets here do not have.
	absent int
}

// switchedOn are the controllers, in the order in which they are switched on. One more controller is one more line.
var switchedOn = []switched{
	{name: "garbage-collector", setting: "garbageCollector: {enabled: true}"},
	{"token-requestor", "tokenRequestor: {enabled: true}", "create", "serviceaccounts/token", populatedAccesses, 0},
	{name: "csr-approver", setting: "csrApprover: {enabled: true}"},
	{"node-agent-reconciliation-delay", "nodeAgentReconciliationDelay: {enabled: true}", "patch", "nodes", populatedNodes,
		0},
	// The one before has left its watch: the nodes are watched once for both.
	{"node-critical-components", "nodeCriticalComponents: {enabled: true}", "patch", "nodes", waitingNodes, 0},
	// Targets here have no Istio, and thus neither VirtualServices nor Gateways.
	{"networkpolicy", "networkPolicy: {enabled: true}", "create", "networkpolicies.networking.k8s.io",
		2 * populatedServices, 2},
	{name: "token-invalidator", setting: "tokenInvalidator: {enabled: true}"},
	{name: "node-high-availability", setting: "nodeHighAvailability: {enabled: true}"},
	// Nor do they have DestinationRules and EnvoyFilters.
	{name: "istio-cluster-configuration", setting: "istioClusterConfiguration: {enabled: true}", absent: 2},
	{name: "stale-pods", setting: "stalePods: {enabled: true}", verb: "list", resource: "pods", least: 1},
	{name: "care", setting: "care: {enabled: true}", verb: "list", resource: webhookKinds[0], least: 1},
}

// polling is the time between two looks of the controllers that poll targets, by default.
const polling = time.Minute

// webhookKinds are the configurations of webhooks.
var webhookKinds = []string{
	"mutatingwebhookconfigurations.admissionregistration.k8s.io",
	"validatingwebhookconfigurations.admissionregistration.k8s.io",
}

// poll is a request of controllers that poll targets, and how often there is one in a look at most.
type poll struct {
	verb, resource string
	most           int
}

// polls are all of them but lists of pods, which are judged with those of the garbage collector.
var polls = []poll{
	{"list", webhookKinds[0], 1},
	{"list", webhookKinds[1], 1},
	{"list", "customresourcedefinitions.apiextensions.k8s.io", 1},
	{"get", "configmaps", 2},
}

// collecting is the time between two passes of the garbage collector by default.
const collecting = time.Hour

// controllersGoal is what all controllers may take in a target, in KiB.
const controllersGoal = 150

// held is what a hub at rest has.
type held struct {
	rig.Resources
	watches float64
}

// controllers switches on one controller after the other, and looks at what a target costs more with each. Then it
// looks at what is asked for while nothing happens.
func (r *run) controllers(ctx context.Context, step *figures.Step) error {
	defer func() { r.Class, r.absent = "", 0 }()
	// The hub writes down what it applied a moment later. One that is stopped before has its successor apply it again.
	if err := r.AwaitStill(ctx, r.options.Patience, noted); err != nil {
		return err
	}
	off, err := r.switchedTo(ctx, 0)
	if err != nil {
		return err
	}
	targets := float64(len(r.targets))
	perTarget := func(now, before int64) float64 { return float64(now-before) / 1024 / targets }
	last := off
	for i, c := range switchedOn {
		now, err := r.switchedTo(ctx, i+1)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		heap, watched := perTarget(now.Heap, last.Heap), (now.watches-last.watches)/targets
		step.Add(c.name+": live heap a target more", heap, "KiB")
		step.Add(c.name+": watches a target more", watched, "")
		if watched > 0 {
			step.Add(c.name+": live heap a watch", heap/watched, "KiB")
		}
		last = now
	}
	step.Add("all: live heap a target more", perTarget(last.Heap, off.Heap), "KiB").AtMost(controllersGoal)
	step.Add("all: RSS a target more", perTarget(last.RSS, off.RSS), "KiB").AtMost(controllersGoal)
	step.Add("all: anonymous memory a target more", perTarget(last.Anonymous, off.Anonymous), "KiB")
	step.Add("all: goroutines a target more", float64(last.Goroutines-off.Goroutines)/targets, "")
	step.Add("all: series a target more", float64(last.TargetSeries-off.TargetSeries)/targets, "")
	step.Add("RSS without them", mib(off.RSS), "MiB")
	step.Add("RSS with all", mib(last.RSS), "MiB")
	return r.restWithControllers(ctx, step)
}

// switchedTo starts the hub again with some of the controllers, waits until they have done what there is to do, and
// returns what the hub has then.
func (r *run) switchedTo(ctx context.Context, controllers int) (held, error) {
	r.Class, r.absent = "", 0
	for _, c := range switchedOn[:controllers] {
		r.absent += float64(c.absent * len(r.targets))
	}
	if controllers > 0 {
		var class strings.Builder
		class.WriteString("controllers:\n")
		for _, c := range switchedOn[:controllers] {
			class.WriteString("  " + c.setting + "\n")
		}
		r.Class = class.String()
	}
	r.Journal.Reset()
	if err := r.startAnew(ctx, r.options.Config); err != nil {
		return held{}, err
	}
	if controllers > 0 {
		if err := r.awaitDone(ctx, switchedOn[controllers-1]); err != nil {
			return held{}, err
		}
	}
	if err := r.awaitSilence(ctx); err != nil {
		return held{}, err
	}
	resources, err := r.Resources(ctx)
	if err != nil {
		return held{}, err
	}
	profiled := r.write(fmt.Sprintf("controllers-%d-heap.pprof", controllers), func() ([]byte, error) {
		return r.Hub.HeapProfile(ctx)
	})
	if err := profiled(); err != nil {
		return held{}, err
	}
	watched, err := r.sum(ctx, watches, map[string]string{"state": "synced"})
	return held{resources, watched}, err
}

// awaitDone waits until a controller works in all targets, and has done there what there is to do.
func (r *run) awaitDone(ctx context.Context, c switched) error {
	what := c.name + " has done what there is to do"
	return r.Until(ctx, r.options.Patience, r.scrapes(), what, func() (bool, error) {
		n, err := r.sum(ctx, "trellis_controller_targets", map[string]string{"controller": c.name})
		if err != nil || n < float64(len(r.targets)) {
			return false, err
		}
		done := byHub(r.Journal.Counts()).Where(func(count journal.Count) bool {
			return count.Verb == c.verb && count.Resource == c.resource && count.Code/100 == 2
		})
		return done.Sum().Requests >= int64(c.least*len(r.targets)), nil
	})
}

// silence is for how long nothing is written to targets when all is written.
const silence = 3 * time.Second

// awaitSilence waits until the hub has not written to targets for a while.
func (r *run) awaitSilence(ctx context.Context) error {
	writes, since := int64(-1), time.Now()
	return r.Until(ctx, r.options.Patience, time.Second, "nothing is written to targets", func() (bool, error) {
		if now := byHub(r.Journal.Counts()).Writes().Sum().Requests; now != writes {
			writes, since = now, time.Now()
		}
		return time.Since(since) > silence, nil
	})
}

// restWithControllers measures while nothing happens and all controllers are on.
func (r *run) restWithControllers(ctx context.Context, step *figures.Step) error {
	r.Journal.Reset()
	before, err := r.Source.Requests(ctx)
	if err != nil {
		return err
	}
	cpu, err := r.CPU()
	if err != nil {
		return err
	}
	if err := rig.Pause(ctx, r.options.Rest); err != nil {
		return err
	}
	later, err := r.CPU()
	if err != nil {
		return err
	}
	counts := byHub(r.Journal.Counts())
	after, err := r.Source.Requests(ctx)
	if err != nil {
		return err
	}
	for _, c := range counts {
		step.Count(fmt.Sprintf("target: %s %s %d", c.Verb, c.Resource, c.Code), c.Requests)
	}
	used := step.Add("hub CPU", later.Millicores(cpu), "m")
	if i := slices.IndexFunc(r.report.Steps, func(s *figures.Step) bool { return s.Name == "rest" }); i >= 0 {
		if f := r.report.Steps[i].Find("hub CPU"); f != nil {
			used.Beside(f.Value)
		}
	}
	judgeControllers(step, counts, len(r.targets), later.At.Sub(cpu.At))
	leases, writes, what := testbed.Writes(before, after)
	seconds := later.At.Sub(cpu.At).Seconds()
	step.Add("Lease writes to the source", float64(leases)/seconds, "/s").AtMost(1)
	step.Add("other writes to the source", float64(writes)/seconds, "/s")
	for request, n := range what {
		step.Count("source: "+request, n)
	}
	return nil
}

// collected are the kinds that a pass of the garbage collector lists.
var collected = []string{
	"secrets", "configmaps", "pods", "deployments.apps", "statefulsets.apps", "daemonsets.apps", "jobs.batch",
	"cronjobs.batch", "managedresources.resources.gardener.cloud", "prometheuses.monitoring.coreos.com",
}

// judgeControllers judges what a hub asks of populated targets for a time in which nothing happens. There are timers
// for passes of the garbage collector and looks at targets, and, after a start, for a first look at tokens that are
// not due.
func judgeControllers(step *figures.Step, counts journal.Counts, targets int, length time.Duration) {
	step.Add("writes to targets", float64(counts.Writes().Sum().Requests), "").Exactly(0).Strictly()
	tokens := func(c journal.Count) bool { return c.Verb == "create" && c.Resource == "serviceaccounts/token" }
	step.Add("tokens requested", float64(counts.Where(tokens).Sum().Requests), "").Exactly(0).Strictly()

	passes := float64(targets) * (1 + length.Hours()/collecting.Hours())
	periods := float64(targets) * (2 + float64(length/polling))
	for _, kind := range collected {
		listed := counts.Where(func(c journal.Count) bool { return c.Verb == "list" && c.Resource == kind })
		n, most := float64(listed.Sum().Requests), passes
		if kind == "pods" { // stale ones are looked for as well
			most += periods
		}
		step.Add("passes of the garbage collector: lists of "+kind, n, "").
			Holds(fmt.Sprintf("<= %.0f", most), n <= most).Strictly()
	}
	for _, poll := range polls {
		asked := counts.Where(func(c journal.Count) bool { return c.Verb == poll.verb && c.Resource == poll.resource })
		n, most := float64(asked.Sum().Requests), periods*float64(poll.most)
		step.Add("looks at targets: "+poll.verb+" "+poll.resource, n, "").
			Holds(fmt.Sprintf("<= %.0f", most), n <= most).Strictly()
	}
	// A pass asks which kinds there are, and once more for each that is not there. Kinds that targets may lack are looked
	// for once a minute, and a few times more in the first one.
	const perPass, inFirstMinute = 6, 3
	absent := 0
	for _, controller := range switchedOn {
		absent += controller.absent
	}
	n := float64(counts.Where(discovery).Sum().Requests)
	atMost := perPass*passes + float64(targets)*float64(absent)*(inFirstMinute+length.Minutes())
	step.Add("kinds that targets have: discovery", n, "").Holds(fmt.Sprintf("<= %.0f", atMost), n <= atMost).Strictly()

	most := float64(targets * populatedAccesses)
	n = float64(counts.Where(review).Sum().Requests)
	step.Add("first looks at tokens: reviews", n, "").Holds(fmt.Sprintf("<= %.0f", most), n <= most).Strictly()
	most = float64(targets * accessesElsewhere)
	n = float64(counts.Where(tokenElsewhere).Sum().Requests)
	step.Add("first looks at tokens: Secrets of targets", n, "").Holds(fmt.Sprintf("<= %.0f", most), n <= most).Strictly()

	others := counts.Where(func(c journal.Count) bool {
		pass := c.Verb == "list" && slices.Contains(collected, c.Resource)
		polled := slices.ContainsFunc(polls, func(p poll) bool { return c.Verb == p.verb && c.Resource == p.resource })
		return !probe(c) && !pass && !polled && !discovery(c) && !review(c) && !tokenElsewhere(c) && !tokens(c) &&
			c.Verb != "watch"
	})
	others = others.Where(func(c journal.Count) bool { return len(journal.Counts{c}.Writes()) == 0 })
	goal := "0"
	for _, c := range others {
		goal += fmt.Sprintf("; there were %d of %s %s", c.Requests, c.Verb, c.Resource)
	}
	step.Add("other requests to targets, but for probes", float64(others.Sum().Requests), "").
		Holds(goal, len(others) == 0).Strictly()
	step.Add("watches begun", float64(counts.Verbs("watch").Sum().Requests)/length.Seconds(), "/s")
}

// discovery reports whether a request asks which kinds there are.
func discovery(c journal.Count) bool {
	return c.Verb == "get" && (strings.HasPrefix(c.Resource, "/api/") || strings.HasPrefix(c.Resource, "/apis/") ||
		c.Resource == "/api" || c.Resource == "/apis")
}

// review reports whether a request is a TokenReview.
func review(c journal.Count) bool {
	return c.Verb == "create" && c.Resource == "tokenreviews.authentication.k8s.io"
}

// tokenElsewhere reports whether a request reads a Secret of a target that has a token.
func tokenElsewhere(c journal.Count) bool { return c.Verb == "get" && c.Resource == "secrets" }
