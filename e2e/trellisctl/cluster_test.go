package trellisctl

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cluster"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// registration reads the Secret of a target; nil if there is none.
func (p *place) registration(name string) *corev1.Secret {
	p.t.Helper()
	s := &corev1.Secret{}
	err := source.Client.Get(p.ctx, client.ObjectKey{Namespace: p.name, Name: name + "-kubeconfig"}, s)
	if apierrors.IsNotFound(err) {
		return nil
	}
	p.Expect(err).NotTo(HaveOccurred())
	return s
}

// stored is the user that a registration has the credential of.
func (p *place) stored(name string) *clientcmdapi.AuthInfo {
	p.t.Helper()
	config, err := clientcmd.Load(p.registration(name).Data["value"])
	p.Expect(err).NotTo(HaveOccurred())
	p.Expect(config.Contexts).To(HaveLen(1))
	p.Expect(config.AuthInfos).To(HaveLen(1))
	for _, user := range config.AuthInfos {
		return user
	}
	return nil
}

// lifetime is how long the stored token is good for in all.
func (p *place) lifetime(name string) time.Duration {
	p.t.Helper()
	parts := strings.Split(p.stored(name).Token, ".")
	p.Expect(parts).To(HaveLen(3))
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	p.Expect(err).NotTo(HaveOccurred())
	claims := struct{ Iat, Exp int64 }{}
	p.Expect(json.Unmarshal(raw, &claims)).To(Succeed())
	return time.Duration(claims.Exp-claims.Iat) * time.Second
}

func TestTheLifeOfACluster(t *testing.T) {
	p := newCluster(t)
	account := p.name + "/trellis"

	r := p.succeeds("cluster", "add", "shoot-a", "--from-kubeconfig", p.own, "--create-service-account",
		"--service-account", account, "--token-duration", "2h", "--wait", "--timeout", "90s")
	p.Expect(r.out).To(ContainSubstring("cluster/shoot-a registered"))
	p.Expect(p.lifetime("shoot-a")).To(Equal(2 * time.Hour))
	p.Expect(r.err).To(ContainSubstring("The hub is connected: "))
	p.Expect(p.stored("shoot-a").ClientCertificateData).To(BeEmpty(), "the credential of the administrator is not stored")
	p.Expect(p.stored("shoot-a").Token).NotTo(BeEmpty())
	p.Expect(p.registration("shoot-a").Labels).To(HaveKeyWithValue(hubv1alpha1.ClusterNameLabel, "shoot-a"))

	rotate := []string{"cluster", "rotate", "shoot-a", "--service-account", account, "--role", "cluster-admin",
		"--timeout", "90s"}
	p.fails(cli.ExitRefused, "is registered in namespace "+p.name+" already",
		"cluster", "add", "shoot-a", "--from-kubeconfig", p.own)
	p.Expect(p.succeeds("cluster", "list").out).To(MatchRegexp(`shoot-a +True +(Ready|DuplicateRegistration) +`))
	p.Expect(p.succeeds("cluster", "list", "-o", "name").out).To(Equal("targetcluster.hub.gardener.cloud/shoot-a\n"))
	p.Expect(p.succeeds(append(rotate, "-o", "name")...).out).To(Equal("targetcluster.hub.gardener.cloud/shoot-a\n"))
	p.Expect(p.succeeds("cluster", "describe", "shoot-a").out).To(And(
		MatchRegexp(`Credential: +token of service account `+account+`, for 2h0m0s each`), ContainSubstring("Connected"), ContainSubstring("Valid until")))
	list := &hubv1alpha1.TargetClusterList{}
	p.Expect(json.Unmarshal([]byte(p.succeeds("cluster", "list", "-o", "json").out), list)).To(Succeed())
	p.Expect(list.Items).To(HaveLen(1))
	p.Expect(list.Items[0].Kind).To(Equal("TargetCluster"))

	// The token renews itself.
	before := p.stored("shoot-a").Token
	time.Sleep(1100 * time.Millisecond) // expiry times of tokens are in seconds
	r = p.succeeds(rotate...)
	p.Expect(r.out).To(ContainSubstring("cluster/shoot-a rotated"))
	p.Expect(r.err).To(ContainSubstring("The hub has taken it: valid until"))
	p.Expect(p.stored("shoot-a").Token).NotTo(Equal(before))
	p.Expect(p.lifetime("shoot-a")).To(Equal(2 * time.Hour))

	// It cannot be removed while it is needed.
	p.apply("addons", p.configMap("a", "1"))
	r = p.fails(cli.ExitRefused, "cluster shoot-a is still needed by 1 ManagedResource: addons (1 object)", "cluster", "remove", "shoot-a")
	p.Expect(p.registration("shoot-a")).NotTo(BeNil())
	p.Expect(r.err).To(ContainSubstring("--confirm"))
	p.Expect(source.Client.Delete(p.ctx, testbed.ManagedResource(p.name, "addons"))).To(Succeed())
	p.Eventually(func() bool {
		return apierrors.IsNotFound(source.Client.Get(p.ctx, client.ObjectKey{Namespace: p.name, Name: "addons"}, &resourcesv1alpha1.ManagedResource{}))
	}).Should(BeTrue())

	// The count of the hub is slightly outdated: trellisctl waits for the current one.
	r = p.succeeds("cluster", "remove", "shoot-a", "--from-kubeconfig", p.own)
	p.Expect(r.out).To(And(ContainSubstring("cluster/shoot-a removed"), ContainSubstring("serviceaccount/trellis deleted in the cluster")))
	p.Expect(p.registration("shoot-a")).To(BeNil())
	p.Expect(apierrors.IsNotFound(target.Client.Get(p.ctx, client.ObjectKey{Namespace: p.name, Name: "trellis"}, &corev1.ServiceAccount{}))).To(BeTrue())
	binding := client.ObjectKey{Name: "trellisctl:" + p.name + ":trellis"}
	p.Expect(apierrors.IsNotFound(target.Client.Get(p.ctx, binding, &rbacv1.ClusterRoleBinding{}))).To(BeTrue())
	p.fails(cli.ExitNotFound, "there is no TargetCluster shoot-a", "cluster", "describe", "shoot-a")
}

