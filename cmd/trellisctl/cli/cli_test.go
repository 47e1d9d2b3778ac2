package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

func TestExitCodes(t *testing.T) {
	secrets := schema.GroupResource{Resource: "secrets"}
	_, missing := os.Open("/does/not/exist")
	for name, test := range map[string]struct {
		err  error
		code int
	}{
		"nothing":                  {nil, ExitOK},
		"anything":                 {errors.New("no"), ExitFailed},
		"a file that is missing":   {missing, ExitFailed},
		"the command line":         {fmt.Errorf("wrapped: %w", Usage("no")), ExitUsage},
		"something is found":       {Found(), ExitFound},
		"an object is missing":     {fmt.Errorf("wrapped: %w", apierrors.NewNotFound(secrets, "a")), ExitNotFound},
		"no rights":                {apierrors.NewForbidden(secrets, "a", errors.New("no")), ExitRefused},
		"a bad credential":         {apierrors.NewUnauthorized("no"), ExitRefused},
		"a server does not answer": {fmt.Errorf("wrapped: %w", &url.Error{Op: "Get", URL: "https://x", Err: errors.New("connection refused")}), ExitUnreachable},
		"a server has no time":     {apierrors.NewTooManyRequests("later", 1), ExitUnreachable},
		"a deadline":               {context.DeadlineExceeded, ExitUnreachable},
		"Ctrl-C":                   {fmt.Errorf("wrapped: %w", context.Canceled), ExitInterrupted},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(ExitCode(test.err)).To(Equal(test.code)) })
	}
}

func TestEveryExitCodeIsDescribed(t *testing.T) {
	g := NewWithT(t)
	described := []int{}
	for _, e := range ExitCodes {
		described = append(described, e.Code)
		g.Expect(e.Meaning).NotTo(BeEmpty())
	}
	g.Expect(described).To(Equal([]int{ExitOK, ExitFailed, ExitUsage, ExitFound, ExitNotFound, ExitTimeout, ExitUnreachable, ExitRefused, ExitInterrupted}))
}

func TestAClusterThatDoesNotKnowTheHub(t *testing.T) {
	streams, _, _, _ := genericiooptions.NewTestIOStreams()
	env := NewEnv(streams)
	*env.Flags.APIServer = "https://wrong.example.com"
	env.Command = "kubectl trellis"
	group := func(name string) schema.GroupVersion { return schema.GroupVersion{Group: name, Version: "v1alpha1"} }
	undiscovered := apiutil.ErrResourceDiscoveryFailed{group("resources.gardener.cloud"): apierrors.NewNotFound(schema.GroupResource{}, "")}
	for name, test := range map[string]struct {
		err   error
		about string // empty: the error does not change
	}{
		"its targets":          {fmt.Errorf("listing: %w", &meta.NoKindMatchError{GroupKind: group("hub.gardener.cloud").WithKind("TargetCluster").GroupKind()}), "hub.gardener.cloud"},
		"its ManagedResources": {fmt.Errorf("reading: %w", &undiscovered), "resources.gardener.cloud"},
		"another kind":         {&meta.NoKindMatchError{GroupKind: group("apps").WithKind("Deployment").GroupKind()}, ""},
		"another error":        {errors.New("no"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			explained := env.Explain(test.err)
			g.Expect(ExitCode(explained)).To(Equal(ExitFailed))
			if test.about == "" {
				g.Expect(explained).To(Equal(test.err))
				return
			}
			g.Expect(explained).
				To(MatchError(And(HavePrefix("the cluster at https://wrong.example.com knows nothing of "+test.about+
					": Trellis is not installed there"),
					ContainSubstring("'kubectl trellis options'"))))
		})
	}
}

func TestNoClusterIsConfigured(t *testing.T) {
	g := NewWithT(t)
	t.Setenv("KUBERNETES_SERVICE_HOST", "") // as if a pod ran the tests
	streams, _, _, _ := genericiooptions.NewTestIOStreams()
	env := NewEnv(streams)
	*env.Flags.KubeConfig = filepath.Join(t.TempDir(), "kubeconfig")
	g.Expect(os.WriteFile(*env.Flags.KubeConfig, []byte(`{"apiVersion":"v1","kind":"Config"}`), 0o600)).To(Succeed())
	_, err := env.Source()
	g.Expect(err).To(MatchError(ContainSubstring("no kubeconfig says where the hub is")))
	g.Expect(ExitCode(err)).To(Equal(ExitUsage))
	*env.Flags.APIServer = "http://localhost:8080"
	source, err := env.Source()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(source.Config.Host).To(Equal("http://localhost:8080"), "an explicit address is used")
}

