package tokenrequestor

import (
	"bytes"
	"fmt"
	"maps"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/trellis-hub/trellis/clustercache/kubeconfig"
)

// content is the data of a Secret that has, or gets, a token. It is never changed in place.
type content struct {
	data map[string][]byte
	// key is that of the kubeconfig; empty if the token stands alone.
	key    string
	config *api.Config
	user   *api.AuthInfo
}

// readContent reads the data of a Secret. key is where a kubeconfig would be.
func readContent(data map[string][]byte, key string) (*content, error) {
	c := &content{data: data}
	body, has := data[key]
	if !has {
		return c, nil
	}
	fault := func(message string) error {
		return &inputError{reasonInvalidKubeconfig, fmt.Sprintf("Key %s: %s", key, message)}
	}
	config, err := kubeconfig.Load(body)
	if err != nil {
		return nil, fault(err.Error()) // it quotes nothing
	}
	current := config.Contexts[config.CurrentContext]
	if current == nil {
		return nil, fault("the context that current-context names does not exist")
	}
	user := config.AuthInfos[current.AuthInfo]
	if user == nil {
		return nil, fault("the user that the current context names does not exist")
	}
	c.key, c.config, c.user = key, config, user
	return c, nil
}

// token is the one that is there; empty if none is.
func (c *content) token() string {
	if c.config != nil {
		return c.user.Token
	}
	return string(c.data[KeyToken])
}

// cluster is that of the current context; nil if there is none.
func (c *content) cluster() *api.Cluster {
	return c.config.Clusters[c.config.Contexts[c.config.CurrentContext].Cluster]
}

// hasCA reports whether the certificates of the target are where they belong. If they are not known, nothing is wrong
// with those of a kubeconfig.
func (c *content) hasCA(ca []byte) bool {
	if c.config == nil {
		return bytes.Equal(c.data[KeyCA], ca)
	}
	cluster := c.cluster()
	return len(ca) == 0 || cluster != nil && bytes.Equal(cluster.CertificateAuthorityData, ca)
}

// with returns the data with another token. Injected certificates are added, unless they are not known.
func (c *content) with(token string, injectCA bool, ca []byte) (map[string][]byte, error) {
	data := maps.Clone(c.data)
	if data == nil {
		data = map[string][]byte{}
	}
	if c.config == nil {
		data[KeyToken] = []byte(token)
		if injectCA && len(ca) > 0 {
			data[KeyCA] = ca
		} else {
			delete(data, KeyCA)
		}
		return data, nil
	}
	config := c.config.DeepCopy()
	config.AuthInfos[config.Contexts[config.CurrentContext].AuthInfo].Token = token
	if injectCA && len(ca) > 0 {
		cluster := config.Clusters[config.Contexts[config.CurrentContext].Cluster]
		if cluster == nil {
			return nil, &inputError{reasonInvalidKubeconfig,
				fmt.Sprintf("Key %s: the cluster that the current context names does not exist", c.key)}
		}
		cluster.CertificateAuthorityData = ca
	}
	body, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("encoding the kubeconfig: %w", err)
	}
	data[c.key] = body
	return data, nil
}
