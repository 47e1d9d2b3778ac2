package conditions_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/conditions"
	"github.com/trellis-hub/trellis/engine/apply"
	"github.com/trellis-hub/trellis/engine/inventory"
	"github.com/trellis-hub/trellis/engine/prune"
)

func key(kind, name string) inventory.Key {
	return inventory.Key{Kind: kind, Namespace: "a", Name: name}
}

func pending(name string) prune.Outcome {
	return prune.Outcome{
		Ref:    resourcesv1alpha1.ObjectReference{ObjectReference: corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "a", Name: name}},
		Reason: "waits", Err: errors.New("refused"),
	}
}

func TestApplied(t *testing.T) {
	failure := apply.Outcome{Key: key("ConfigMap", "b"), Err: errors.New("forbidden")}
	for name, test := range map[string]struct {
		run  conditions.Run
		want *conditions.Condition
	}{
		"all": {conditions.Run{}, values(yes, "ApplySucceeded", "All resources are applied.")},
		"one failure": {
			conditions.Run{Failures: []apply.Outcome{failure}},
			values(no, "ApplyFailed", `Could not apply all new resources: 1 error occurred: error during apply of object "ConfigMap/a/b": forbidden`),
		},
		"a fault before a failure": {
			conditions.Run{Faults: []string{"no kind"}, Failures: []apply.Outcome{failure}},
			values(no, "ApplyFailed", "Could not apply all new resources: 2 errors occurred: [no kind,", `error during apply of object "ConfigMap/a/b": forbidden]`),
		},
		"marks that could not be taken off": {
			conditions.Run{Unreleased: map[inventory.Key]error{key("ConfigMap", "z"): errors.New("two"), key("ConfigMap", "b"): errors.New("one")}},
			values(no, "ReleaseOfOrphanedResourcesFailed", "Could not release all orphaned resources: 2 errors occurred: [one,", "two]"),
		},
		"documents that could not be read": {
			conditions.Run{Undecoded: "first\nsecond"}, values(no, "DecodingFailed", "Could not decode all new resources: first", "second"),
		},
		"objects of others": {
			conditions.Run{Yielded: map[inventory.Key]types.NamespacedName{key("ConfigMap", "b"): {Namespace: "a", Name: "other"}}},
			values(no, "OwnedByOther", "Left some resources to other ManagedResources: 1 error occurred: ConfigMap a/b is applied by ManagedResource a/other, which listed it last"),
		},
		"deletions": {
			conditions.Run{Pending: []prune.Outcome{pending("b")}},
			values(ongoing, "DeletionPending", `Could not clean all old resources: 1 error occurred: deletion of "v1/ConfigMap/a/b" is still pending: waits: refused`),
		},
		"all at once": {
			conditions.Run{
				Faults: []string{"no kind"}, Undecoded: "first", Pending: []prune.Outcome{pending("b")},
				Unreleased: map[inventory.Key]error{key("ConfigMap", "z"): errors.New("two")},
			},
			values(no, "ApplyFailed", "Could not apply all new resources: 1 error occurred: no kind", "Could not release all orphaned resources: 1 error occurred: two",
				"Could not decode all new resources: first", `Could not clean all old resources: 1 error occurred: deletion of "v1/ConfigMap/a/b" is still pending: waits: refused`),
		},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(test.run.Applied()).To(Equal(*test.want)) })
	}
}

// Causes come before what they lead to, and so Ready names a cause.
func TestFailuresBeginWithTheirCauses(t *testing.T) {
	g := NewWithT(t)
	status := func(err *apierrors.StatusError) error { return fmt.Errorf("wrapped: %w", err) }
	var run conditions.Run
	fail := func(kind, name string, err error) {
		k := key(kind, name)
		if kind == "CustomResourceDefinition" {
			k.Group = "apiextensions.k8s.io"
		}
		run.Failures = append(run.Failures, apply.Outcome{Key: k, Err: err})
	}
	fail("ConfigMap", "8", fmt.Errorf("x: %w", apply.ErrTerminating))
	fail("Tree", "5", &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "Tree"}})
	fail("Tree", "6", fmt.Errorf("%w: it needs x, which failed", apply.ErrNotTried))
	fail("ConfigMap", "7", status(apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "a")))
	fail("ConfigMap", "3", errors.New("no answer"))
	fail("ConfigMap", "4", status(apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "a", nil)))
	fail("CustomResourceDefinition", "2", status(apierrors.NewBadRequest("invalid")))
	fail("ConfigMap", "1", status(apierrors.NewInternalError(errors.New(`failed calling webhook "w": connection refused`))))
	fail("ConfigMap", "0", status(apierrors.NewUnauthorized("who?")))
	c := run.Applied()
	names := regexp.MustCompile(`/a/(\d)"`).FindAllStringSubmatch(c.Message, -1)
	var order []string
	for _, match := range names {
		order = append(order, match[1])
	}
	g.Expect(strings.Join(order, "")).To(Equal("012345678"))
}

// What keeps all objects of a namespace from being applied is no fault of theirs, and is reported once.
func TestCommonCauseIsReportedOnce(t *testing.T) {
	g := NewWithT(t)
	var run conditions.Run
	for i := range 100 {
		err := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, fmt.Sprint(i), errors.New("unable to create new content in namespace a because it is being terminated"))
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
		run.Failures = append(run.Failures, apply.Outcome{Key: key("ConfigMap", fmt.Sprint(i)), Err: fmt.Errorf("wrapped: %w", err)},
			apply.Outcome{Key: key("Tree", fmt.Sprint(i)), Err: fmt.Errorf("%w: it needs x, which failed", apply.ErrNotTried)})
	}
	run.Failures = append(run.Failures, apply.Outcome{Key: key("Secret", "own"), Err: errors.New("no answer")})
	g.Expect(run.Applied()).To(Equal(*values(no, "ApplyFailed", "Could not apply all new resources: 3 errors occurred: ["+
		`error during apply of object "ConfigMap/a/0": wrapped: configmaps "0" is forbidden: unable to create new content in namespace a because it is being terminated (99 more objects fail for the same reason),`,
		`error during apply of object "Secret/a/own": no answer,`,
		`error during apply of object "Tree/a/0": not tried: it needs x, which failed (99 more objects fail for the same reason)]`)))
}

// Consumers distinguish a problem of the content from others by this.
func TestMessagesOfFailuresKeepTheirShape(t *testing.T) {
	g := NewWithT(t)
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "b", field.ErrorList{field.Required(field.NewPath("data"), "")})
	run := conditions.Run{Failures: []apply.Outcome{{Key: key("ConfigMap", "b"), Err: invalid}, {Key: key("ConfigMap", "c"), Err: invalid}}}
	g.Expect(regexp.MustCompile(`(?i)(error during apply of object .* is invalid:)`).FindAllString(run.Applied().Message, -1)).To(HaveLen(2))
}
