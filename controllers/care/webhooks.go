package care

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
	"github.com/trellis-hub/trellis/untrusted"
)

const (
	kindMutating   = "MutatingWebhookConfiguration"
	kindValidating = "ValidatingWebhookConfiguration"

	managedByGardener = "gardener"

	// maxAttempts is how many configurations are remembered of a target that were changed, to be changed less and less
	// often if another client changes them back.
	maxAttempts = 256
	// firstPause and longestPause are the pauses in between.
	firstPause, longestPause = 2 * time.Minute, 2 * time.Hour
)

var (
	// errTooMany ends a list that is longer than any real one.
	errTooMany = errors.New("too many to look at")
	// errRefused is the end of a remedy.
	errRefused = errors.New("the target refuses the change")
)

// configuration is a configuration with problematic webhooks.
type configuration struct {
	kind, name string
	uid        types.UID
	problems   texts
	patch      []byte // what makes it harmless; nil: it is only reported
	changes    texts
}

// attempts are how often a configuration was changed, and when it may be again.
type attempts struct {
	n    int
	next time.Time
}

// webhooks reports whether webhooks can stop a target, and changes them if that is wanted.
func (r *reconciler) webhooks(ctx context.Context, target *multicluster.Target, remediate bool) (finding, error) {
	system, err := systemLabels(ctx, target)
	if err != nil {
		return finding{}, err
	}
	var found []configuration
	for _, kind := range []string{kindMutating, kindValidating} {
		some, err := r.configurations(ctx, target, kind, system)
		if err != nil {
			return finding{}, fmt.Errorf("listing all of kind %s: %w", kind, err)
		}
		found = append(found, some...)
	}
	if remediate {
		if found, err = r.remedy(ctx, target, found); err != nil {
			return finding{}, err
		}
	}
	if len(found) == 0 {
		return finding{
			constraint: hubv1alpha1.ConstraintWebhooksUnproblematic, status: metav1.ConditionTrue,
			reason: hubv1alpha1.ReasonNoProblematicWebhooks, message: "No webhook can stop what keeps the target alive.",
		}, nil
	}
	var all texts
	for _, c := range found {
		all.add(fmt.Sprintf("%s %s: %s", c.kind, c.name, c.problems))
	}
	return finding{
		constraint: hubv1alpha1.ConstraintWebhooksUnproblematic, status: metav1.ConditionFalse,
		reason: hubv1alpha1.ReasonProblematicWebhooks,
		message: fmt.Sprintf("%s: webhooks can stop what keeps the target alive: %s",
			hubv1alpha1.ErrorProblematicWebhook, all),
	}, nil
}

// systemLabels are the labels of the namespace kube-system.
func systemLabels(ctx context.Context, target *multicluster.Target) (labels.Set, error) {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := target.Client.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, namespace); err != nil {
		return nil, fmt.Errorf("reading Namespace %s: %w", metav1.NamespaceSystem, err)
	}
	system := labels.Set{}
	for key, value := range namespace.Labels {
		system[key] = value
	}
	system[corev1.LabelMetadataName] = metav1.NamespaceSystem // an API server insists on it
	return system, nil
}

// configurations are the problematic ones of a kind.
func (r *reconciler) configurations(
	ctx context.Context, target *multicluster.Target, kind string, system labels.Set,
) (found []configuration, err error) {
	seen := 0
	for next := ""; ; {
		var list client.ObjectList = &admissionregistrationv1.MutatingWebhookConfigurationList{}
		if kind == kindValidating {
			list = &admissionregistrationv1.ValidatingWebhookConfigurationList{}
		}
		n, err := page(ctx, target.Client, list, r.pageSize, next, func(item runtime.Object) {
			of, hooks := hooksOf(item)
			if isExempt(of.Labels) {
				return
			}
			if c, problematic := judgeAll(kind, of, hooks, system); problematic {
				found = append(found, c)
			}
		})
		seen += n
		switch next = list.GetContinue(); {
		case err != nil:
			return nil, err
		case next == "":
			return found, nil
		case seen >= r.maxConfigurations || n == 0:
			return nil, fmt.Errorf("%w: more than %d", errTooMany, seen)
		}
	}
}

// page lists one page, shows it to visit, and returns how many objects it has.
func page(
	ctx context.Context, c client.Client, list client.ObjectList, size int64, next string, visit func(runtime.Object),
) (n int, err error) {
	ctx, done := clustercache.HoldAnswers(ctx) // a page is in memory until it was looked at
	defer done()
	if err := c.List(ctx, list, client.Limit(size), client.Continue(next)); err != nil {
		return 0, err //nolint:wrapcheck // callers do
	}
	err = meta.EachListItem(list, func(item runtime.Object) error {
		n++
		visit(item)
		return nil
	})
	return n, err //nolint:wrapcheck // it cannot fail for a list
}

