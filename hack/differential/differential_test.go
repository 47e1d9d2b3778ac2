package differential_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"

	"github.com/trellis-hub/trellis/engine/apply"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/differential"
	"github.com/trellis-hub/trellis/hack/testbed"
)

var (
	transitions = flag.Int("differential.transitions", 400, "how many manifests are applied one after the other")
	seed        = flag.Uint64("differential.seed", 1, "seed of the random cases; zero for a new one")
)

var cluster *testbed.Cluster

func TestMain(m *testing.M) {
	testbed.Suite{Patience: 2 * time.Minute, Poll: 100 * time.Millisecond}.Main(m, func(m *testing.M) int {
		var err error
		if cluster, err = testbed.StartCluster(context.Background(), controlplane.Options{Name: "differential"}); err != nil {
			fmt.Println(err)
			return 1
		}
		defer cluster.Stop()
		return m.Run()
	})
}

// access is that of a hub.
func access(g *WithT) apply.Target {
	config := cluster.RESTConfig()
	transport, err := rest.HTTPClientFor(config)
	g.Expect(err).NotTo(HaveOccurred())
	mapper, err := apiutil.NewDynamicRESTMapper(config, transport)
	g.Expect(err).NotTo(HaveOccurred())
	md, err := metadata.NewForConfigAndClient(config, transport)
	g.Expect(err).NotTo(HaveOccurred())
	return apply.Target{Metadata: md, Client: cluster.Client, Mapper: mapper}
}

// What the engine makes of an object is what an update makes of it, whatever it was before.
func TestObjectsAreWhatAnUpdateMakesOfThem(t *testing.T) {
	g := NewWithT(t)
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("seed %d", *seed)
	random := rand.New(rand.NewPCG(*seed, 0)) //nolint:gosec // it is to be repeatable
	kinds, err := differential.Builtin()
	g.Expect(err).NotTo(HaveOccurred())
	definitions, custom := differential.Custom(random, 40)
	for _, d := range definitions {
		g.Expect(cluster.Client.Create(t.Context(), d)).To(Succeed())
	}
	kinds = append(kinds, custom...)
	but, err := differential.Wanted()
	g.Expect(err).NotTo(HaveOccurred())
	target := access(g)

	each := max((*transitions+len(kinds)-1)/len(kinds), 2)
	var both, refused int
	for i, kind := range kinds {
		t.Run(kind.Name(), func(t *testing.T) {
			g := NewWithT(t)
			chosen := map[string]int{}
			first := kind.Manifest(random, chosen)
			g.Eventually(func() error {
				_, err := target.Mapper.RESTMapping(first.GroupVersionKind().GroupKind(), first.GroupVersionKind().Version)
				return err
			}).Should(Succeed())
			mapping, err := target.Mapper.RESTMapping(first.GroupVersionKind().GroupKind(), first.GroupVersionKind().Version)
			g.Expect(err).NotTo(HaveOccurred())
			pair := &differential.Pair{
				Target: target, Applier: &apply.Applier{FieldManager: "trellis", Parallel: 1, KindTimeout: time.Second},
				Names: [2]string{"object.example.com", "object.example.com"},
			}
			if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
				pair.Names = [2]string{"object", "object"}
				pair.Namespaces = [2]string{testbed.Namespace(t, nil, cluster), testbed.Namespace(t, nil, cluster)}
			} else {
				pair.Names = [2]string{fmt.Sprintf("engine%d.example.com", i), fmt.Sprintf("update%d.example.com", i)}
			}
			manifest := first
			before := "nothing"
			for n := range each {
				if n > 0 {
					manifest = kind.Manifest(random, chosen)
				}
				text, err := yaml.Marshal(manifest.Object)
				g.Expect(err).NotTo(HaveOccurred())
				var errs [2]error
				g.Eventually(func() bool { // a definition is announced before it is served
					errs = pair.Write(t.Context(), manifest)
					return apierrors.IsNotFound(errs[0]) || apierrors.IsNotFound(errs[1])
				}).Should(BeFalse())
				about := fmt.Sprintf("seed %d, after\n%s\nthe manifest\n%s", *seed, before, text)
				switch {
				case errs[0] != nil && errs[1] == nil:
					g.Expect(pair.Creatable(t.Context(), manifest)).To(BeFalse(), "%v\n%s", errs[0], about)
					refused++
					g.Expect(pair.Delete(t.Context(), manifest)).To(Succeed())
					before = "nothing"
					continue
				case errs[0] == nil && errs[1] != nil:
					g.Expect(errs[1]).NotTo(HaveOccurred(), "the engine leaves what cannot be changed\n%s", about)
				case errs[0] != nil:
					refused++
				default:
					both++
					before = string(text)
				}
				contents, err := pair.Contents(t.Context(), manifest, but[kind.Name()])
				g.Expect(err).NotTo(HaveOccurred())
				for i := range contents { // they may name themselves
					contents[i] = strings.ReplaceAll(contents[i], pair.Namespaces[i]+"/", "/")
				}
				g.Expect(cmp.Diff(contents[1], contents[0])).To(BeEmpty(), about)
			}
			g.Expect(client.IgnoreNotFound(pair.Delete(t.Context(), manifest))).To(Succeed())
		})
	}
	t.Logf("%d transitions were written by both, %d refused", both, refused)
	g.Expect(both).To(BeNumerically(">", (both+refused)/2), "most manifests are taken")
}
