package isolation_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/controllers/tokenrequestor"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// scenario is what happens in one target in a test, step by step.
type scenario struct {
	*bench
	*stage
	model  *model
	random *rand.Rand
}

// scenarios registers some places and returns when all controllers work there.
func (b *bench) scenarios(who ...int) (scenarios []*scenario) {
	b.t.Helper()
	runs++
	for _, i := range who {
		random := rand.New(rand.NewPCG(uint64(i), 0)) //nolint:gosec // one of two
		scenarios = append(scenarios, &scenario{b, b.register(i), newModel(), random})
	}
	b.engaged(len(who))
	b.t.Cleanup(func() { b.end(scenarios...) })
	return scenarios
}

// end removes registrations, if they are still there, and what was in the targets.
func (b *bench) end(scenarios ...*scenario) {
	b.t.Helper()
	ctx := context.WithoutCancel(b.t.Context()) // the test is over
	for _, scenario := range scenarios {
		b.Expect(scenario.leave(ctx)).To(Succeed())
	}
	b.engaged(0)
	for _, scenario := range scenarios {
		b.Expect(scenario.clear(ctx)).To(Succeed())
	}
}

// take takes a step and waits for what follows.
func (t *scenario) take(next step) {
	t.t.Helper()
	t.t.Logf("%s: %s", t.stage.Name, next.text)
	t.Expect(next.do(t.t.Context(), t.stage)).To(Succeed(), next.text)
	if next.done != nil {
		t.Eventually(func() error { return next.done(t.t.Context(), t.stage) }).Should(Succeed(), next.text)
	}
}

// everything takes a step for each controller, with a few more for those that do nothing at first. What may be
// collected is not awaited.
func (t *scenario) everything() {
	t.t.Helper()
	for range 2 {
		for _, p := range parts {
			t.take(p.draw(t.model, t.random))
		}
	}
	t.Eventually(func() bool { return t.calls.answered(t.host) }).Should(BeTrue())
}

// written are the calls to the target so far, but for those whose number is a matter of time.
func (t *scenario) written() (all []string) {
	for _, c := range t.calls.to(t.host) {
		if c.compared {
			all = append(all, c.String())
		}
	}
	return all
}

// MC-1 A target that is registered, gets another credential and goes again is nothing to the other one: no watch of it
// begins again, and nothing is written there twice.
func TestMC1_ATargetThatComesAndGoes(t *testing.T) {
	b := start(t)
	stays := b.scenarios(0)[0]
	stays.everything()
	stays.Eventually(func() error { return stays.model.rest()(t.Context(), stays.stage) }).Should(Succeed())
	b.Eventually(func() bool { return b.calls.answered(stays.host) }).Should(BeTrue())
	watches, written := b.calls.initials(stays.host), stays.written()
	b.Expect(watches).To(BeNumerically(">", 0))

	comes := &scenario{b, b.register(1), newModel(), rand.New(rand.NewPCG(1, 0))}
	t.Cleanup(func() { b.end(comes, stays) })
	b.engaged(2)
	comes.take(nodes(comes.model, comes.random))
	t.Log("another credential")
	rotated, err := comes.ClientCertKubeconfig("rotated", []string{"system:masters"}, time.Hour)
	b.Expect(err).NotTo(HaveOccurred())
	registration := testbed.Registration(comes.home, comes.Name(), rotated)
	b.Expect(source.Client.Update(t.Context(), registration)).To(Succeed())
	b.Eventually(func() float64 { return b.sum("trellis_clustercache_rotations_total", "result", "ok") }).
		Should(BeNumerically(">=", 1))
	comes.take(nodes(comes.model, comes.random))
	t.Log("it goes")
	b.Expect(comes.leave(t.Context())).To(Succeed())
	b.engaged(1)

	b.Expect(b.calls.initials(stays.host)).To(Equal(watches), "watches that were started again")
	b.Expect(stays.written()).To(Equal(written))
	stays.everything()
}

// MC-2 While a target is down, nothing is sent to it and the other one is served; when it is back, so is it, without a
// restart of the hub.
func TestMC2_ATargetThatIsDown(t *testing.T) {
	b := start(t)
	both := b.scenarios(0, 1)
	down, up := both[0], both[1]
	down.take(nodes(down.model, down.random))
	down.StopAPIServer()
	t.Cleanup(func() { // it does nothing if the server is there again
		b.Expect(down.StartAPIServer(context.WithoutCancel(t.Context()))).To(Succeed())
	})
	t.Log("what the source has for it meanwhile")
	waiting := tokens(down.model, down.random)
	b.Expect(waiting.do(t.Context(), down.stage)).To(Succeed())
	for range 2 {
		up.everything()
	}
	b.Expect(down.StartAPIServer(t.Context())).To(Succeed())
	b.Eventually(func() error { return waiting.done(t.Context(), down.stage) }).Should(Succeed())
	down.everything()
}

