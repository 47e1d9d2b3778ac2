package apply_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"

	"github.com/trellis-hub/trellis/engine/apply"
	"github.com/trellis-hub/trellis/engine/ownership"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

var (
	cluster *testbed.Cluster
	access  apply.Target
	applier = &apply.Applier{FieldManager: "trellis", Parallel: 4}
	marks   = apply.Marks{Labels: map[string]string{"resources.gardener.cloud/managed-by": "gardener"}, Origin: "ns/mr"}
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if testing.Short() {
		return m.Run()
	}
	SetDefaultEventuallyTimeout(2 * time.Minute)
	var err error
	if cluster, err = testbed.StartCluster(context.Background(), controlplane.Options{Name: "apply"}); err == nil {
		defer cluster.Stop()
		err = connect()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func connect() error {
	config := cluster.RESTConfig()
	http, err := restHTTPClient(config)
	if err != nil {
		return err
	}
	mapper, err := apiutil.NewDynamicRESTMapper(config, http)
	if err != nil {
		return err
	}
	md, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	access = apply.Target{Metadata: md, Client: cluster.Client, Mapper: mapper}
	return nil
}

// manifest reads YAML as a bundle would.
func manifest(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	obj := &unstructured.Unstructured{}
	NewWithT(t).Expect(obj.UnmarshalJSON(raw)).To(Succeed())
	return obj
}

func prepare(t testing.TB, objects ...*unstructured.Unstructured) []apply.Intent {
	t.Helper()
	out := make([]apply.Intent, 0, len(objects))
	for _, o := range objects {
		p, err := apply.Prepare(context.Background(), o, nil, access.Mapper, apply.ScopeOfDefined(objects), marks)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		out = append(out, p.Intent)
	}
	return out
}

// run1 applies one manifest.
func run1(t testing.TB, text string) apply.Outcome {
	t.Helper()
	return applier.Run(t.Context(), access, prepare(t, manifest(t, text)), nil)[0]
}

func live(t testing.TB, like *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(like.GroupVersionKind())
	NewWithT(t).Expect(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(like), obj)).To(Succeed())
	return obj
}

// owned is the ownership of a live object but for the times of writes, of which a correction may be a later one.
func owned(t testing.TB, like *unstructured.Unstructured) ownership.State {
	t.Helper()
	obj := live(t, like)
	entries := obj.GetManagedFields()
	for i := range entries {
		entries[i].Time = nil
	}
	obj.SetManagedFields(entries)
	return ownership.Observe(obj, applier.FieldManager)
}

func namespace(t testing.TB) string { return testbed.Namespace(t, nil, cluster) }
