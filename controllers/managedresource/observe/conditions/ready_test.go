package conditions_test

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/conditions"
	"github.com/trellis-hub/trellis/engine/health"
)

// has is a list of conditions: applied, healthy, progressing, as far as they are there.
func has(all ...*conditions.Condition) []resourcesv1alpha1.Condition {
	types := []resourcesv1alpha1.ConditionType{
		resourcesv1alpha1.ConditionResourcesApplied, resourcesv1alpha1.ConditionResourcesHealthy, resourcesv1alpha1.ConditionResourcesProgressing,
	}
	var out []resourcesv1alpha1.Condition
	for i, c := range all {
		if c != nil {
			out = resourcesv1alpha1.SetCondition(time.Now(), out, types[i], c.Status, c.Reason, c.Message)
		}
	}
	return out
}

func TestReady(t *testing.T) {
	applied, healthy, done := values(yes, "ApplySucceeded", "All."), values(yes, "ResourcesHealthy", "All."), values(no, "ResourcesRolledOut", "All.")
	pending := values(unknown, "ChecksPending", "The content changed; its checks are pending.")
	ignored, stopped := values(yes, "ManagedResourceIgnored", "It is ignored."), values(no, "ManagedResourceIgnored", "It is ignored.")
	silent := values(unknown, "TargetUnreachable", "The target cluster a/b is not reachable since then: Unreachable")
	failed := values(no, "ApplyFailed", `Could not apply all new resources: 1 error occurred: error during apply of object "v1/ConfigMap/a/b": forbidden`)
	missing := values(no, "CustomResourceDefinitionMissing",
		"CustomResourceDefinition.apiextensions.k8s.io trees does not exist.", "Tree.example.org a/b does not exist.", "Tree.example.org a/c does not exist.")
	rolling := values(yes, "DeploymentProgressing", "Deployment.apps a/b is progressing: pod b-1: container c waits (ImagePullBackOff); 1 of 2 pods")
	for name, test := range map[string]struct {
		conditions []resourcesv1alpha1.Condition
		want       *conditions.Condition
	}{
		"all is well": {has(applied, healthy, done), values(yes, "Ready", "All resources are applied, healthy and rolled out.")},
		"ignored":     {has(ignored, ignored, stopped), values(yes, "ManagedResourceIgnored", "It is ignored.")},

		"not reachable":                        {has(applied, silent, silent), values(unknown, "TargetUnreachable", silent.Message)},
		"not reachable goes before a failure":  {has(failed, silent, silent), values(unknown, "TargetUnreachable", silent.Message)},
		"not reachable goes before an apply":   {has(values(ongoing, "ApplyProgressing", "x"), silent, silent), values(unknown, "TargetUnreachable", silent.Message)},
		"not reachable since it is registered": {has(silent, silent, silent), values(unknown, "TargetUnreachable", silent.Message)},
		"refused":                              {has(failed, values(unknown, "TargetRefused", "r"), values(unknown, "TargetRefused", "r")), values(unknown, "TargetRefused", "r")},
		"another cluster":                      {has(failed, values(unknown, "IdentityChanged", "i"), values(unknown, "IdentityChanged", "i")), values(unknown, "IdentityChanged", "i")},
		"no target":                            {has(values(no, "TargetNotFound", "n"), values(unknown, "TargetNotFound", "n"), values(unknown, "TargetNotFound", "n")), values(no, "TargetNotFound", "n")},

		"not applied": {has(failed, pending, pending), values(no, "ApplyFailed", `Could not apply all new resources: error during apply of object "v1/ConfigMap/a/b": forbidden`)},
		"not applied goes before what is missing": {has(failed, missing, rolling), values(no, "ApplyFailed", `Could not apply all new resources: error during apply of object "v1/ConfigMap/a/b": forbidden`)},
		"being applied": {
			has(values(ongoing, "ApplyProgressing", "The resources are being applied."), pending, pending),
			values(no, "ApplyProgressing", "The resources are being applied."),
		},
		"being deleted": {
			has(values(ongoing, "DeletionPending", "one"), values(no, "DeletionPending", "two"),
				values(yes, "DeletionPending", "two")),
			values(no, "DeletionPending", "one"),
		},
		"a definition goes before its instances": {has(applied, missing, done),
			values(no, "CustomResourceDefinitionMissing",
				"CustomResourceDefinition.apiextensions.k8s.io trees does not exist (and 2 more)")},
		"unhealthy goes before the roll-out": {has(applied, values(no, "PodUnhealthy", "pod"), rolling),
			values(no, "PodUnhealthy", "pod")},
		"a stuck roll-out says what the pod says": {has(applied, healthy, rolling),
			values(no, "DeploymentProgressing", rolling.Message)},
		"checks are pending": {has(applied, pending, pending),
			values(unknown, "ChecksPending", pending.Message)},
		"a health check that fails": {has(applied, values(no, "HealthCheckError", "e"),
			values(unknown, "HealthCheckError", "e")), values(no, "HealthCheckError", "e")},
		"only the roll-out is not known": {has(applied, healthy, pending),
			values(unknown, "ChecksPending", pending.Message)},
		"nothing but a failure": {has(failed), values(no, "ApplyFailed",
			`Could not apply all new resources: error during apply of object "v1/ConfigMap/a/b": forbidden`)},
		"nothing but a success": {has(applied), values(unknown, "ChecksPending",
			"ResourcesHealthy is not known yet.")},
		"a roll-out that is not checked yet": {has(applied, healthy),
			values(unknown, "ChecksPending", "ResourcesProgressing is not known yet.")},
		"unhealthy, and ResourcesApplied is missing": {has(nil, missing), values(no, "CustomResourceDefinitionMissing",
			"CustomResourceDefinition.apiextensions.k8s.io trees does not exist (and 2 more)")},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(conditions.Ready(test.conditions, 1, 1)).To(Equal(*test.want))
		})
	}
	NewWithT(t).Expect(conditions.Ready(has(applied, healthy, done), 2, 1)).To(Equal(*values(no, "ApplyProgressing", "The present generation is not applied yet.")))
}