// TestARegistrationGetsTheLabelsThatTheHubSelects: the hub of these tests selects all, so its heartbeat is that of
// another one.
func TestARegistrationGetsTheLabelsThatTheHubSelects(t *testing.T) {
	p := newCluster(t)
	lease := &coordinationv1.Lease{ObjectMeta: metaOf(testbed.HubNamespace, p.name)}
	lease.Annotations = map[string]string{
		hubv1alpha1.RegistrationSelectorAnnotation: "example.com/hub=yes,example.com/opt-in,tier in (a,b)"}
	lease.Spec.RenewTime = ptr.To(metav1.NowMicro())
	p.Expect(source.Client.Create(p.ctx, lease)).To(Succeed())
	add := []string{"cluster", "add", "shoot-a", "--from-kubeconfig", p.own, "--hub-lease", p.name}
	p.fails(cli.ExitRefused, "the hub would not use the registration", add...)
	p.Expect(p.registration("shoot-a")).To(BeNil())
	r := p.succeeds(append(add, "--labels", "tier=b,team=c")...)
	p.Expect(r.err).To(ContainSubstring("example.com/hub=yes,example.com/opt-in=true, which the hub's selector asks for"))
	p.Expect(p.registration("shoot-a").Labels).To(Equal(map[string]string{
		hubv1alpha1.ClusterNameLabel: "shoot-a", "example.com/hub": "yes", "example.com/opt-in": "true", "tier": "b",
		"team": "c",
	}))
	p.register("shoot-b")
	p.Expect(p.succeeds("cluster", "describe", "shoot-b", "--hub-lease", p.name).out).
		To(ContainSubstring("the hub does not use the Secret shoot-b-kubeconfig"))
	r = p.ctl("check", "--hub-lease", p.name, "--allow-network", "127.0.0.0/8")
	p.Expect(r.out).To(And(ContainSubstring("; 1 kubeconfig Secret left out"), ContainSubstring("1 of 1 answer")))
	r = p.ctl("why", "cluster", "shoot-b", "--hub-lease", p.name)
	p.Expect(r.code).To(Equal(cli.ExitFound))
	p.Expect(r.out).To(ContainSubstring("RegistrationNotSelected"))
}

