package managedresource_test

import (
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd/api"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// badRegistration is a registration that the hub cannot use, or must not.
type badRegistration struct {
	kubeconfig func(p place) []byte
	// refused is true if nothing is even dialled.
	refused bool
	reason  string
	says    []string
	// secret is true if there is something in it that must not be shown.
	secret bool
}

func badRegistrations() map[string]badRegistration {
	good := target.Kubeconfig
	user := func(change func(u *api.AuthInfo)) func(place) []byte {
		return func(place) []byte {
			return testbed.Rewrite(good(), func(c *testbed.KubeConfig) {
				for name := range c.AuthInfos {
					c.AuthInfos[name] = &api.AuthInfo{}
					change(c.AuthInfos[name])
				}
			})
		}
	}
	server := func(address func(p place) string) func(place) []byte {
		return func(p place) []byte {
			return testbed.Rewrite(good(), func(c *testbed.KubeConfig) {
				for _, cluster := range c.Clusters {
					cluster.Server = "https://" + address(p)
				}
			})
		}
	}
	const refused, invalid, unreachable = hubv1alpha1.ReasonKubeconfigRefused, hubv1alpha1.ReasonKubeconfigInvalid, hubv1alpha1.ReasonUnreachable
	return map[string]badRegistration{
		"an exec plug-in": {refused: true, secret: true, reason: refused, says: []string{"exec plug-in", "token or a client certificate"},
			kubeconfig: func(p place) []byte {
				ran := filepath.Join(p.t.TempDir(), "ran")
				p.t.Cleanup(func() { p.Expect(ran).NotTo(BeAnExistingFile()) })
				return user(func(u *api.AuthInfo) {
					u.Exec = &api.ExecConfig{APIVersion: "client.authentication.k8s.io/v1", Command: "touch", Args: []string{ran, marker}, InteractiveMode: api.NeverExecInteractiveMode}
				})(p)
			}},
		"a tokenFile with a token that works": {refused: true, reason: refused, says: []string{"tokenFile", "put the token into token"},
			kubeconfig: func(p place) []byte {
				kubeconfig, err := target.ServiceAccountKubeconfig(p.ctx, p.ns, "default", time.Hour)
				p.Expect(err).NotTo(HaveOccurred())
				file := filepath.Join(p.t.TempDir(), "token")
				return testbed.Rewrite(kubeconfig, func(c *testbed.KubeConfig) {
					for _, u := range c.AuthInfos {
						p.Expect(os.WriteFile(file, []byte(u.Token), 0o600)).To(Succeed())
						u.TokenFile, u.Token = file, ""
					}
				})
			}},
		"an auth provider": {refused: true, secret: true, reason: refused, says: []string{"auth-provider"},
			kubeconfig: user(func(u *api.AuthInfo) {
				u.AuthProvider = &api.AuthProviderConfig{Name: "oidc", Config: map[string]string{"client-secret": marker}}
			})},
		"impersonation": {refused: true, reason: refused, says: []string{"impersonates"},
			kubeconfig: func(place) []byte {
				return testbed.Rewrite(good(), func(c *testbed.KubeConfig) {
					for _, u := range c.AuthInfos {
						u.Impersonate = "admin"
					}
				})
			}},
		"garbage": {refused: true, secret: true, reason: invalid, says: []string{"no kubeconfig"},
			kubeconfig: func(place) []byte { return []byte("apiVersion: v1\nkind: Config\nusers: [" + marker + ": {{") }},
		"binary garbage": {refused: true, secret: true, reason: invalid, says: []string{"no kubeconfig"},
			kubeconfig: func(place) []byte { return append([]byte{0, 1, 2, 0xff, 0xfe}, marker...) }},
		"YAML of something else": {refused: true, secret: true, reason: invalid, says: []string{"kubeconfig"},
			kubeconfig: func(place) []byte { return []byte("apiVersion: v1\nkind: Secret\nstringData: {a: " + marker + "}\n") }},
		"no context": {refused: true, secret: true, reason: invalid, says: []string{"no current-context"},
			kubeconfig: func(place) []byte {
				return []byte("apiVersion: v1\nkind: Config\nusers: [{name: a, user: {token: " + marker + "}}]\n")
			}},
		"a token with a line break inside": {refused: true, secret: true, reason: invalid, says: []string{"the token has characters"},
			kubeconfig: user(func(u *api.AuthInfo) { u.Token = marker + "\n" + marker })},
		"a token that the target does not accept": {secret: true, reason: hubv1alpha1.ReasonUnauthorized,
			kubeconfig: user(func(u *api.AuthInfo) { u.Token = marker })},
		"a closed port": {reason: unreachable, says: []string{"cannot be reached"},
			kubeconfig: server(func(place) string { return "127.0.0.1:1" })},
		"a server that accepts and never answers": {reason: unreachable, kubeconfig: server(mute)},
	}
}

// mute returns the address of a server that accepts connections and never answers.
func mute(p place) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	p.Expect(err).NotTo(HaveOccurred())
	var open []net.Conn
	var done sync.WaitGroup
	done.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			open = append(open, c)
		}
	})
	p.t.Cleanup(func() {
		_ = listener.Close()
		done.Wait()
		for _, c := range open {
			_ = c.Close()
		}
	})
	return listener.Addr().String()
}

