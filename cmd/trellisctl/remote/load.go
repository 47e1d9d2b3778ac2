package remote

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/trellis-hub/trellis/clustercache/kubeconfig"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
)

// maxKubeconfig bounds what is read; a kubeconfig has a few KiB.
const maxKubeconfig = 1 << 20

// Kubeconfig is one self-contained context of a kubeconfig.
type Kubeconfig struct {
	config clientcmdapi.Config
	// Policy is what the operator of the hub allows.
	Policy kubeconfig.Policy
}

// Load reads a kubeconfig from a file, or from in if the file is "-". An empty context means the current one. Files
// that the context refers to are read and embedded.
func Load(file, context string, in io.Reader) (*Kubeconfig, error) {
	raw, err := read(file, in)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.Load(raw)
	if err != nil {
		// The decoder's message is left out: it may quote a credential.
		return nil, cli.Refused("%s is no kubeconfig: it is neither YAML nor JSON of kind Config", name(file))
	}
	if context != "" {
		config.CurrentContext = context
	}
	switch {
	case config.CurrentContext == "":
		return nil, cli.Refused("%s has no current-context: choose one with --context%s", name(file), among(config.Contexts))
	case config.Contexts[config.CurrentContext] == nil:
		return nil, cli.NotFound("%s has no context %q%s", name(file), config.CurrentContext, among(config.Contexts))
	}
	if err := clientcmdapi.MinifyConfig(config); err != nil {
		return nil, cli.Refused("%s: context %q: %w", name(file), config.CurrentContext, err)
	}
	if file != "-" {
		// Paths are relative to the file.
		directory := filepath.Dir(file)
		for _, c := range config.Clusters {
			absolute(directory, &c.CertificateAuthority)
		}
		for _, u := range config.AuthInfos {
			absolute(directory, &u.ClientCertificate, &u.ClientKey, &u.TokenFile)
		}
	}
	if err := clientcmdapi.FlattenConfig(config); err != nil {
		return nil, cli.Refused("%s refers to a file that cannot be read: %w", name(file), err)
	}
	for _, u := range config.AuthInfos {
		if u.TokenFile == "" {
			continue
		}
		token, err := os.ReadFile(u.TokenFile)
		if err != nil {
			return nil, cli.Refused("%s refers to a tokenFile that cannot be read: %w", name(file), err)
		}
		u.Token, u.TokenFile = strings.TrimSpace(string(token)), ""
	}
	return &Kubeconfig{config: *config}, nil
}

func read(file string, in io.Reader) ([]byte, error) {
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("reading the kubeconfig: %w", err)
		}
		defer func() { _ = f.Close() }() // it was only read
		in = f
	}
	raw, err := io.ReadAll(io.LimitReader(in, maxKubeconfig+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	case len(raw) > maxKubeconfig:
		return nil, cli.Refused("%s is no kubeconfig: it has more than %d KiB", name(file), maxKubeconfig>>10)
	}
	return raw, nil
}

func name(file string) string {
	if file == "-" {
		return "the kubeconfig on stdin"
	}
	return file
}

func absolute(directory string, paths ...*string) {
	for _, p := range paths {
		if *p != "" && !filepath.IsAbs(*p) {
			*p = filepath.Join(directory, *p)
		}
	}
}

func among(contexts map[string]*clientcmdapi.Context) string {
	if len(contexts) == 0 {
		return ""
	}
	return ": it has " + strings.Join(slices.Sorted(maps.Keys(contexts)), ", ")
}

// Contexts are those of a kubeconfig file, for completion; none if it cannot be read.
func Contexts(file string) []string {
	config, err := clientcmd.LoadFromFile(file)
	if err != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(config.Contexts))
}

// Context is the name of the context.
func (k *Kubeconfig) Context() string { return k.config.CurrentContext }

// SetServer changes the address of connections, since the hub may need another one for the API server.
func (k *Kubeconfig) SetServer(address string) {
	k.cluster().Server = address
}

// Server is the address of the API server.
func (k *Kubeconfig) Server() string { return k.cluster().Server }

func (k *Kubeconfig) cluster() *clientcmdapi.Cluster {
	for _, c := range k.config.Clusters { // the only one
		return c
	}
	return &clientcmdapi.Cluster{}
}

// WithToken returns the same cluster with a token as the only credential.
func (k *Kubeconfig) WithToken(user, token string) *Kubeconfig {
	const entry = "target"
	return &Kubeconfig{Policy: k.Policy, config: clientcmdapi.Config{
		CurrentContext: entry,
		Clusters:       map[string]*clientcmdapi.Cluster{entry: k.cluster().DeepCopy()},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{user: {Token: token}},
		Contexts:       map[string]*clientcmdapi.Context{entry: {Cluster: entry, AuthInfo: user}},
	}}
}

// Stored returns the content for a registration and what the hub will read from it. A kubeconfig that the hub would
// refuse is an error that says why.
func (k *Kubeconfig) Stored() ([]byte, *kubeconfig.Config, error) {
	raw, err := clientcmd.Write(k.config)
	if err != nil {
		return nil, nil, errors.New("encoding the kubeconfig failed") // the error may quote it
	}
	parsed, err := kubeconfig.Parse(raw, k.Policy)
	if err != nil {
		return nil, nil, cli.Refused("the hub would refuse this kubeconfig: %w", err)
	}
	return raw, parsed, nil
}

// Encode returns the kubeconfig as YAML or JSON, for its user. It has a credential.
func (k *Kubeconfig) Encode(asJSON bool) ([]byte, error) {
	raw, err := clientcmd.Write(k.config)
	if err == nil && asJSON {
		raw, err = yaml.YAMLToJSON(raw)
		raw = append(raw, '\n')
	}
	if err != nil {
		return nil, errors.New("encoding the kubeconfig failed") // the error may quote it
	}
	return raw, nil
}

// Local is the access as in kubectl, with exec plug-ins and the like.
func (k *Kubeconfig) Local() (*rest.Config, error) {
	config, err := clientcmd.NewDefaultClientConfig(k.config, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, cli.Refused("the kubeconfig cannot be used: %w", err)
	}
	return config, nil
}

// Stored reads the kubeconfig of a registration.
func Stored(registration *corev1.Secret, policy kubeconfig.Policy) (*Kubeconfig, error) {
	k := &Kubeconfig{Policy: policy}
	if _, err := kubeconfig.FromSecret(registration, policy); err != nil {
		return nil, unusable(fmt.Sprintf("the registration %s/%s", registration.Namespace, registration.Name), err)
	}
	for _, key := range []string{"value", "kubeconfig"} { // in the order in which FromSecret looks
		if raw := registration.Data[key]; len(bytes.TrimSpace(raw)) > 0 {
			config, err := clientcmd.Load(raw)
			if err != nil {
				return nil, cli.Refused("the registration %s/%s holds no kubeconfig", registration.Namespace, registration.Name)
			}
			if err := clientcmdapi.MinifyConfig(config); err != nil {
				return nil, cli.Refused("the registration %s/%s: %w", registration.Namespace, registration.Name, err)
			}
			k.config = *config
			break
		}
	}
	return k, nil
}