func TestTheLastOneToUseAServiceAccountTakesItAway(t *testing.T) {
	p, q := newPlace(t), another(t)
	account := client.ObjectKey{Namespace: p.name, Name: "shared"}
	binding := client.ObjectKey{Name: "trellisctl:" + p.name + ":shared"}
	exists := func() bool {
		t.Helper()
		sa, rights := target.Client.Get(p.ctx, account, &corev1.ServiceAccount{}), target.Client.Get(p.ctx, binding, &rbacv1.ClusterRoleBinding{})
		p.Expect(client.IgnoreNotFound(sa)).To(Succeed())
		p.Expect(apierrors.IsNotFound(rights)).To(Equal(apierrors.IsNotFound(sa)), "account and rights go together")
		return sa == nil
	}
	// In two namespaces of one source, and under the same name in another source.
	elsewhere := func(args ...string) []string { return append([]string{"--kubeconfig", admin}, args...) }
	create := []string{"cluster", "add", "shoot-a", "--from-kubeconfig", admin, "--create-service-account", "--service-account", account.String()}
	remove := []string{"cluster", "remove", "shoot-a", "--from-kubeconfig", admin}
	p.succeeds(create...)
	p.succeeds(elsewhere(create...)...)
	q.succeeds(append(create, "--wait", "--timeout", "90s")...)

	r := p.succeeds(remove...)
	p.Expect(r.out).To(And(ContainSubstring("cluster/shoot-a removed"), Not(ContainSubstring("deleted"))))
	p.Expect(r.err).To(And(
		ContainSubstring("stays in the cluster, and its token is valid until it expires: others use it: "),
		ContainSubstring(q.name+"/shoot-a in the source cluster with UID "), ContainSubstring(p.name+"/shoot-a in the source cluster with UID "+string(uidOf(p, target)))))
	p.Expect(exists()).To(BeTrue())

	// A user is recorded once, and the token of the others stays valid.
	q.succeeds("cluster", "rotate", "shoot-a", "--from-kubeconfig", admin, "--service-account", account.String(),
		"--role", "cluster-admin", "--timeout", "90s")
	r = q.succeeds(append(remove, "-o", "json")...)
	p.Expect(r.out).NotTo(ContainSubstring("deleted"))
	p.Expect(exists()).To(BeTrue())
	p.succeeds(elsewhere("cluster", "rotate", "shoot-a", "--yes", "--wait=false")...)

	r = p.succeeds(elsewhere(append(remove, "-o", "json")...)...)
	outcome := cluster.Outcome{}
	p.Expect(json.Unmarshal([]byte(r.out), &outcome)).To(Succeed())
	p.Expect(outcome).To(Equal(cluster.Outcome{
		Namespace: p.name, Name: "shoot-a", Action: cluster.Removed, Version: outcome.Version, UID: uidOf(p, target), ServiceAccount: account.String(),
		Deleted: []string{"serviceaccount/shared", "clusterrolebinding.rbac.authorization.k8s.io/" + binding.Name},
	}))
	p.Expect(exists()).To(BeFalse())
}

