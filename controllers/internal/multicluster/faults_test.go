package multicluster_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	. "github.com/trellis-hub/trellis/controllers/internal/multicluster"
	"github.com/trellis-hub/trellis/untrusted"
)

func TestFaultsAreReportedOnceInAWhile(t *testing.T) {
	w := newWorld(t)
	clock := clocktesting.NewFakePassiveClock(time.Now())
	errTooMany := errors.New("too many")
	faults := NewFaults(clock, "Broken", "Test", errTooMany)
	forbidden := func(name string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, name, errors.New("no"))
	}
	all := map[string]error{
		"passes":        errors.New("a timeout"),
		"nothing":       nil,
		"forbidden":     fmt.Errorf("reading a node: %w", forbidden("one")),
		"another":       forbidden("another"),
		"too-many":      fmt.Errorf("pods: %w", errTooMany),
		"too-large":     fmt.Errorf("pods: %w", untrusted.ErrExceeded),
		"again":         forbidden("again"),
		"elsewhere":     forbidden("elsewhere"),
		"after-leaving": forbidden("after-leaving"),
	}
	w.do = func(_ context.Context, target *Target, name types.NamespacedName) (reconcile.Result, error) {
		faults.Report(target, all[name.Name])
		return reconcile.Result{}, nil
	}
	recorder := events.NewFakeRecorder(100)
	environment := w.environment()
	environment.Events = recorder
	c, err := New("test", environment).For(namespaces).Complete(w)
	w.Expect(err).NotTo(HaveOccurred())
	w.run(c)
	w.Eventually(func() int { return len(w.clusters.Watches(east)) + len(w.clusters.Watches(west)) }).Should(Equal(2))

	key := east
	runs := func(name string) {
		w.put(key, name)
		w.Eventually(w.count(key, name)).Should(Equal(1))
	}
	for _, step := range []struct {
		name string
		says string // empty: nothing
	}{
		{"passes", ""}, {"nothing", ""},
		{"forbidden", "Warning Broken reading a node: nodes \"one\" is forbidden: no"},
		{"another", ""},
		{"too-many", "Warning Broken pods: too many"},
		{"too-large", "Warning Broken pods: " + untrusted.ErrExceeded.Error()},
	} {
		runs(step.name)
		if step.says != "" {
			w.Eventually(recorder.Events).Should(Receive(Equal(step.says)))
		}
	}
	clock.SetTime(clock.Now().Add(time.Hour))
	runs("again")
	w.Eventually(recorder.Events).Should(Receive(HavePrefix("Warning Broken nodes \"again\"")))
	key = west
	runs("elsewhere")
	w.Eventually(recorder.Events).Should(Receive(HavePrefix("Warning Broken nodes \"elsewhere\"")))
	faults.Forget(west)
	runs("after-leaving")
	w.Eventually(recorder.Events).Should(Receive(HavePrefix("Warning Broken nodes \"after-leaving\"")))
	w.Expect(recorder.Events).NotTo(Receive())
}
