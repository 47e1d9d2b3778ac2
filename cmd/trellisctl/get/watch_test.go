package get_test

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/cmd/trellisctl/get"
)

// TestWatchPrintsWhatChanges: after the list, each change is a line without headers. Other objects are left out.
func TestWatchPrintsWhatChanges(t *testing.T) {
	g := NewWithT(t)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	g.Expect(os.WriteFile(kubeconfig, []byte(`{"apiVersion":"v1","kind":"Config","current-context":"x",
"contexts":[{"name":"x","context":{"cluster":"x","namespace":"a"}}],
"clusters":[{"name":"x","cluster":{"server":"https://source.invalid"}}]}`), 0o600)).To(Succeed())
	mr := func(name, version, ready string) *resourcesv1alpha1.ManagedResource {
		mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name,
			ResourceVersion: version}}
		mr.Status.Conditions = []resourcesv1alpha1.Condition{{Type: "Ready",
			Status: resourcesv1alpha1.ConditionStatus(ready), Reason: "Because"}}
		return mr
	}
	out, in := io.Pipe()
	env := cli.NewEnv(genericiooptions.IOStreams{In: strings.NewReader(""), Out: in, ErrOut: in})
	env.Flags.KubeConfig = &kubeconfig
	env.NewTables = nil
	env.NewClient = func(*rest.Config) (client.WithWatch, error) {
		return fake.NewClientBuilder().WithScheme(cli.Scheme()).WithObjects(mr("one", "", "True"),
			mr("two", "", "True")).WithInterceptorFuncs(interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
				options ...client.ListOption) error {
				defer list.SetResourceVersion("100")
				return c.List(ctx, list, options...)
			},
			Watch: func(_ context.Context, _ client.WithWatch, _ client.ObjectList,
				options ...client.ListOption) (watch.Interface, error) {
				w := watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: 5})
				if from := (&client.ListOptions{}).ApplyOptions(options).Raw.ResourceVersion; from == "100" {
					w.Modify(mr("two", "101", "False"))
					w.Modify(mr("one", "102", "False"))
					w.Stop() // the API server ends it
				} else if from == "102" {
					w.Delete(mr("one", "103", "False"))
				}
				return w, nil
			},
		}).Build(), nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	command := get.New(env)
	command.SilenceErrors, command.SilenceUsage = true, true
	command.SetArgs([]string{"mr", "one", "--watch"})
	ended := make(chan error, 1)
	go func() {
		ended <- command.ExecuteContext(ctx)
		_ = in.Close()
	}()
	lines := bufio.NewReader(out)
	for _, want := range []string{`^NAME +CLASS +READY`, `^one +- +True`, `^one +- +False +Because`,
		`^managedresource.resources.gardener.cloud/one deleted`} {
		line, err := lines.ReadString('\n')
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(line).To(MatchRegexp(want))
	}
	cancel()
	g.Eventually(ended).Should(Receive(MatchError(context.Canceled)))
}
