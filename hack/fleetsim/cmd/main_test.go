package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/trellis-hub/trellis/addresses"
	registration "github.com/trellis-hub/trellis/clustercache/kubeconfig"
	"github.com/trellis-hub/trellis/hack/fleetsim/control"
)

// asCommand makes this test binary behave as the command itself, so that tests run it in processes of its own.
const asCommand = "FLEETSIM_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// process prepares one that is ended with the test: others are started beside it, which takes its time on a busy machine.
func process(t *testing.T, address string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = append(os.Environ(), asCommand+"=1", addressVariable+"="+address)
	return cmd
}

// result of a command.
type result struct {
	stdout, stderr string
	code           int
}

func call(t *testing.T, address string, args ...string) result {
	t.Helper()
	cmd := process(t, address, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
	}
	return result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// serving starts a fleet and returns the address of its control API and what it printed.
func serving(t *testing.T, args ...string) (address string, printed func() string) {
	t.Helper()
	g := NewWithT(t)
	cmd := process(t, "", append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	stderr, err := cmd.StderrPipe()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(cmd.Start()).To(Succeed())
	line, err := bufio.NewReader(stderr).ReadString('\n')
	g.Expect(err).NotTo(HaveOccurred())
	address = regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(line)
	g.Expect(address).NotTo(BeEmpty(), line)
	ended := false
	end := func() string {
		if !ended {
			ended = true
			g.Expect(cmd.Process.Signal(syscall.SIGINT)).To(Succeed())
			g.Expect(cmd.Wait()).To(Succeed(), "^C is the regular end")
		}
		return stdout.String()
	}
	t.Cleanup(func() { end() })
	return address, end
}

func TestServePrintsSecretsThatAreReadyToApply(t *testing.T) {
	g := NewWithT(t)
	_, printed := serving(t, "--targets", "3", "--secrets", "--namespace-prefix", "shoot--x--")
	documents := strings.Split(printed(), "---\n")
	g.Expect(documents).To(HaveLen(1 + 3 + 3))
	g.Expect(documents[1]).To(ContainSubstring("kind: Namespace"))
	local, err := addresses.Allow("127.0.0.0/8")
	g.Expect(err).NotTo(HaveOccurred())
	for _, document := range documents[4:] {
		secret := &corev1.Secret{}
		g.Expect(yaml.UnmarshalStrict([]byte(document), secret)).To(Succeed())
		g.Expect(registration.IsRegistration(secret)).To(BeTrue())
		g.Expect(secret.Namespace).To(Equal("shoot--x--" + strings.TrimSuffix(secret.Name, "-kubeconfig")))
		_, err := registration.FromSecret(secret, registration.Policy{Addresses: local})
		g.Expect(err).NotTo(HaveOccurred())
	}
}

func TestAFleetIsOperatedFromAnotherProcess(t *testing.T) {
	g := NewWithT(t)
	address, _ := serving(t, "--targets", "4", "--objects", "shoot-20")
	ok := func(args ...string) result {
		t.Helper()
		r := call(t, address, args...)
		NewWithT(t).Expect(r.code).To(BeZero(), "%v: %s", args, r.stderr)
		return r
	}
	g.Expect(ok("targets").stdout).To(MatchRegexp(`target-0004 +https://127\.0\.0\.1:\d+ +Running +0 +30\d +0s +-`))
	_, err := clientcmd.Load([]byte(ok("kubeconfig", "target-0001").stdout))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(strings.Count(ok("secrets", "--namespace", "fleet", "target-0001", "target-0002").stdout, "---\n")).To(Equal(3))

	g.Expect(ok("fault", "set", "429", "target-0001", "--retry-after", "2s", "--verbs", "list,watch").stderr).To(Equal("target-0001\n"))
	g.Expect(ok("fault", "set", "--percent", "50", "blackhole").stderr).To(Equal("2 targets\n"))
	g.Expect(ok("fault", "list", "target-0001").stdout).To(ContainSubstring(
		`{"id":"status-1","kind":"status","match":{"verbs":["list","watch"]},"code":429,"retryAfter":"2s"}`))
	g.Expect(ok("fault", "clear", "--faults", "status").stderr).To(Equal("target-0001\n"))
	g.Expect(ok("fault", "clear").stderr).To(Equal("2 targets\n"))

	g.Expect(ok("rotate", "token", "--revoke", "--lifetime", "1h").stderr).To(Equal("4 targets\n"))
	ok("skew", "--", "-5m", "target-0002")
	g.Expect(ok("targets", "target-0002").stdout).To(ContainSubstring("-5m0s"))
	for _, what := range []string{"hibernate", "start", "stop"} {
		ok(what, "target-0003")
	}
	g.Expect(ok("targets", "--json", "target-0003").stdout).To(ContainSubstring(`"state": "Stopped"`))
	ok("start")
	for _, what := range []string{"replace", "revoke", "compact", "end-watches", "reset-connections"} {
		ok(what, "target-0003")
	}
	ok("discovery", "--fail", "apps/v1", "target-0001")
	r := call(t, address, "crd", "off", "nothing.example.org", "target-0001")
	g.Expect(r.code).To(Equal(1))
	g.Expect(r.stderr).To(ContainSubstring("removing CRD nothing.example.org from target-0001"))
}

func TestPreloadedContentIsTheOwners(t *testing.T) {
	g := NewWithT(t)
	address, _ := serving(t, "--targets", "1", "--objects", "shoot-20", "--owner", "hub")
	as := func(program string) *kubernetes.Clientset {
		config, err := clientcmd.RESTConfigFromKubeConfig([]byte(call(t, address, "kubeconfig", "target-0001").stdout))
		g.Expect(err).NotTo(HaveOccurred())
		config.UserAgent, config.ContentType = program+"/v1", runtime.ContentTypeJSON
		set, err := kubernetes.NewForConfig(config)
		g.Expect(err).NotTo(HaveOccurred())
		return set
	}
	scale := func(program string, replicas int) {
		patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
		_, err := as(program).AppsV1().Deployments("kube-system").Patch(t.Context(), "metrics-server", types.MergePatchType, patch, metav1.PatchOptions{})
		g.Expect(err).NotTo(HaveOccurred())
	}
	told := func() control.Journal {
		j, err := control.Client{Address: address}.Journal(t.Context(), control.GetJournal{Programs: []string{"hub"}})
		g.Expect(err).NotTo(HaveOccurred())
		return j
	}
	before, err := as("hub").AppsV1().Deployments("kube-system").Get(t.Context(), "metrics-server", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	scale("kubectl", 7)
	g.Expect(told().Latencies.PendingTotal).To(Equal(1))
	scale("hub", int(*before.Spec.Replicas))
	g.Expect(told().Latencies.PendingTotal).To(BeZero())
	g.Expect(told().Latencies.Drift.Samples).To(BeEquivalentTo(1))

	_, err = as("kubectl").CoreV1().ConfigMaps("kube-system").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "foreign"}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	wrong := func() (found []string) {
		for _, v := range told().Verdicts {
			for _, f := range v.Findings {
				found = append(found, f.Object+": "+f.What)
			}
		}
		return found
	}
	g.Expect(as("hub").CoreV1().ConfigMaps("kube-system").Delete(t.Context(), "coredns", metav1.DeleteOptions{})).To(Succeed())
	g.Expect(wrong()).To(BeEmpty())
	g.Expect(as("hub").CoreV1().ConfigMaps("kube-system").Delete(t.Context(), "foreign", metav1.DeleteOptions{})).To(Succeed())
	g.Expect(wrong()).To(ConsistOf("configmaps kube-system/foreign: deleted, although it was never written"))
}

func TestTheBenchmarkMeasures(t *testing.T) {
	g := NewWithT(t)
	address, _ := serving(t, "--targets", "3")
	r := call(t, address, "bench", "--rest", "1s", "--probe", "200ms")
	g.Expect(r.code).To(BeZero(), r.stderr)
	g.Expect(r.stdout).To(MatchRegexp(`clients: 3 targets, \d+ objects, 3 connections`))
	g.Expect(r.stdout).To(MatchRegexp(`at rest: \d+\.\d+ cores over \d+s`))
	r = call(t, address, "journal", "target-0001")
	g.Expect(r.code).To(BeZero(), r.stderr)
	g.Expect(r.stdout).To(And(MatchRegexp(`watch +configmaps`), ContainSubstring("/readyz"), ContainSubstring("fleetsim-bench")))
	g.Expect(call(t, address, "stats").stdout).To(ContainSubstring("3 targets"))
}

func TestAWrongCommandLine(t *testing.T) {
	address, _ := serving(t, "--targets", "1")
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{nil, 2, "fleetsim runs a fleet"},
		{[]string{"sevre"}, 2, `there is no subcommand "sevre"`},
		{[]string{"serve", "--target", "3"}, 2, "flag provided but not defined: -target"},
		{[]string{"serve", "--targets", "0", "--listen", "127.0.0.1:0"}, 1, "the number of targets is 0"},
		{[]string{"serve", "--objects", "shoot-30"}, 2, `there are no objects "shoot-30"`},
		{[]string{"serve", "--listen", "0.0.0.0:1"}, 2, "of this machine only"},
		{[]string{"serve", "x"}, 2, "it takes no arguments"},
		{[]string{"fault"}, 2, "set, clear or list"},
		{[]string{"fault", "st"}, 2, `asked to "st"`},
		{[]string{"fault", "set"}, 2, "it needs the kind of the fault"},
		{[]string{"fault", "set", "hung"}, 2, `kind "hung" is unknown`},
		{[]string{"fault", "set", "200"}, 2, "the code 200 is not between 400 and 599"},
		{[]string{"fault", "set", "hang", "--rate", "5"}, 2, "does not take rate"},
		{[]string{"fault", "set", "429x"}, 2, `kind "429x" is unknown`},
		{[]string{"fault", "set", "hang", "nobody"}, 2, `there is no target "nobody"`},
		{[]string{"fault", "set", "latency", "--delay", "soon"}, 2, `invalid value "soon" for flag -delay`},
		{[]string{"rotate"}, 2, "what to rotate"},
		{[]string{"fault", "clear", "--faults", "xx"}, 2, `"xx" is neither the ID of a fault nor a kind`},
		{[]string{"targets", "nobody"}, 2, `there is no target "nobody"`},
		{[]string{"discovery", "--fail", "nope"}, 2, "target-0001 does not serve nope"},
		{[]string{"discovery", "--fail", "nope/v1"}, 2, "target-0001 does not serve nope/v1"},
		{[]string{"rotate", "client-certificate"}, 1, "its kubeconfig has no client certificate"},
		{[]string{"rotate", "tyres"}, 2, `"tyres" cannot be rotated`},
		{[]string{"skew"}, 2, "by how much"},
		{[]string{"skew", "much"}, 2, `invalid duration "much"`},
		{[]string{"crd", "on"}, 2, `it needs "on" and the file`},
		{[]string{"crd", "on", "/does/not/exist"}, 1, "reading a CustomResourceDefinition"},
		{[]string{"kubeconfig"}, 2, "the name of one target"},
		{[]string{"stats", "--control", "127.0.0.1:1"}, 1, "connection refused"},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			g := NewWithT(t)
			r := call(t, address, c.args...)
			g.Expect(r.code).To(Equal(c.code))
			g.Expect(r.stderr).To(ContainSubstring(c.says))
			g.Expect(r.stdout).To(BeEmpty())
		})
	}
	for _, name := range []string{"help", "serve", "fault"} {
		t.Run(name+" help", func(t *testing.T) {
			g := NewWithT(t)
			args := []string{name}
			if name != "help" {
				args = append(args, "-h")
			}
			g.Expect(call(t, address, args...).code).To(BeZero())
		})
	}
}