// What Ready says of a condition with many problems: the first, and how many others there are.
func TestReadyNamesOneProblem(t *testing.T) {
	errs := func(n int) (texts []string) {
		for i := range n {
			texts = append(texts, string(rune('a'+i%26))+", or else")
		}
		return texts
	}
	snapshot := func(n int, notes ...string) string {
		s := conditions.Snapshot{}
		for range n {
			s.Unhealthy = append(s.Unhealthy, problem("/Service/a/b", health.Failed, "no ingress", notes...))
		}
		c, _ := s.Healthy()
		return c.Message
	}
	run := conditions.Run{Faults: errs(3), Undecoded: "document 1\ndocument 2\nand 4 more", Unreleased: nil}
	for name, test := range map[string]struct{ message, want string }{
		"one error":             {conditions.List(errs(1)), "a, or else"},
		"two errors":            {conditions.List(errs(2)), "a, or else (and 1 more)"},
		"as many as are named":  {"Prefix: " + conditions.List(errs(20)), "Prefix: a, or else (and 19 more)"},
		"more than are named":   {"Prefix: " + conditions.List(errs(27)), "Prefix: a, or else (and 26 more)"},
		"errors in lines":       {conditions.List([]string{"one\ntwo\r\nthree", "x"}), "one two three (and 1 more)"},
		"several paragraphs":    {run.Applied().Message, "Could not apply all new resources: a, or else (and 8 more)"},
		"one object":            {snapshot(1), "Service a/b is unhealthy: no ingress"},
		"one object with notes": {snapshot(1, "Warnings:", "- one", "- two"), "Service a/b is unhealthy: no ingress"},
		"many objects with notes": {snapshot(33, "Warnings:", "- one"),
			"Service a/b is unhealthy: no ingress (and 32 more)"},
		"a text of another writer": {"It is so.\n\nAnd so.", "It is so (and 1 more)"},
		"no text":                  {"", "No message was given."},
	} {
		t.Run(name, func(t *testing.T) {
			c := conditions.Ready(has(values(yes, "ApplySucceeded", "x"), values(no, "ServiceUnhealthy", test.message)), 1, 1)
			NewWithT(t).Expect(c.Message).To(Equal(test.want))
		})
	}
	long := conditions.Ready(has(values(no, "CannotReadSecret", strings.Repeat("long ", 1000))), 1, 1)
	NewWithT(t).Expect(len(long.Message)).To(BeNumerically("<=", 512))
}
