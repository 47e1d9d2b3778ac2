package operate_test

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/cmd/trellisctl/operate"
)

// hub plays the hub: it does what the annotations ask for when the ManagedResource is read for the fourth time. The
// second and the third read are not answered.
func hub() interceptor.Funcs {
	reads := 0
	return interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
		if reads++; reads == 2 || reads == 3 {
			return &url.Error{Op: "Get", URL: "https://source.invalid", Err: errors.New("connection refused")}
		}
		err := c.Get(ctx, key, obj, options...)
		if mr, ok := obj.(*resourcesv1alpha1.ManagedResource); ok && reads > 3 {
			delete(mr.Annotations, resourcesv1alpha1.OperationAnnotation)
			applied := resourcesv1alpha1.Condition{Type: resourcesv1alpha1.ConditionResourcesApplied, Status: resourcesv1alpha1.ConditionTrue, Reason: "ApplySucceeded"}
			if mr.Annotations[resourcesv1alpha1.IgnoreAnnotation] != "" {
				applied.Reason = resourcesv1alpha1.ReasonManagedResourceIgnored
			}
			mr.Status.Conditions = []resourcesv1alpha1.Condition{applied, {Type: resourcesv1alpha1.ConditionReady, Status: resourcesv1alpha1.ConditionTrue, Reason: "Ready"}}
		}
		return err
	}}
}

func TestAnOperationOutlivesASourceThatIsSilentForAMoment(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	NewWithT(t).Expect(os.WriteFile(kubeconfig, []byte(`{"apiVersion":"v1","kind":"Config","current-context":"x","contexts":[{"name":"x","context":{"cluster":"x","namespace":"a"}}],
"clusters":[{"name":"x","cluster":{"server":"https://source.invalid"}}]}`), 0o600)).To(Succeed())
	for name, test := range map[string]struct {
		args []string
		out  string
	}{
		"reconcile": {nil, "managedresource/addons reconciled: Ready: \n"},
		"suspend":   {nil, "managedresource/addons suspended\n"},
		"resume":    {[]string{"-o", "name"}, "managedresource.resources.gardener.cloud/addons\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			streams, _, out, errOut := genericiooptions.NewTestIOStreams()
			env := cli.NewEnv(streams)
			env.Flags.KubeConfig = &kubeconfig
			env.NewTables = nil
			env.NewClient = func(*rest.Config) (client.WithWatch, error) {
				mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "addons"}}
				return fake.NewClientBuilder().WithScheme(cli.Scheme()).WithObjects(mr).WithInterceptorFuncs(hub()).Build(), nil
			}
			command := operate.NewReconcile(env)
			switch name {
			case "suspend":
				command = operate.NewSuspend(env)
			case "resume":
				command = operate.NewResume(env)
			}
			command.SetArgs(append([]string{"mr", "addons", "--timeout", "1m"}, test.args...))
			g.Expect(command.ExecuteContext(t.Context())).To(Succeed())
			g.Expect(out.String()).To(Equal(test.out))
			g.Expect(errOut.String()).To(ContainSubstring("the source cluster does not answer"))
		})
	}
}