// MC-5 Of a target that is not registered any longer nothing is left in the hub, and what is in the target stays.
func TestMC5_NothingIsLeftOfATarget(t *testing.T) {
	b := start(t)
	gone := b.scenarios(0)[0]
	gone.everything()
	b.Eventually(func() error { return gone.model.rest()(t.Context(), gone.stage) }).Should(Succeed())
	b.Eventually(func() bool { return b.calls.answered(gone.host) }).Should(BeTrue())
	policies, account := written(gone.model), &corev1.ServiceAccountList{}
	b.Expect(b.about(gone.home)).NotTo(BeEmpty())
	before := gone.written()
	b.Expect(gone.leave(t.Context())).To(Succeed())
	b.engaged(0)
	b.Eventually(func() []string { return b.about(gone.home) }).Should(BeEmpty())
	t.Log("what happens there is not observed")
	unheard := nodes(gone.model, gone.random)
	b.Expect(unheard.do(t.Context(), gone.stage)).To(Succeed())
	b.Consistently(gone.written, time.Second).Should(Equal(before))
	b.Expect(policies(t.Context(), gone.stage)).To(Succeed())
	b.Expect(gone.Client.List(t.Context(), account, client.InNamespace(gone.space))).To(Succeed())
	b.Expect(account.Items).NotTo(BeEmpty())
}

// about are the series of the hub with a namespace in a label.
func (b *bench) about(namespace string) (series []string) {
	b.t.Helper()
	families, err := b.hub.Registry.Gather()
	b.Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if strings.Contains(label.GetValue(), namespace) {
					series = append(series, family.GetName())
				}
			}
		}
	}
	return series
}

// sum adds up a counter of the hub, of the series with a label.
func (b *bench) sum(name, label, value string) (sum float64) {
	b.t.Helper()
	families, err := b.hub.Registry.Gather()
	b.Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == label && l.GetValue() == value {
					sum += m.GetCounter().GetValue()
				}
			}
		}
	}
	return sum
}

// debug is the highest verbosity that a hub can be configured to.
const debug = 1

// MC-6 What the log says of an object says of which target it is. Neither log nor event has a token, a key or a
// kubeconfig in it.
func TestMC6_WhatIsSaidNamesTheTargetAndNoSecret(t *testing.T) {
	var mu sync.Mutex
	var lines []string
	b := startWith(t, testbed.HubOptions{Logger: funcr.NewJSON(func(line string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, line)
	}, funcr.Options{Verbosity: debug})})
	both := b.scenarios(0, 1)
	for _, scenario := range both {
		scenario.everything()
		if len(scenario.model.accesses) == 0 { // those that came are gone again, and their tokens with them
			scenario.take(tokens(scenario.model, scenario.random))
		}
	}
	b.hub.Stop()

	t.Log("targets")
	mu.Lock()
	defer mu.Unlock()
	loggers := map[string]int{}
	for _, line := range lines {
		said := map[string]any{}
		b.Expect(json.Unmarshal([]byte(line), &said)).To(Succeed(), line)
		name, _ := said["logger"].(string)
		ours := slices.ContainsFunc(parts, func(p part) bool { return p.name == name })
		if _, has := said["object"]; !ours || !has {
			continue
		}
		loggers[name]++
		b.Expect(said["target"]).To(BeElementOf(both[0].home+"/"+both[0].Name(), both[1].home+"/"+both[1].Name()), line)
	}
	b.Expect(loggers).To(HaveKey(tokenrequestor.Name))
	b.Expect(len(loggers)).To(BeNumerically(">=", 3), "%v", loggers)

	t.Log("secrets")
	spoken := strings.Join(lines, "\n")
	for _, scenario := range both {
		spoken += scenario.events()
	}
	for _, scenario := range both {
		secrets := scenario.secrets()
		b.Expect(len(secrets)).To(BeNumerically(">=", 2))
		for _, secret := range secrets {
			before, _, found := strings.Cut(spoken, secret)
			b.Expect(found).To(BeFalse(), "a secret follows: %s", before[max(0, len(before)-300):])
		}
	}
}

// Name is that of the target.
func (t *scenario) Name() string { return t.place.Name }

// events are those of the home namespace and of the target, as text.
func (t *scenario) events() string {
	t.t.Helper()
	var text strings.Builder
	for _, from := range []client.Reader{source.Client, t.Client} {
		list := &eventsv1.EventList{}
		t.Expect(from.List(t.t.Context(), list)).To(Succeed())
		encoded, err := json.Marshal(list)
		t.Expect(err).NotTo(HaveOccurred())
		text.Write(encoded)
	}
	return text.String()
}

