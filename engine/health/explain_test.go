package health

import (
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/labels"
)

func TestPodProblems(t *testing.T) {
	const notReady = "phase: Running, conditions: [{type: Ready, status: 'False', reason: ContainersNotReady, message: 'containers with unready status: [c]'}]"
	waiting := func(state string) string {
		return "{" + notReady + ", containerStatuses: [{name: c, ready: false, restartCount: 0, state: {waiting: {" + state + "}}}]}"
	}
	container := func(status string) string {
		return "{" + notReady + ", containerStatuses: [{name: ok, ready: true}, {name: c, ready: false, " + status + "}]}"
	}
	const id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for name, test := range map[string]struct {
		status   string
		severity Severity
		message  string
	}{
		"ready":     {"{phase: Running, conditions: [{type: Ready, status: 'True'}]}", Fine, ""},
		"completed": {"{phase: Succeeded, conditions: [{type: Ready, status: 'False', reason: PodCompleted}]}", Fine, ""},
		"no place": {
			"{phase: Pending, conditions: [{type: PodScheduled, status: 'False', reason: Unschedulable, message: '0/3 nodes are available: 3 Insufficient cpu. preemption: 0/3 nodes are available: 3 No preemption victims found.'}]}",
			Unavailable, "it is not scheduled (Unschedulable): 0/3 nodes are available: 3 Insufficient cpu.",
		},
		"not started": {waiting("reason: ContainerCreating"), Waiting, "container c waits ContainerCreating"},
		"hook failed": {
			waiting(`reason: PostStartHookError, message: 'Exec lifecycle hook ([sh -c login 1234]) failed - error: exit status 1, message: "password is 1234"'`),
			Failed, "container c waits (PostStartHookError)",
		},
		"an unknown reason": {waiting("reason: Anything, message: password is 1234"), Failed, "container c waits (Anything)"},
		"image, trying":     {waiting("reason: ErrImagePull, message: 'rpc error: not found'"), Failed, "container c waits (ImagePullBackOff): rpc error: not found"},
		"image, waiting to try again": {
			waiting(`reason: ImagePullBackOff, message: 'Back-off pulling image "x": ErrImagePull: rpc error: not found'`),
			Failed, "container c waits (ImagePullBackOff): rpc error: not found",
		},
		"image, a server that does not say why": {
			waiting(`reason: ImagePullBackOff, message: 'Back-off pulling image "x"'`),
			Failed, `container c waits (ImagePullBackOff): Back-off pulling image "x"`,
		},
		"configuration": {
			waiting(`reason: CreateContainerConfigError, message: 'secret "x" not found'`),
			Failed, `container c waits (CreateContainerConfigError): secret "x" not found`,
		},
		"a name that changes with every attempt": {
			waiting("reason: CreateContainerError, message: 'name is reserved for " + id + "'"),
			Failed, "container c waits (CreateContainerError): name is reserved for ...",
		},
		"crash loop": {
			container("restartCount: 7, state: {waiting: {reason: CrashLoopBackOff, message: 'back-off 5m0s restarting failed container=c pod=a_b(uid)'}}, lastState: {terminated: {exitCode: 1, reason: Error, message: 'panic: password is 1234'}}"),
			Failed, "container c fails again and again (CrashLoopBackOff), last exit code 1 (Error)",
		},
		"crash loop, running for a moment": {
			container("restartCount: 8, state: {running: {startedAt: '2026-01-01T00:00:00Z'}}, lastState: {terminated: {exitCode: 1, reason: Error}}"),
			Failed, "container c fails again and again (CrashLoopBackOff), last exit code 1 (Error)",
		},
		"crash loop, just failed": {
			container("restartCount: 8, state: {terminated: {exitCode: 1, reason: Error}}, lastState: {terminated: {exitCode: 2, reason: Error}}"),
			Failed, "container c fails again and again (CrashLoopBackOff), last exit code 1 (Error)",
		},
		"crash loop of what never ran": {
			container("restartCount: 3, state: {waiting: {reason: RunContainerError, message: odd}}, lastState: {terminated: {exitCode: 128, reason: StartError, message: 'exec: \"nope\": executable file not found in $PATH'}}"),
			Failed, `container c fails again and again (CrashLoopBackOff), last exit code 128 (StartError): exec: "nope": executable file not found in $PATH`,
		},
		"failed once": {
			container("restartCount: 0, state: {terminated: {exitCode: 3, reason: Error, message: secret}}"),
			Unavailable, "container c has failed, last exit code 3 (Error)",
		},
		"restarted once": {
			container("restartCount: 1, state: {running: {}}, lastState: {terminated: {exitCode: 1, reason: Error}}"),
			Waiting, "container c is not ready",
		},
		"not ready": {container("restartCount: 0, state: {running: {}}"), Waiting, "container c is not ready"},
		"readiness gate": {
			"{phase: Running, conditions: [{type: Ready, status: 'False', reason: ReadinessGatesNotReady, message: x}], containerStatuses: [{name: c, ready: true}]}",
			Waiting, "it is not ready (ReadinessGatesNotReady): x",
		},
		"init container goes before the containers that wait for it": {
			"{phase: Pending, initContainerStatuses: [{name: i, ready: true, state: {terminated: {exitCode: 0}}}, {name: j, ready: false, state: {waiting: {reason: ErrImageNeverPull, message: m}}}], containerStatuses: [{name: c, ready: false, state: {waiting: {reason: PodInitializing}}}]}",
			Failed, "init container j waits (ErrImageNeverPull): m",
		},
		"rejected by its node": {
			"{phase: Failed, reason: OutOfcpu, message: Node didn't have enough resource}", Unavailable,
			"it failed (OutOfcpu): Node didn't have enough resource",
		},
		"nothing known": {"{phase: Pending}", Waiting, "it is not ready"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			problem := PodOf(object(t, pod+"status: "+test.status)).Problem
			g.Expect(problem).To(Equal(Problem{Severity: test.severity, Message: test.message}))
		})
	}

	t.Run("terminating", func(t *testing.T) {
		live := object(t, "apiVersion: v1\nkind: Pod\nmetadata: {name: a, deletionTimestamp: '2026-01-01T00:00:00Z'}\nstatus: {phase: Running, conditions: [{type: Ready, status: 'True'}]}")
		NewWithT(t).Expect(PodOf(live).Problem).To(Equal(Problem{Waiting, "it is being deleted"}))
	})
	t.Run("bounded", func(t *testing.T) {
		live := object(t, pod+"status: "+waiting("reason: InvalidImageName, message: '"+strings.Repeat("ä", 1000)+"'"))
		message := PodOf(live).Problem.Message
		NewWithT(t).Expect(len(message)).To(And(BeNumerically("<=", maxPodMessage), BeNumerically(">", maxPodMessage-10)))
	})
}

