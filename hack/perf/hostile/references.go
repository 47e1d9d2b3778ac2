package hostile

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// secretOf is a Secret with a key.
func (s *scene) secretOf(name, key string, content []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, Data: map[string][]byte{key: content},
	}
}

// slowTarget registers a target that takes writes and never answers them.
func (s *scene) slowTarget(ctx context.Context, name string) error {
	return s.target(ctx, name, false, serverOptions{intercept: func(w http.ResponseWriter, r *http.Request) bool {
		writes := []string{http.MethodPatch, http.MethodPut, http.MethodPost}
		if !slices.Contains(writes, r.Method) || strings.HasPrefix(r.URL.Path, "/apis/auth") {
			return false
		}
		return hangs(w, r)
	}})
}

// referencesCases are those of ManagedResources that refer to much.
func referencesCases() []attack {
	out := []attack{{
		row: 7, name: "20,000 references to a Secret of 1 MB", budget: oneTarget, quick: true,
		begin: func(ctx context.Context, s *scene) error {
			text := testbed.ConfigMap("default", "large", strings.Repeat("x", 1_000_000))
			if err := s.write(ctx, s.secretOf("large", "objects.yaml", []byte(text))); err != nil {
				return err
			}
			refs := make([]string, 20_000)
			for i := range refs {
				refs[i] = "large"
			}
			if err := s.write(ctx, s.resource("t", "m", refs...)); err != nil {
				return err
			}
			return s.slowTarget(ctx, "t")
		},
	}, {
		row: 7, name: "40,000 distinct references, and Secrets that change",
		budget: oneTarget, window: 30 * time.Second, calls: true,
		check: func(ctx context.Context, s *scene) error { return s.judgeRefusal(ctx, "m") },
		begin: func(ctx context.Context, s *scene) error {
			refs := make([]string, 40_000)
			for i := range refs {
				refs[i] = "s" + strconv.Itoa(i)
			}
			if err := s.write(ctx, s.resource("t", "m", refs...)); err != nil {
				return err
			}
			for i := range 10 {
				if err := s.write(ctx, s.secretOf("s"+strconv.Itoa(i), "objects.yaml", nil)); err != nil {
					return err
				}
			}
			return s.slowTarget(ctx, "t")
		},
		goesOn: func(ctx context.Context, s *scene) error {
			if err := slowly(ctx, 2*time.Second); err != nil {
				return err
			}
			for i := 0; ; i++ {
				if err := slowly(ctx, 100*time.Millisecond); err != nil {
					return err
				}
				patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"a":"%d"}}}`, i)
				secret := s.secretOf("s"+strconv.Itoa(i%10), "objects.yaml", nil)
				err := s.tenant.Patch(ctx, secret, client.RawPatch("application/merge-patch+json", patch))
				if client.IgnoreNotFound(err) != nil {
					return fmt.Errorf("changing a Secret: %w", err)
				}
			}
		},
	}, {
		row: 7, name: "50 Secrets of 1 MB in a ManagedResource, ten of those", budget: manyTargets, calls: true,
		check: func(ctx context.Context, s *scene) error { return s.judgeRefusal(ctx, "m0") },
		begin: func(ctx context.Context, s *scene) error {
			var refs []string
			for i := range 50 {
				name := "s" + strconv.Itoa(i)
				text := testbed.ConfigMap("default", name, strings.Repeat("x", 1_000_000))
				if err := s.write(ctx, s.secretOf(name, "objects.yaml", []byte(text))); err != nil {
					return err
				}
				refs = append(refs, name)
			}
			for i := range 10 {
				if err := s.write(ctx, s.resource("t", "m"+strconv.Itoa(i), refs...)); err != nil {
					return err
				}
			}
			return s.slowTarget(ctx, "t")
		},
	}}
	return append(out, bundlesCases()...)
}

// judgeRefusal says whether the conditions of a ManagedResource say that it is over a bound.
func (s *scene) judgeRefusal(ctx context.Context, name string) error {
	mr := s.resource("t", name)
	what := "the conditions say that the content is too large"
	return s.Until(ctx, s.options.Patience, 100*time.Millisecond, what, func() (bool, error) {
		err := s.Source.Client.Get(ctx, client.ObjectKeyFromObject(mr), mr)
		applied := resourcesv1alpha1.GetCondition(mr.Status.Conditions, resourcesv1alpha1.ConditionResourcesApplied)
		return applied != nil && applied.Reason == resourcesv1alpha1.ReasonContentTooLarge, err
	})
}

// bundles are contents of Secrets that are some hundred bytes of Brotli.
var bundles = map[string]func() []byte{
	"documents of 1 MiB": func() []byte {
		var text strings.Builder
		for i := range 12 {
			name := "large-" + strconv.Itoa(i)
			text.WriteString(testbed.ConfigMap("default", name, strings.Repeat("x", 1<<20)) + "\n---\n")
		}
		return testbed.Brotli([]byte(text.String()))
	},
	"maps that are empty": func() []byte {
		const maps = 900_000
		return testbed.Brotli([]byte(`{"apiVersion":"g.example.org/v1","kind":"K",` +
			`"metadata":{"namespace":"default","name":"o"},"spec":[` + strings.Repeat("{},", maps) + "{}]}"))
	},
	"a bomb": func() []byte { return testbed.Brotli(make([]byte, 1<<30)) },
}

// bundlesCases are those of ManagedResources that are decoded and wait for slow targets.
func bundlesCases() []attack {
	const resources = 60
	var out []attack
	for name, content := range bundles {
		for _, targets := range []int{1, 10} {
			a := attack{
				row: 8, name: fmt.Sprintf("60 ManagedResources of Brotli, %s, %d slow targets", name, targets),
				budget: manyTargets,      // what is decoded is the content of a namespace, and bounded for it
				calls:  name == "a bomb", // which gets nowhere
				quick:  targets == 1 && name == "documents of 1 MiB",
			}
			a.begin = func(ctx context.Context, s *scene) error {
				packed := content()
				for i := range targets {
					if err := s.slowTarget(ctx, "t"+strconv.Itoa(i)); err != nil {
						return err
					}
				}
				for i := range resources {
					name := "m" + strconv.Itoa(i)
					// A suffix, so that no two have the same content.
					own := s.secretOf(name, "objects.yaml.br", packed)
					own.Data["own.yaml"] = []byte(testbed.ConfigMap("default", name, "value"))
					if err := s.write(ctx, own); err != nil {
						return err
					}
					if err := s.write(ctx, s.resource("t"+strconv.Itoa(i%targets), name, name)); err != nil {
						return err
					}
				}
				return nil
			}
			out = append(out, a)
		}
	}
	return out
}