// One that was made before they were noted may have any number of users.
func TestAServiceAccountThatDoesNotNoteItsUserStays(t *testing.T) {
	p := newPlace(t)
	key := client.ObjectKey{Namespace: p.name, Name: "old"}
	p.succeeds("cluster", "add", "shoot-a", "--from-kubeconfig", admin, "--create-service-account", "--service-account", key.String())
	sa := &corev1.ServiceAccount{}
	p.Expect(target.Client.Get(p.ctx, key, sa)).To(Succeed())
	p.Expect(sa.Annotations).NotTo(BeEmpty())
	sa.Annotations = nil
	p.Expect(target.Client.Update(p.ctx, sa)).To(Succeed())
	r := p.succeeds("cluster", "remove", "shoot-a", "--from-kubeconfig", admin)
	p.Expect(r.out).NotTo(ContainSubstring("deleted in the cluster"))
	p.Expect(r.err).To(ContainSubstring("so other users are not known"))
	p.Expect(target.Client.Get(p.ctx, key, sa)).To(Succeed())
	p.Expect(target.Client.Get(p.ctx, client.ObjectKey{Name: "trellisctl:" + p.name + ":old"}, &rbacv1.ClusterRoleBinding{})).To(Succeed())
}

func TestAServiceAccountThatAnotherClientMadeStays(t *testing.T) {
	p := newPlace(t)
	theirs := &corev1.ServiceAccount{ObjectMeta: metaOf(p.name, "theirs")}
	p.Expect(target.Client.Create(p.ctx, theirs)).To(Succeed())
	p.succeeds("cluster", "add", "shoot-a", "--from-kubeconfig", admin, "--create-service-account", "--service-account", p.name+"/theirs", "--wait", "--timeout", "90s")
	r := p.succeeds("cluster", "remove", "shoot-a", "--from-kubeconfig", admin)
	p.Expect(r.out).To(And(ContainSubstring("clusterrolebinding"), Not(ContainSubstring("serviceaccount"))))
	p.Expect(target.Client.Get(p.ctx, client.ObjectKeyFromObject(theirs), theirs)).To(Succeed())
	p.Expect(theirs.Annotations).To(BeEmpty())
}

// uidOf is the UID of a cluster.
func uidOf(p *place, c *testbed.Cluster) types.UID {
	p.t.Helper()
	system := &corev1.Namespace{}
	p.Expect(c.Client.Get(p.ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, system)).To(Succeed())
	return system.UID
}

func TestAClusterIsRemovedThoughItIsNeededIfThatIsConfirmed(t *testing.T) {
	p := newPlace(t)
	p.register("shoot-a")
	p.apply("addons", p.configMap("a", "1"))
	r := p.succeeds("cluster", "remove", "shoot-a", "--confirm")
	p.Expect(r.err).To(ContainSubstring(
		"cluster shoot-a keeps 1 object, which no hub reconciles from now on, of: addons (1 object)"))
	p.Expect(p.registration("shoot-a")).To(BeNil())
	p.Expect(target.Client.Get(p.ctx, client.ObjectKey{Namespace: p.name, Name: "a"}, &corev1.ConfigMap{})).To(Succeed())
	p.eventually("addons", "Ready", "False", "TargetNotFound")
	why := p.ctl("why", "mr", "addons")
	p.Expect(why.code).To(Equal(cli.ExitFound))
	p.Expect(why.out).To(And(MatchRegexp("RegistrationGone|TargetNotFound"), MatchRegexp("cluster add (NAME|shoot-a) --from-kubeconfig FILE")))
}

func TestAServiceAccountWithFewerRightsRenewsItsToken(t *testing.T) {
	p := newPlace(t)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: p.name}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"*"}},
	}}
	p.Expect(target.Client.Create(p.ctx, role)).To(Succeed())
	r := p.succeeds("cluster", "add", "shoot-a", "--from-kubeconfig", admin, "--create-service-account", "--service-account", p.name+"/few", "--role", p.name, "--wait", "--timeout", "90s")
	p.Expect(r.err).To(ContainSubstring("may not do everything"))
	time.Sleep(1100 * time.Millisecond) // expiry times of tokens are in seconds
	p.fails(cli.ExitUsage, "its roles cannot be seen with this credential", "cluster", "rotate", "shoot-a",
		"--service-account", p.name+"/few")
	r = p.succeeds("cluster", "rotate", "shoot-a", "--service-account", p.name+"/few", "--yes", "--timeout", "90s")
	p.Expect(r.err).To(ContainSubstring("may not do everything"))

	// A binding cannot change its role, so an account cannot silently get other rights than were asked for.
	p.fails(cli.ExitRefused, "binds the service account to the ClusterRole "+p.name+" instead of cluster-admin",
		"cluster", "add", "shoot-b", "--from-kubeconfig", admin, "--create-service-account", "--service-account", p.name+"/few")
}

