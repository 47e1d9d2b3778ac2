package fleet

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/hack/fleetsim"
	"github.com/trellis-hub/trellis/hack/fleetsim/journal"
	"github.com/trellis-hub/trellis/hack/fleetsim/player"
	"github.com/trellis-hub/trellis/hack/perf/figures"
	"github.com/trellis-hub/trellis/hack/perf/rig"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// progress prints how far something is until the function that it returns is called.
func (r *run) progress(what string, of int, done func() int) func() {
	stop := make(chan struct{})
	go func() {
		ticker := time.NewTicker(15 * time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ticker.C:
				r.Say("%s: %d of %d", what, done(), of)
			}
		}
	}()
	return func() { close(stop) }
}

// fill writes everything to the source.
func (r *run) fill(ctx context.Context, step *figures.Step) error {
	var done atomic.Int64
	defer r.progress("targets in the source", len(r.targets), func() int { return int(done.Load()) })()
	err := rig.EachOf(ctx, r.targets, &done, func(ctx context.Context, target *fleetsim.Target) error {
		if err := r.Writers.Register(ctx, target); err != nil {
			return err
		}
		return r.Writers.Create(ctx, r.source(target)...)
	})
	step.Add("ManagedResources", float64(r.bundles*len(r.targets)), "")
	step.Add("objects they list", float64(r.all()), "")
	step.Add("time to write it all", time.Since(step.Began).Seconds(), "s")
	return err
}

// apply starts the hub.
func (r *run) apply(ctx context.Context, step *figures.Step) error {
	began := time.Now()
	applied := r.Observer.Expect("all ManagedResources are applied", r.managedResources(), rig.Applied)
	if err := r.StartHub(ctx, r.options.Config); err != nil {
		applied.End()
		return err
	}
	step.Add("hub ready", time.Since(began).Seconds(), "s")
	counted := func() int {
		n := 0
		for _, target := range r.targets {
			n += min(target.Server().Count()-r.base, r.options.Objects)
		}
		return n
	}
	defer r.progress("objects in targets", r.all(), counted)()
	if err := r.Until(ctx, r.options.Patience, 250*time.Millisecond, "all objects are in all targets", func() (bool, error) {
		return counted() >= r.all(), nil
	}); err != nil {
		applied.End()
		return err
	}
	arrived := time.Since(began)
	cpu, err := r.CPU()
	if err != nil {
		applied.End()
		return err
	}
	step.Add("all objects in all targets", arrived.Seconds(), "s")
	step.Add("objects a second", float64(r.all())/arrived.Seconds(), "/s")
	step.Add("hub CPU an object, until they are there", cpu.Hub.Seconds()*1000/float64(r.all()), "ms").AtMost(0.8)
	if _, err := applied.Wait(ctx, r.Rig, r.options.Patience); err != nil {
		return err
	}
	if cpu, err = r.CPU(); err != nil {
		return err
	}
	step.Add("all ManagedResources said to be applied", time.Since(began).Seconds(), "s")
	step.Add("hub CPU an object, until that is said", cpu.Hub.Seconds()*1000/float64(r.all()), "ms")
	memory, err := r.Hub.Memory()
	if err != nil {
		return err
	}
	step.Add("hub RSS", mib(memory.RSS), "MiB")
	step.Add("hub peak RSS", mib(memory.Peak), "MiB")
	r.judge(step, began)
	return nil
}

// judge has the journals judge what the hub wrote since a time, in which it had nothing to delete.
func (r *run) judge(step *figures.Step, since time.Time) { r.judgeDeletes(step, since, nil) }

// judgeDeletes is judge where some things may be deleted.
func (r *run) judgeDeletes(step *figures.Step, since time.Time, may func(target string, c journal.Change) bool) {
	all := judgement{may: may}
	for _, target := range r.targets { // one at a time: a thousand histories are large
		all.add(target.Journal().History().Since(since))
	}
	all.show(step)
}

// judgement of the histories of many targets.
type judgement struct {
	// may reports whether a deletion is allowed. Nil: none is.
	may      func(target string, c journal.Change) bool
	order    []string
	findings map[string]int
	example  string
	lost     []journal.History // without their changes
}

func (j *judgement) add(history journal.History) {
	if j.findings == nil {
		j.findings = map[string]int{}
	}
	j.lost = append(j.lost, journal.History{Target: history.Target, Lost: history.Lost})
	for _, verdict := range []journal.Verdict{
		journal.Repeated(rig.ByHub, history), journal.CreatedTwice(rig.ByHub, nil, history),
		journal.WrongDeletes(rig.ByHub, journal.Deletes{Allowed: func(target string, c journal.Change) bool { return j.may != nil && j.may(target, c) }}, history),
	} {
		if _, known := j.findings[verdict.Check]; !known {
			j.order = append(j.order, verdict.Check)
		}
		j.findings[verdict.Check] += len(verdict.Findings)
		if len(verdict.Findings) > 0 && j.example == "" {
			j.example = verdict.Findings[0].String()
		}
	}
}

func (j *judgement) show(step *figures.Step) {
	rig.Complete(step, j.lost)
	for _, check := range j.order {
		f := step.Add("journal: "+check, float64(j.findings[check]), "").Exactly(0)
		if check != repeatedCheck {
			f.Strictly()
		}
	}
	if j.example != "" {
		step.Note("the first finding: %s", j.example)
	}
}

// repeatedCheck is the name of the check that is no property: a request that takes too long on a busy machine is sent again.
var repeatedCheck = journal.Repeated(nil).Check

// rollOut plays the controllers and kubelets of all targets.
func (r *run) rollOut(ctx context.Context, step *figures.Step) error {
	var done atomic.Int64
	defer r.progress("targets rolled out", len(r.targets), func() int { return int(done.Load()) })()
	before, err := r.CPU()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := rig.EachOf(ctx, r.targets, &done, rollOut); err != nil {
		return err
	}
	step.Add("rolled out", time.Since(began).Seconds(), "s")
	if _, err := r.Observer.Expect("all ManagedResources are ready", r.managedResources(), rig.Ready).Wait(
		ctx, r.Rig, r.options.Patience); err != nil {
		return err
	}
	after, err := r.CPU()
	if err != nil {
		return err
	}
	pods := 0
	for _, target := range r.targets {
		pods += target.Server().Count() - r.base - r.options.Objects
	}
	step.Add("all ManagedResources ready", time.Since(began).Seconds(), "s")
	step.Add("Pods in targets", float64(pods), "")
	step.Add("hub CPU", after.Since(before).Hub.Seconds(), "s")
	return nil
}

// workloads are the kinds that are rolled out. With them, no discovery is needed of a thousand servers.
var workloads = func() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []string{"Deployment", "DaemonSet", "StatefulSet"} {
		mapper.Add(appsv1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	return mapper
}()

func rollOut(ctx context.Context, target *fleetsim.Target) error {
	config, err := clientcmd.RESTConfigFromKubeConfig(target.Kubeconfig())
	if err != nil {
		return fmt.Errorf("client for %s: %w", target.Name(), err)
	}
	config.QPS, config.UserAgent, config.Timeout = -1, "player", time.Minute
	web, err := rest.HTTPClientFor(config)
	if err != nil {
		return fmt.Errorf("client for %s: %w", target.Name(), err)
	}
	defer web.CloseIdleConnections()
	c, err := client.New(config, client.Options{Scheme: testbed.Scheme(), HTTPClient: web, Mapper: workloads})
	if err != nil {
		return fmt.Errorf("client for %s: %w", target.Name(), err)
	}
	return player.RollOut(ctx, c)
}
