package cluster

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/trellis-hub/trellis/cmd/trellisctl/account"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/cmd/trellisctl/remote"
	"github.com/trellis-hub/trellis/engine/apply"
)

// readOnly is a target with a service account that is cluster-admin and one of a tenant. Every write except a note on
// an account is an error.
func readOnly(t *testing.T, forbidden bool) *remote.Connection {
	t.Helper()
	bound := func(name, role string, subject rbacv1.Subject) *rbacv1.ClusterRoleBinding {
		return &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: []rbacv1.Subject{subject},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		}
	}
	write := func() error {
		t.Error("something was written")
		return errors.New("nothing may be written")
	}
	c := fake.NewClientBuilder().WithScheme(cli.Scheme()).WithObjects(
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "trellis"}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "mine"}},
		bound("a", account.ClusterAdmin, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "kube-system",
			Name: "trellis"}),
		bound("b", "reader", rbacv1.Subject{Kind: rbacv1.GroupKind, Name: "system:serviceaccounts:kube-system"}),
		bound("c", "other", rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "other", Name: "trellis"}),
	).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
			options ...client.ListOption) error {
			if forbidden {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "clusterrolebindings"}, "",
					errors.New("no"))
			}
			return c.List(ctx, list, options...)
		},
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return write() },
		Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error { return write() },
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return write() },
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch,
			options ...client.PatchOption) error {
			if _, isAccount := obj.(*corev1.ServiceAccount); !isAccount {
				return write()
			}
			return c.Patch(ctx, obj, patch, options...)
		},
	}).Build()
	return &remote.Connection{Target: apply.Target{Client: c}, UID: "uid-a"}
}

func TestAccountAndRoleComeFromFlagsOrAreConfirmed(t *testing.T) {
	for name, test := range map[string]struct {
		account     string
		flags       rotate
		interactive bool
		answer      string
		forbidden   bool
		code        int
		says        string
	}{
		"both flags": {account: "kube-system/trellis",
			flags: rotate{account: "kube-system/trellis", role: account.ClusterAdmin}},
		"the account has more than the role": {account: "kube-system/trellis",
			flags: rotate{account: "kube-system/trellis", role: "reader"}, code: cli.ExitUsage,
			says: "it has the ClusterRoles cluster-admin, reader, which is more than reader. There is no terminal"},
		"that is confirmed": {account: "kube-system/trellis",
			flags: rotate{account: "kube-system/trellis", role: "reader", yes: true}, says: "more than reader"},
		"no terminal": {account: "kube-system/trellis", code: cli.ExitUsage, says: "Service " +
			"account kube-system/trellis of the cluster with UID uid-a: it has the ClusterRoles cluster-admin, " +
			"reader. There is no terminal to confirm that"},
		"no role, and no terminal": {account: "kube-system/trellis",
			flags: rotate{account: "kube-system/trellis"}, code: cli.ExitUsage,
			says: "set --service-account and --role, or --yes"},
		"--yes": {account: "kube-system/trellis", flags: rotate{yes: true},
			says: "kube-system/trellis of the cluster with UID uid-a: it has the ClusterRoles cluster-admin, reader."},
		"confirmed": {account: "kube-system/trellis", interactive: true, answer: "y\n",
			says: "Give the hub a token of it? [y/N]"},
		"not confirmed": {account: "kube-system/trellis", interactive: true, answer: "n\n",
			code: cli.ExitRefused, says: "not confirmed"},
		"no answer": {account: "kube-system/trellis", interactive: true, code: cli.ExitRefused,
			says: "not confirmed"},
		"the account lacks the role": {account: "tenant/mine", flags: rotate{account: "tenant/mine",
			role: account.ClusterAdmin}, code: cli.ExitRefused, says: "service account tenant/mine lacks rights, and " +
			"rotating grants none: it has no ClusterRole instead of cluster-admin"},
		"it lacks it, with --yes": {account: "tenant/mine", flags: rotate{account: "tenant/mine",
			role: account.ClusterAdmin, yes: true}, code: cli.ExitRefused, says: "lacks rights"},
		"no rights are shown": {account: "tenant/mine", flags: rotate{yes: true},
			says: "it has no ClusterRole"},
		"the roles cannot be seen": {account: "kube-system/trellis", forbidden: true, flags: rotate{yes: true},
			says: "its roles cannot be seen"},
		"they cannot be verified": {account: "kube-system/trellis", forbidden: true,
			flags: rotate{account: "kube-system/trellis", role: account.ClusterAdmin}, code: cli.ExitRefused,
			says: "cannot be seen with this credential"},
		"the account does not exist": {account: "tenant/other", flags: rotate{account: "tenant/other",
			role: account.ClusterAdmin}, code: cli.ExitNotFound,
			says: "has no service account tenant/other, and rotating creates none"},
		"it does not exist, with yes": {account: "tenant/other", flags: rotate{account: "tenant/other", yes: true},
			code: cli.ExitNotFound, says: "creates none"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			streams, in, _, errOut := genericiooptions.NewTestIOStreams()
			in.WriteString(test.answer)
			env := cli.NewEnv(streams)
			env.Interactive = func() bool { return test.interactive }
			r := test.flags
			r.env = env
			key, err := account.ParseKey(test.account)
			g.Expect(err).NotTo(HaveOccurred())
			m := &maker{env: env, account: &account.Account{ObjectKey: key, Role: r.role,
				User: account.User{Key: account.UserPrefix + "1",
					Text: "me"}}, accept: r.acceptExisting}
			err = m.prepare(t.Context(), readOnly(t, test.forbidden))
			g.Expect(cli.ExitCode(err)).To(Equal(test.code), "%v", err)
			said := errOut.String()
			if err != nil {
				said += err.Error()
			}
			g.Expect(said).To(ContainSubstring(test.says))
		})
	}
}