func TestWhatIsNotRegistered(t *testing.T) {
	p := newPlace(t)
	change := func(f func(c *clientcmdapi.Config, cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo)) string {
		raw := testbed.Rewrite(target.Kubeconfig(), func(c *testbed.KubeConfig) {
			context := c.Contexts[c.CurrentContext]
			f(c, c.Clusters[context.Cluster], c.AuthInfos[context.AuthInfo])
		})
		return p.file("kubeconfig", string(raw))
	}
	unprivileged, err := target.ClientCertKubeconfig("unprivileged", nil, time.Hour)
	p.Expect(err).NotTo(HaveOccurred())
	expired, err := target.ServiceAccountKubeconfig(p.ctx, p.name, "expired", -time.Hour)
	p.Expect(err).NotTo(HaveOccurred())
	for name, test := range map[string]struct {
		args []string
		code int
		says string
	}{
		"no file":      {[]string{"--from-kubeconfig", "does-not-exist"}, cli.ExitFailed, "no such file"},
		"no flag":      {nil, cli.ExitUsage, "--from-kubeconfig is required"},
		"no config":    {[]string{"--from-kubeconfig", p.file("x", "{not: [a kubeconfig")}, cli.ExitRefused, "is no kubeconfig"},
		"other things": {[]string{"--from-kubeconfig", p.file("x", "kind: Pod\napiVersion: v1\n")}, cli.ExitRefused, "is no kubeconfig"},
		"no context":   {[]string{"--from-kubeconfig", admin, "--context", "nowhere"}, cli.ExitNotFound, `has no context "nowhere": it has `},
		"exec": {[]string{"--from-kubeconfig", change(func(_ *clientcmdapi.Config, _ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
			*u = clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{Command: "aws", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode}}
		})}, cli.ExitRefused, "exec plug-in: the hub runs no commands"},
		"insecure": {[]string{"--from-kubeconfig", change(func(_ *clientcmdapi.Config, c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
			c.CertificateAuthorityData, c.InsecureSkipTLSVerify = nil, true
		})}, cli.ExitRefused, "insecure-skip-tls-verify"},
		"missing file": {[]string{"--from-kubeconfig", change(func(_ *clientcmdapi.Config, _ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
			u.ClientKeyData, u.ClientKey = nil, "/does/not/exist"
		})}, cli.ExitRefused, "refers to a file that cannot be read"},
		"unreachable": {[]string{"--connect-timeout", "2s", "--from-kubeconfig", change(func(_ *clientcmdapi.Config, c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
			c.Server = "https://127.0.0.1:1"
		})}, cli.ExitUnreachable, "does not answer"},
		"no rights": {[]string{"--from-kubeconfig", p.file("x", string(unprivileged))}, cli.ExitRefused,
			"may not read the namespace kube-system"},
		"expired":     {[]string{"--from-kubeconfig", p.file("x", string(expired))}, cli.ExitRefused, "does not accept the credential"},
		"bad name":    {[]string{"--from-kubeconfig", admin, "--class", "a/b"}, cli.ExitUsage, "becomes the value of a label"},
		"short token": {[]string{"--from-kubeconfig", admin, "--create-service-account", "--token-duration", "1m"}, cli.ExitUsage, "no tokens for less than 10m0s"},
		"no role":     {[]string{"--from-kubeconfig", admin, "--create-service-account", "--role", "does-not-exist"}, cli.ExitNotFound, "ClusterRole does-not-exist"},
	} {
		t.Run(name, func(t *testing.T) {
			q := &place{WithT: NewWithT(t), t: t, ctx: p.ctx, name: p.name}
			q.fails(test.code, test.says, append([]string{"cluster", "add", "shoot-x"}, test.args...)...)
			q.Expect(q.registration("shoot-x")).To(BeNil())
		})
	}
	r := (&place{WithT: p.WithT, t: t, ctx: p.ctx, name: "does-not-exist"}).ctl("cluster", "add", "shoot-x", "--from-kubeconfig", admin)
	p.Expect(r.code).To(Equal(cli.ExitNotFound))
	p.Expect(r.err).To(ContainSubstring("has no namespace does-not-exist"))
}

