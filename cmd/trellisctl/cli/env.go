package cli

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

// FieldManager is the name under which trellisctl owns what it writes.
const FieldManager = "trellisctl"

// requestTimeout bounds a request if --request-timeout does not.
const requestTimeout = 30 * time.Second

// Env is what a command is given by its process.
type Env struct {
	genericiooptions.IOStreams
	// Command is how people call the program: "trellisctl" or "kubectl trellis".
	Command string
	// Flags are the flags of kubectl that say which cluster is the source.
	Flags *genericclioptions.ConfigFlags
	// Clock tells the time and lets it pass.
	Clock clock.Clock
	// NewClient makes the client of the source cluster.
	NewClient func(*rest.Config) (client.Client, error)
}

// NewEnv returns the environment of a process.
func NewEnv(streams genericiooptions.IOStreams) *Env {
	flags := genericclioptions.NewConfigFlags(true)
	flags.CacheDir = nil // nothing is cached on disk
	return &Env{IOStreams: streams, Command: FieldManager, Flags: flags, Clock: clock.RealClock{}, NewClient: func(config *rest.Config) (client.Client, error) {
		return client.New(config, client.Options{Scheme: Scheme()})
	}}
}

// Scheme knows what commands handle as typed objects.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, hubv1alpha1.AddToScheme, resourcesv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err) // the types are compiled in
		}
	}
	return scheme
}

// Source is the cluster in which the hub runs.
type Source struct {
	client.Client
	// Config is the access to it.
	Config *rest.Config
	// Namespace is the one that was asked for.
	Namespace string
}

// Source connects to the source cluster. Nothing is sent yet.
func (e *Env) Source() (*Source, error) {
	config, err := e.Flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of the source cluster: %w", err)
	}
	if config.Timeout == 0 {
		config.Timeout = requestTimeout
	}
	config.UserAgent, config.QPS, config.Burst = FieldManager, 50, 100
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
	return &Source{Client: c, Config: config, Namespace: namespace}, nil
}

// Note tells something beside the output.
func (e *Env) Note(format string, args ...any) {
	fmt.Fprintln(e.ErrOut, Text(fmt.Sprintf(format, args...)))
}

// Warn tells something that may be wrong.
func (e *Env) Warn(format string, args ...any) {
	fmt.Fprintln(e.ErrOut, e.Style(e.ErrOut).Warn("Warning:"), Text(fmt.Sprintf(format, args...)))
}