// The annotation of the registration may be written by a tenant. The target reports to which account the token belongs.
func TestAccountIsThatOfThePresentToken(t *testing.T) {
	for username, want := range map[string]string{
		"system:serviceaccount:kube-system:trellis": "kube-system/trellis",
		"system:admin":                          "",
		"system:serviceaccount:":                "",
		"system:serviceaccount:kube-system":     "",
		"kube-system/trellis":                   "",
		"oidc:system:serviceaccount:a:b":        "",
		"system:serviceaccount:a:b:c":           "",
		"system:serviceaccount:a/b:c":           "",
		"system:serviceaccount:UPPER CASE:name": "",
	} {
		g := NewWithT(t)
		c := fake.NewClientBuilder().WithScheme(cli.Scheme()).WithInterceptorFuncs(interceptor.Funcs{
			Create: func(_ context.Context, _ client.WithWatch, obj client.Object, _ ...client.CreateOption) error {
				review, ok := obj.(*authenticationv1.SelfSubjectReview)
				g.Expect(ok).To(BeTrue())
				review.Status.UserInfo.Username = username
				return nil
			},
		}).Build()
		key, isAccount, err := account.Of(t.Context(), c)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(isAccount).To(Equal(want != ""), username)
		if isAccount {
			g.Expect(key.String()).To(Equal(want))
		}
	}
}

func TestTokensAreNotAskedForWithMoreThanTheFlagSays(t *testing.T) {
	for name, test := range map[string]struct {
		noted, flag string
		want        time.Duration
	}{
		"nothing is noted":                {"", "", account.TokenDuration},
		"less is noted":                   {"2h", "", 2 * time.Hour},
		"more is noted":                   {"87600h", "", account.TokenDuration},
		"too little is noted":             {"1s", "", account.TokenDuration},
		"less is noted, but a flag says":  {"2h", "3h", 3 * time.Hour},
		"nonsense is noted":               {"for ever", "", account.TokenDuration},
		"a flag says less than was noted": {"2h", "1h", time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			streams, _, _, _ := genericiooptions.NewTestIOStreams()
			command := newRotate(cli.NewEnv(streams))
			if test.flag != "" {
				g.Expect(command.Flags().Set("token-duration", test.flag)).To(Succeed())
			}
			flagged, err := command.Flags().GetDuration("token-duration")
			g.Expect(err).NotTo(HaveOccurred())
			r := &rotate{duration: flagged}
			noted := &corev1.Secret{}
			noted.Annotations = map[string]string{TokenDurationAnnotation: test.noted}
			got, err := r.tokenDuration(command, noted)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(Equal(test.want))
		})
	}
}