func TestFilesAreEmbedded(t *testing.T) {
	p := newPlace(t)
	directory := t.TempDir()
	raw := testbed.Rewrite(target.Kubeconfig(), func(c *testbed.KubeConfig) {
		context := c.Contexts[c.CurrentContext]
		user, cluster := c.AuthInfos[context.AuthInfo], c.Clusters[context.Cluster]
		for file, content := range map[string][]byte{"crt": user.ClientCertificateData, "key": user.ClientKeyData, "ca": cluster.CertificateAuthorityData} {
			p.Expect(os.WriteFile(directory+"/"+file, content, 0o600)).To(Succeed())
		}
		user.ClientCertificateData, user.ClientKeyData, cluster.CertificateAuthorityData = nil, nil, nil
		user.ClientCertificate, user.ClientKey, cluster.CertificateAuthority = "crt", "key", "ca" // beside the kubeconfig
		c.Contexts["other"] = &clientcmdapi.Context{Cluster: "nowhere", AuthInfo: "missing"}
	})
	p.Expect(os.WriteFile(directory+"/kubeconfig", raw, 0o600)).To(Succeed())
	p.succeeds("cluster", "add", "shoot-a", "--from-kubeconfig", directory+"/kubeconfig", "--wait", "--timeout", "90s")
	p.Expect(p.stored("shoot-a").ClientKey).To(BeEmpty())
	p.Expect(p.stored("shoot-a").ClientKeyData).NotTo(BeEmpty())
}

// bind makes a service account of the namespace in the target its administrator.
func (p *place) bind(account string) {
	p.t.Helper()
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: p.name + "-" + account},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: p.name, Name: account}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
	}
	p.Expect(target.Client.Create(p.ctx, binding)).To(Succeed())
}

// A tenant that may write the registration could try to make its own account an administrator.
func TestRotationTakesNoAccountFromTheRegistration(t *testing.T) {
	p := newPlace(t)
	hubs, mine := p.name+"/hubs", p.name+"/mine"
	p.succeeds("cluster", "add", "shoot-a", "--from-kubeconfig", admin, "--create-service-account",
		"--service-account", hubs)
	p.Expect(target.Client.Create(p.ctx, &corev1.ServiceAccount{ObjectMeta: metaOf(p.name, "mine")})).To(Succeed())
	forge := func() {
		t.Helper()
		registration := p.registration("shoot-a")
		registration.Annotations[cluster.ServiceAccountAnnotation] = mine
		registration.Annotations[cluster.TokenDurationAnnotation] = "87600h"
		p.Expect(source.Client.Update(p.ctx, registration)).To(Succeed())
	}
	forge()
	before := p.registration("shoot-a").Data["value"]
	rotate := func(args ...string) []string {
		return append([]string{"cluster", "rotate", "shoot-a", "--wait=false"}, args...)
	}
	p.fails(cli.ExitUsage, "There is no terminal to confirm that", rotate()...)
	p.fails(cli.ExitUsage, "rotating creates no service account and grants no rights", rotate("--from-kubeconfig",
		admin, "--create-service-account")...)
	p.fails(cli.ExitRefused, "the present token is of service account "+hubs, rotate("--service-account", mine,
		"--yes")...)
	p.fails(cli.ExitRefused, "lacks rights, and rotating grants none", rotate("--from-kubeconfig", admin,
		"--service-account", mine, "--role", "cluster-admin")...)
	p.Expect(p.registration("shoot-a").Data["value"]).To(Equal(before))

	r := p.succeeds(rotate("--yes")...)
	p.Expect(r.err).To(And(ContainSubstring("the registration notes service account "+mine+", but its token is of "+
		""+hubs), ContainSubstring("Service account "+hubs)))
	p.Expect(p.registration("shoot-a").Annotations).To(HaveKeyWithValue(cluster.ServiceAccountAnnotation, hubs))
	p.Expect(p.lifetime("shoot-a")).To(BeNumerically("<=", 720*time.Hour))
	forge()
	r = p.succeeds("cluster", "remove", "shoot-a", "--from-kubeconfig", admin, "--wait=false")
	p.Expect(r.err).To(ContainSubstring("it does not note this registration"))
	bindings := &rbacv1.ClusterRoleBindingList{}
	p.Expect(target.Client.List(p.ctx, bindings)).To(Succeed())
	for i := range bindings.Items {
		for _, subject := range bindings.Items[i].Subjects {
			p.Expect(subject.Namespace == p.name && subject.Name == "mine").To(BeFalse(), bindings.Items[i].Name)
		}
	}
}

