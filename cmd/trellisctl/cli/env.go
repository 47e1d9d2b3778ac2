package cli

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

// FieldManager is the field manager of the writes of trellisctl.
const FieldManager = "trellisctl"

// requestTimeout bounds a request if --request-timeout does not.
const requestTimeout = 30 * time.Second

// Env is the environment of a command: streams, flags, clock.
type Env struct {
	genericiooptions.IOStreams
	// Command is how users call the program: "trellisctl" or "kubectl trellis".
	Command string
	// Flags are the flags of kubectl that select the source cluster.
	Flags *genericclioptions.ConfigFlags
	// Clock is the source of time and of timers.
	Clock clock.Clock
	// NewClient makes the client of the source cluster.
	NewClient func(*rest.Config) (client.WithWatch, error)
	// NewTables makes the client with which ManagedResources are listed as tables. Nil: whole objects are listed.
	NewTables func(*rest.Config) (rest.Interface, error)
	// Interactive reports whether questions can be answered.
	Interactive func() bool
}

// NewEnv returns the environment of a process.
func NewEnv(streams genericiooptions.IOStreams) *Env {
	flags := genericclioptions.NewConfigFlags(true)
	flags.CacheDir = nil // nothing is cached on disk
	env := &Env{IOStreams: streams, Command: FieldManager, Flags: flags, Clock: clock.RealClock{},
		NewClient: func(config *rest.Config) (client.WithWatch, error) {
			httpClient, err := HTTPClientFor(config)
			if err != nil {
				return nil, err
			}
			return client.NewWithWatch(config, client.Options{HTTPClient: httpClient, Scheme: Scheme()})
		}, NewTables: newTables}
	env.Interactive = env.onTerminal
	return env
}

// ErrRedirect is wrapped by the errors of requests that a server answers with a redirect.
var ErrRedirect = errors.New("redirects are not followed")

// HTTPClientFor makes the client for a configuration. It follows no redirect: client-go adds the credential to each
// request, so a redirect would send it to another server. All clients of trellisctl are made here.
func HTTPClientFor(config *rest.Config) (*http.Client, error) {
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	own := *httpClient // it may be http.DefaultClient
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return ErrRedirect }
	return &own, nil
}

// Scheme knows what commands handle as typed objects.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, hubv1alpha1.AddToScheme,
		resourcesv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err) // the types are compiled in
		}
	}
	return scheme
}

// Source is the cluster in which the hub runs.
type Source struct {
	client.WithWatch
	// Config is the access to it.
	Config *rest.Config
	// Namespace is the one that was asked for.
	Namespace string
	// Tables lists ManagedResources as tables; nil if whole objects are to be listed.
	Tables rest.Interface
}

// In returns the same source with another namespace.
func (s *Source) In(namespace string) *Source {
	other := *s
	other.Namespace = namespace
	return &other
}

// newTables makes a client for the API group of ManagedResources.
func newTables(config *rest.Config) (rest.Interface, error) {
	httpClient, err := HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	own := rest.CopyConfig(config)
	own.APIPath, own.GroupVersion = "/apis", &resourcesv1alpha1.GroupVersion
	own.NegotiatedSerializer = serializer.NewCodecFactory(Scheme()).WithoutConversion()
	return rest.RESTClientForConfigAndClient(own, httpClient)
}

// Source returns the source cluster. It sends no request.
func (e *Env) Source() (*Source, error) {
	config, err := e.Flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of the source cluster: %w", err)
	}
	if e.noServer(config) {
		return nil, Usage("no kubeconfig says where the hub is: name one with --kubeconfig or KUBECONFIG")
	}
	if config.Timeout == 0 {
		config.Timeout = requestTimeout
	}
	// No limit here: the API server has its own (API Priority and Fairness), and commands bound how many requests they
	// send at a time.
	config.UserAgent, config.QPS = FieldManager, -1
	namespace, _, err := e.Flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of the source cluster: %w", err)
	}
	c, err := e.NewClient(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the source cluster: %w", err)
	}
	if namespace == "" {
		namespace = corev1.NamespaceDefault
	}
	source := &Source{WithWatch: c, Config: config, Namespace: namespace}
	if e.NewTables != nil {
		if source.Tables, err = e.NewTables(config); err != nil {
			return nil, fmt.Errorf("connecting to the source cluster: %w", err)
		}
	}
	return source, nil
}

// defaultServer is the server that kubectl uses without a kubeconfig, a flag or the environment of a pod. No current
// API server listens there.
const defaultServer = "http://localhost:8080"

// noServer reports whether no cluster was configured.
func (e *Env) noServer(config *rest.Config) bool {
	raw, err := e.Flags.ToRawKubeConfigLoader().RawConfig()
	return err == nil && len(raw.Clusters) == 0 && *e.Flags.APIServer == "" && config.Host == defaultServer
}

// Explain adds an explanation to the error that a cluster does not know the hub's kinds: most likely it is the wrong
// cluster.
func (e *Env) Explain(err error) error {
	var kind *meta.NoKindMatchError
	var resource *meta.NoResourceMatchError
	group := ""
	switch {
	case errors.As(err, &kind):
		group = kind.GroupKind.Group
	case errors.As(err, &resource):
		group = resource.PartialResource.Group
	}
	if group != hubv1alpha1.GroupVersion.Group && group != resourcesv1alpha1.GroupVersion.Group {
		return err
	}
	where := ""
	if config, err := e.Flags.ToRESTConfig(); err == nil {
		where = " at " + config.Host
	}
	return fmt.Errorf("the cluster%s knows nothing of %s: Trellis is not installed there, or it is not the cluster that you mean; see '%s options' for --kubeconfig and --context",
		where, group, e.Command)
}

// AsCalled returns a text whose command lines begin with the program as it was called.
func (e *Env) AsCalled(text string) string {
	return strings.ReplaceAll(text, FieldManager+" ", e.Command+" ")
}

// Note prints information that is not part of the output, on stderr.
func (e *Env) Note(format string, args ...any) {
	fmt.Fprintln(e.ErrOut, Text(fmt.Sprintf(format, args...)))
}

// Warn prints a warning on stderr.
func (e *Env) Warn(format string, args ...any) {
	fmt.Fprintln(e.ErrOut, e.Style(e.ErrOut).Warn("Warning:"), Text(fmt.Sprintf(format, args...)))
}