// register writes the registration of a target, new or not.
func (p place) register(name string, kubeconfig []byte) {
	p.t.Helper()
	s := testbed.Registration(p.ns, name, kubeconfig)
	err := p.source.Client.Create(p.ctx, s)
	if apierrors.IsAlreadyExists(err) {
		p.edit(p.source, s, func() { s.Data = map[string][]byte{"value": kubeconfig} })
		return
	}
	p.Expect(err).NotTo(HaveOccurred())
}

// pick creates a ManagedResource that picks a target of the namespace.
func (p place) pick(name, targetName string) {
	p.t.Helper()
	p.content(name, testbed.ConfigMap(p.ns, name, "1"))
	mr := testbed.ManagedResource(p.ns, name, name)
	mr.Labels = map[string]string{hubv1alpha1.ClusterNameLabel: targetName}
	p.inSource(mr)
}

func TestBadRegistrationSaysWhyAndHeals(t *testing.T) {
	t.Parallel()
	for name, test := range badRegistrations() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := registered(t) // "a" is good
			p.register("bad", test.kubeconfig(p))
			p.pick("good", "a")
			p.pick("mr", "bad")
			p.awaitReady("good")

			p.awaitTarget("bad", hubv1alpha1.ConditionReady, metav1.ConditionFalse, test.reason, test.says...)
			p.awaitTarget("bad", hubv1alpha1.ConditionConnected, metav1.ConditionFalse, test.reason, test.says...)
			if test.refused {
				p.awaitTarget("bad", hubv1alpha1.ConditionCredentialsValid, metav1.ConditionFalse, test.reason, test.says...)
				p.await("mr", has(ready, unknown, resourcesv1alpha1.ReasonTargetRefused, append(test.says, p.ns+"/bad")...))
			} else {
				p.await("mr", has(ready, unknown, resourcesv1alpha1.ReasonTargetUnreachable, p.ns+"/bad", test.reason))
			}
			p.await("mr", has(healthy, unknown, ""), has(progressing, unknown, ""))
			p.fence()
			p.expectAbsent(p.configMap("mr"))
			p.Expect(p.get("mr").Finalizers).To(BeEmpty(), "nothing of it is anywhere")
			p.expectNoLeak()

			p.register("bad", target.Kubeconfig())
			p.awaitReady("mr")
			p.awaitValue("mr", "1")
			p.awaitTarget("bad", hubv1alpha1.ConditionReady, metav1.ConditionTrue, hubv1alpha1.ReasonDuplicateRegistration) // of "a"
		})
	}
}

// That there was no target is forgotten when there is one, even if it is of no use: the reason has to be the present
// one.
func TestBadRegistrationAfterNone(t *testing.T) {
	t.Parallel()
	for name, reason := range map[string]string{
		"garbage":       resourcesv1alpha1.ReasonTargetRefused,
		"a closed port": resourcesv1alpha1.ReasonTargetUnreachable,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := registered(t)
			p.pick("mr", "late")
			p.await("mr", has(applied, no, resourcesv1alpha1.ReasonTargetNotFound), has(ready, no, resourcesv1alpha1.ReasonTargetNotFound))
			p.register("late", badRegistrations()[name].kubeconfig(p))
			p.await("mr", has(applied, unknown, reason), has(ready, unknown, reason, p.ns+"/late"))
			p.register("late", target.Kubeconfig())
			p.awaitReady("mr")

			// The other way round: what was applied is reported again when the target is back.
			p.unregister("late")
			p.await("mr", has(applied, no, resourcesv1alpha1.ReasonTargetNotFound))
			p.awaitTargetClusterGone("late")
			p.register("late", badRegistrations()[name].kubeconfig(p))
			p.await("mr", has(applied, unknown, reason), has(ready, unknown, reason))
			p.register("late", target.Kubeconfig())
			p.awaitReady("mr")
			p.awaitValue("mr", "1")
		})
	}
}

// A kubeconfig that stops to be of use leaves the connection in place that works, and what was applied over it.
func TestRegistrationThatTurnsBadDeletesNothingAndHeals(t *testing.T) {
	t.Parallel()
	for name, test := range badRegistrations() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := registered(t)
			p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
			p.mr("mr", "content")
			p.awaitReady("mr")
			uid := read(p, p.configMap("one")).UID

			p.register("a", test.kubeconfig(p))
			p.awaitTarget("a", hubv1alpha1.ConditionCredentialsValid, metav1.ConditionFalse, test.reason, test.says...)
			p.awaitTarget("a", hubv1alpha1.ConditionReady, metav1.ConditionTrue, "")
			p.fence() // over the connection that is left
			cm := p.configMap("one")
			p.edit(target, cm, func() { cm.Data["key"] = "by hand" })
			p.awaitValue("one", "1")
			p.Expect(read(p, p.configMap("one")).UID).To(Equal(uid))
			p.Expect(p.get("mr")).To(has(ready, yes, ""))
			p.expectNoLeak()

			p.register("a", target.Kubeconfig())
			p.awaitTarget("a", hubv1alpha1.ConditionCredentialsValid, metav1.ConditionTrue, hubv1alpha1.ReasonCredentialsAccepted)
			p.fence()
			p.Expect(read(p, p.configMap("one")).UID).To(Equal(uid))
		})
	}
}