func TestExplainChoosesOnePod(t *testing.T) {
	selector := labels.ValidatedSetSelector{"app": "a"}
	pod := func(name, template string, created int64, severity Severity) *Pod {
		return &Pod{Name: name, Labels: LabelsOf(map[string]string{"app": "a", "pod-template-hash": template}), Relevant: true, Created: created, Problem: Problem{severity, "p"}}
	}
	without := func(p *Pod, change func(*Pod)) *Pod {
		change(p)
		return p
	}
	for name, test := range map[string]struct {
		pods    []*Pod
		least   Severity
		problem Problem
	}{
		"none":                         {},
		"all fine":                     {pods: []*Pod{pod("x", "new", 2, Fine)}},
		"the worst":                    {[]*Pod{pod("x", "new", 2, Unavailable), pod("y", "new", 2, Failed)}, Fine, Problem{Failed, "pod y: p"}},
		"then by name":                 {[]*Pod{pod("y", "new", 2, Failed), pod("x", "new", 2, Failed)}, Fine, Problem{Failed, "pod x: p"}},
		"the newest template first":    {[]*Pod{pod("a", "old", 1, Failed), pod("b", "new", 2, Failed), pod("c", "new", 1, Failed)}, Fine, Problem{Failed, "pod b: p"}},
		"but the worst before that":    {[]*Pod{pod("a", "old", 1, Failed), pod("b", "new", 2, Waiting)}, Fine, Problem{Failed, "pod a: p"}},
		"those that count first":       {[]*Pod{without(pod("a", "new", 2, Failed), func(p *Pod) { p.Relevant = false }), pod("b", "old", 1, Failed)}, Fine, Problem{Failed, "pod b: p"}},
		"not those of others":          {pods: []*Pod{without(pod("a", "new", 2, Failed), func(p *Pod) { p.Labels = LabelsOf(map[string]string{"app": "b"}) })}},
		"not what is less than wanted": {pods: []*Pod{pod("a", "new", 2, Waiting)}, least: Unavailable},
		"revisions of other workloads": {
			[]*Pod{
				without(pod("a", "", 1, Failed), func(p *Pod) { p.Labels = LabelsOf(map[string]string{"app": "a", "controller-revision-hash": "1"}) }),
				without(pod("b", "", 2, Failed), func(p *Pod) { p.Labels = LabelsOf(map[string]string{"app": "a", "controller-revision-hash": "2"}) }),
			}, Fine, Problem{Failed, "pod b: p"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(Explain(selector, slices.Values(test.pods), test.least)).To(Equal(test.problem))
			slices.Reverse(test.pods)
			g.Expect(Explain(selector, slices.Values(test.pods), test.least)).To(Equal(test.problem), "the order says nothing")
			g.Expect(Explain(nil, slices.Values(test.pods), test.least)).To(Equal(Problem{}))
		})
	}
}