// isExempt reports whether a configuration is not to be looked at.
func isExempt(of map[string]string) bool {
	return of[hubv1alpha1.ExcludeWebhookLabel] == "true" || of[resourcesv1alpha1.ManagedByLabel] == managedByGardener
}

// hooksOf are the webhooks of a configuration.
func hooksOf(item runtime.Object) (of metav1.ObjectMeta, hooks []hook) {
	switch c := item.(type) {
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		for i := range c.Webhooks {
			h := &c.Webhooks[i]
			hooks = append(hooks, hook{
				h.Name, h.FailurePolicy, h.MatchPolicy, h.Rules, h.ObjectSelector, h.NamespaceSelector, h.TimeoutSeconds,
			})
		}
		return c.ObjectMeta, hooks
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		for i := range c.Webhooks {
			h := &c.Webhooks[i]
			hooks = append(hooks, hook{
				h.Name, h.FailurePolicy, h.MatchPolicy, h.Rules, h.ObjectSelector, h.NamespaceSelector, h.TimeoutSeconds,
			})
		}
		return c.ObjectMeta, hooks
	}
	return of, nil
}

// judgeAll judges the webhooks of a configuration.
func judgeAll(kind string, of metav1.ObjectMeta, hooks []hook, system labels.Set) (configuration, bool) {
	c := configuration{kind: kind, name: untrusted.Name(of.Name), uid: of.UID}
	var remedies []remedy
	var changes []string
	for _, h := range hooks {
		p := judge(h, system)
		if p.none() {
			continue
		}
		c.problems.add(describe(h, p))
		one, changed := remedyFor(h, p)
		remedies, changes = append(remedies, one), append(changes, changed...)
	}
	if c.problems.n == 0 {
		return configuration{}, false
	}
	for _, change := range changes {
		c.changes.add(change)
	}
	// One that is managed would be changed back; its manager has to correct it.
	managed := of.Labels[resourcesv1alpha1.ManagedByLabel] != ""
	if !managed && of.UID != "" && of.ResourceVersion != "" && c.name == of.Name {
		c.patch = patchOf(of, remedies, changes)
	}
	return c, true
}

// describe says what is wrong with a webhook.
func describe(h hook, p problem) string {
	var faults []string
	if p.fails {
		faults = append(faults, "failurePolicy Fail for "+p.resource)
	}
	if p.timeout > 0 {
		faults = append(faults, fmt.Sprintf("timeoutSeconds more than %d for %s", p.timeout, p.resource))
	}
	return fmt.Sprintf("%s (%s)", untrusted.Name(h.name), strings.Join(faults, ", "))
}

// remedy changes problematic configurations, and returns those that are still problematic.
func (r *reconciler) remedy(
	ctx context.Context, target *multicluster.Target, found []configuration,
) (left []configuration, err error) {
	m, done := r.memoryOf(target.Key()), 0
	for _, c := range found {
		if c.patch == nil || done >= r.maxRemedies || !m.mayChange(c.uid, r.clock.Now()) {
			left = append(left, c)
			continue
		}
		done++
		object := client.Object(&admissionregistrationv1.MutatingWebhookConfiguration{})
		if c.kind == kindValidating {
			object = &admissionregistrationv1.ValidatingWebhookConfiguration{}
		}
		object.SetName(c.name)
		err := target.Client.Patch(ctx, object, client.RawPatch(types.StrategicMergePatchType, c.patch))
		switch {
		case err == nil:
			m.changed(c.uid, r.clock.Now())
			r.Metrics.remediedOne()
			target.Log.Info("Changed webhooks that could stop the target", "kind", c.kind, "name", c.name)
			r.reportChanges(target, c)
		case apierrors.IsNotFound(err):
		case apierrors.IsConflict(err): // the next look sees what has become of it
			left = append(left, c)
		case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
			m.changed(c.uid, r.clock.Now()) // neither goes away at once
			r.faults.Report(target, fmt.Errorf("changing %s %s: %w: %w", c.kind, c.name, errRefused, err))
			left = append(left, c)
		default:
			return nil, fmt.Errorf("changing %s %s: %w", c.kind, c.name, err)
		}
	}
	return left, nil
}

// reportChanges writes an event about a configuration that was changed.
func (r *reconciler) reportChanges(target *multicluster.Target, c configuration) {
	about := r.about(target)
	if about == nil {
		return
	}
	target.Warn(about, reasonRemedied, action,
		untrusted.Message(fmt.Sprintf("changed %s %s: %s", c.kind, c.name, c.changes)))
}

// mostNamed is how many of many things a message names.
const mostNamed = 5

// texts are the first of some texts, and how many there are.
type texts struct {
	first []string
	n     int
}

func (t *texts) add(text string) {
	if t.n++; len(t.first) < mostNamed {
		t.first = append(t.first, text)
	}
}

// String joins them.
func (t texts) String() string {
	joined := strings.Join(t.first, "; ")
	if more := t.n - len(t.first); more > 0 {
		return fmt.Sprintf("%s; and %d more", joined, more)
	}
	return joined
}