func TestSubjects(t *testing.T) {
	both := []Kind{KindManagedResource, KindCluster}
	for line, want := range map[string]Subject{
		"mr a": {Kind: KindManagedResource, Name: "a"}, "mr/a": {Kind: KindManagedResource, Name: "a"},
		"ManagedResource a":                           {Kind: KindManagedResource, Name: "a"},
		"managedresources.resources.gardener.cloud a": {Kind: KindManagedResource, Name: "a"},
		"managedresource.resources.gardener.cloud/a":  {Kind: KindManagedResource, Name: "a"},
		"cluster a": {Kind: KindCluster, Name: "a"}, "tc a": {Kind: KindCluster, Name: "a"},
		"targetcluster/a": {Kind: KindCluster, Name: "a"},
	} {
		t.Run(line, func(t *testing.T) {
			g := NewWithT(t)
			got, err := ParseSubject(strings.Fields(line), both...)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(Equal(want))
		})
	}
	for _, line := range []string{"", "a", "mr", "mr/", "pod a", "mr a b", "cluster a"} {
		t.Run("not "+line, func(t *testing.T) {
			_, err := ParseSubject(strings.Fields(line), KindManagedResource)
			NewWithT(t).Expect(ExitCode(err)).To(Equal(ExitUsage))
		})
	}
}

func TestTextDoesNothingToATerminal(t *testing.T) {
	g := NewWithT(t)
	g.Expect(Text("a\x1b[31mb\r\x07c\u202ed\x7f")).To(Equal("a^[[31mb^M^Gc^?d^?"))
	g.Expect(Text("line\n\tnext – ü")).To(Equal("line\n\tnext – ü"))
	g.Expect(FirstLine("one\ntwo")).To(Equal("one ..."))
	g.Expect(FirstLine("one\n")).To(Equal("one"))
}

func TestColoursAreForTerminals(t *testing.T) {
	g := NewWithT(t)
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	g.Expect(NewEnv(streams).Style(out).Bad("x")).To(Equal("x"))
	g.Expect(Colours(true).Bad("x")).To(Equal("\x1b[31mx\x1b[0m"))
	g.Expect(Colours(true).Bad("")).To(BeEmpty())
	Aligned(out, [][]string{{"a", "bb"}, {"aaa", "ü"}, {"x", "y"}}, func(_, _ int, text string) string { return "<" + text + ">" })
	g.Expect(out.String()).To(Equal("<a>     <bb>\n<aaa>   <ü>\n<x>     <y>\n"))
}

func TestAWait(t *testing.T) {
	type look struct {
		done  bool
		state string
		err   error
	}
	silent := &url.Error{Op: "Get", URL: "https://source", Err: errors.New("connection refused")}
	for name, test := range map[string]struct {
		looks []look // the last one continues
		code  int
		says  []string
	}{
		"ends when it is done": {[]look{{state: "a"}, {state: "a"}, {state: "b"}, {done: true}}, ExitOK,
			[]string{"a", "b"}},
		"ends at the timeout": {[]look{{state: "never"}}, ExitTimeout, []string{"never"}},
		"ends with an error":  {[]look{{state: "a"}, {err: NotFound("gone")}}, ExitNotFound, []string{"a"}},
		"continues while there is no answer": {[]look{{err: silent}, {done: true}}, ExitOK,
			[]string{"the source cluster does not answer: Get \"https://source\": connection refused"}},
		"is done before anything is said": {[]look{{done: true}}, ExitOK, nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			streams, _, _, errOut := genericiooptions.NewTestIOStreams()
			clock := clocktesting.NewFakeClock(time.Unix(0, 0))
			env := NewEnv(streams)
			env.Clock = clock
			stop := make(chan struct{})
			defer close(stop)
			go func() { // advances the clock whenever a timer waits for it
				for {
					select {
					case <-stop:
						return
					default:
						if clock.HasWaiters() {
							clock.Step(poll)
						}
						time.Sleep(time.Millisecond)
					}
				}
			}()
			n := 0
			err := env.Await(context.Background(), 5*time.Second, func(context.Context) (bool, string, error) {
				l := test.looks[min(n, len(test.looks)-1)]
				n++
				return l.done, l.state, l.err
			})
			g.Expect(ExitCode(err)).To(Equal(test.code))
			said := strings.FieldsFunc(errOut.String(), func(r rune) bool { return r == '\n' })
			g.Expect(said).To(HaveLen(len(test.says)))
			for i, s := range test.says {
				g.Expect(said[i]).To(Equal(s))
			}
		})
	}
}

func TestAWaitEndsWithItsContext(t *testing.T) {
	g := NewWithT(t)
	ctx, cancel := context.WithCancel(context.Background())
	streams, _, _, _ := genericiooptions.NewTestIOStreams()
	err := NewEnv(streams).Await(ctx, time.Hour, func(context.Context) (bool, string, error) {
		cancel()
		return false, "x", nil
	})
	g.Expect(ExitCode(err)).To(Equal(ExitInterrupted))
}