// secrets are the texts that must not be shown: the key of the kubeconfig and all tokens.
func (t *scenario) secrets() (all []string) {
	t.t.Helper()
	config, err := clientcmd.Load(t.Kubeconfig())
	t.Expect(err).NotTo(HaveOccurred())
	for _, user := range config.AuthInfos {
		if len(user.ClientKeyData) > 0 {
			all = append(all, string(user.ClientKeyData))
		}
		if user.Token != "" {
			all = append(all, user.Token)
		}
	}
	for from, namespace := range map[client.Reader]string{source.Client: t.home, t.Client: t.space} {
		list := &corev1.SecretList{}
		t.Expect(from.List(t.t.Context(), list, client.InNamespace(namespace))).To(Succeed())
		for _, secret := range list.Items {
			if token := string(secret.Data[tokenrequestor.KeyToken]); token != "" {
				all = append(all, token)
			}
		}
	}
	return all
}

// MC-3 A kubeconfig that would run a program, read files, use a proxy or do without TLS is refused: no connection is
// opened, and an event reports it without the content.
func TestMC3_KubeconfigsThatAreRefused(t *testing.T) {
	b := start(t)
	const canary = "c4n4ry"
	for name, change := range map[string]func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo){
		"exec": func(_ *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) {
			user.Exec = &clientcmdapi.ExecConfig{
				Command: canary, APIVersion: "client.authentication.k8s.io/v1",
				InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
			}
		},
		"token-file": func(_ *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) { user.TokenFile = "/" + canary },
		"ca-file": func(cluster *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
			cluster.CertificateAuthorityData, cluster.CertificateAuthority = nil, "/"+canary
		},
		"insecure": func(cluster *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
			cluster.CertificateAuthorityData, cluster.InsecureSkipTLSVerify = nil, true
		},
		"http": func(cluster *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
			cluster.Server = strings.Replace(cluster.Server, "https:", "http:", 1)
		},
		"proxy": func(cluster *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
			cluster.ProxyURL = strings.Replace(cluster.Server, "https:", "http:", 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			g.Expect(err).NotTo(HaveOccurred())
			var dialled atomic.Int64
			done := make(chan struct{})
			go func() {
				defer close(done)
				for {
					conn, err := listener.Accept()
					if err != nil {
						return
					}
					dialled.Add(1)
					_ = conn.Close()
				}
			}()
			t.Cleanup(func() {
				_ = listener.Close()
				<-done
			})
			home := fmt.Sprintf("refused-%s", name)
			g.Expect(source.Client.Create(t.Context(), namespace(home))).To(Succeed())
			kubeconfig := testbed.Rewrite(places[0].Kubeconfig(), func(config *testbed.KubeConfig) {
				for _, cluster := range config.Clusters {
					cluster.Server = "https://" + listener.Addr().String()
					for _, user := range config.AuthInfos {
						change(cluster, user)
						user.Token = canary + "-token"
						user.ClientCertificateData, user.ClientKeyData = nil, nil
					}
				}
			})
			g.Expect(source.Client.Create(t.Context(), testbed.Registration(home, "refused", kubeconfig))).To(Succeed())
			events := &eventsv1.EventList{}
			g.Eventually(func() (notes []string) {
				g.Expect(source.Client.List(t.Context(), events, client.InNamespace(home))).To(Succeed())
				for _, event := range events.Items {
					if event.Type == corev1.EventTypeWarning {
						notes = append(notes, event.Reason+": "+event.Note)
					}
				}
				return notes
			}).Should(ContainElement(HavePrefix("KubeconfigRefused: ")))
			said, err := json.Marshal(events)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(said)).NotTo(ContainSubstring(canary))
			g.Expect(dialled.Load()).To(BeZero())
			g.Expect(source.Client.DeleteAllOf(t.Context(), &corev1.Secret{}, client.InNamespace(home))).To(Succeed())
		})
	}
	b.Expect(b.hub.Log.About(canary)).To(BeEmpty())
}

// MC-10 A hub without targets does nothing.
func TestMC10_NoTargets(t *testing.T) {
	b := start(t)
	b.engaged(0)
	b.Consistently(func() float64 { return b.sum("trellis_controller_reconciles_total", "result", "success") },
		time.Second).
		Should(BeZero())
}

// MC-11 The next hub does nothing again that was done: no request is decided twice and no token is issued that is there.
func TestMC11_TheNextHubDoesNothingAgain(t *testing.T) {
	b := start(t)
	both := b.scenarios(0, 1)
	for _, scenario := range both {
		scenario.everything()
		b.Eventually(func() error { return scenario.model.rest()(t.Context(), scenario.stage) }).Should(Succeed())
	}
	b.hub.Stop()
	before := [][]string{both[0].written(), both[1].written()}
	b.startHub(testbed.HubOptions{})
	b.engaged(2)
	for i, scenario := range both {
		// What comes now is done after what was there, if that was to be done.
		last := scenario.model.number
		scenario.everything()
		for _, call := range scenario.written()[len(before[i]):] {
			for number := range last {
				b.Expect(call).NotTo(ContainSubstring(fmt.Sprintf("/access-%d/token ", number+1)))
				b.Expect(call).NotTo(ContainSubstring(fmt.Sprintf("/request-%d/approval ", number+1)))
			}
		}
	}
}