func TestARotationToAnotherClusterIsRefused(t *testing.T) {
	p := newPlace(t)
	p.register("shoot-a")
	before := p.registration("shoot-a").Data["value"]
	p.fails(cli.ExitRefused, "this is another cluster", "cluster", "rotate", "shoot-a", "--from-kubeconfig", kubeconfig)
	p.fails(cli.ExitRefused, "this is another cluster", "cluster", "rotate", "shoot-a", "--from-kubeconfig",
		kubeconfig, "--service-account", p.name+"/wrong", "--yes")
	err := source.Client.Get(p.ctx, client.ObjectKey{Namespace: p.name, Name: "wrong"}, &corev1.ServiceAccount{})
	p.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "nothing is created in a cluster that is not meant")
	p.fails(cli.ExitUsage, "is none that trellisctl can renew", "cluster", "rotate", "shoot-a")
	p.fails(cli.ExitNotFound, "is not registered", "cluster", "rotate", "shoot-b")
	p.Expect(p.registration("shoot-a").Data["value"]).To(Equal(before))

	// From the administrator's certificate to a service account.
	toAccount := []string{"cluster", "rotate", "shoot-a", "--from-kubeconfig", admin, "--service-account",
		p.name + "/trellis", "--role", "cluster-admin", "--timeout", "90s"}
	p.fails(cli.ExitNotFound, "rotating creates none", toAccount...)
	p.Expect(target.Client.Create(p.ctx, &corev1.ServiceAccount{ObjectMeta: metaOf(p.name, "trellis")})).To(Succeed())
	p.fails(cli.ExitRefused, "lacks rights, and rotating grants none", toAccount...)
	p.bind("trellis")
	r := p.succeeds(toAccount...)
	p.Expect(r.err).To(ContainSubstring("The hub has taken it"))
	p.Expect(p.registration("shoot-a").Annotations).To(HaveKeyWithValue(cluster.ServiceAccountAnnotation, p.name+"/trellis"))

	// And to the source as a target, which is meant.
	r = p.succeeds("cluster", "rotate", "shoot-a", "--from-kubeconfig", kubeconfig, "--confirm-identity", "--timeout", "90s")
	p.Expect(p.registration("shoot-a").Annotations).NotTo(HaveKey(cluster.ServiceAccountAnnotation))
	p.Expect(strings.Count(r.out, "rotated")).To(Equal(1))
	p.Expect(r.err).To(ContainSubstring("The service account " + p.name + "/trellis stays in the cluster"))
	p.Eventually(func() string {
		tc := &hubv1alpha1.TargetCluster{}
		p.Expect(source.Client.Get(p.ctx, client.ObjectKey{Namespace: p.name, Name: "shoot-a"}, tc)).To(Succeed())
		if tc.Status.ClusterUID == uidOf(p, source) {
			return "source"
		}
		return "another one"
	}).Should(Equal("source"))
}
