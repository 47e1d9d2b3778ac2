package controlplane

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const (
	adminUser  = "trellis-admin"
	adminGroup = "system:masters"
	// defaultTokenTTL is that of service account tokens without a requested lifetime, minTokenTTL the shortest
	// that the API server issues.
	defaultTokenTTL = time.Hour
	minTokenTTL     = 10 * time.Minute
)

// RESTConfig returns the access of an administrator without client-side rate limit, ready to be changed by the caller.
func (cp *ControlPlane) RESTConfig() *rest.Config {
	return rest.CopyConfig(cp.restConfig)
}

// Kubeconfig returns the access of an administrator, as a kubeconfig with an embedded client certificate.
func (cp *ControlPlane) Kubeconfig() []byte {
	return slices.Clone(cp.kubeconfig)
}

// ClientCertKubeconfig returns a kubeconfig with an embedded client certificate for a user that needs not exist and has the
// rights that RBAC gives to the user and the groups. Zero ttl: a year; negative: expired.
func (cp *ControlPlane) ClientCertKubeconfig(user string, groups []string, ttl time.Duration) ([]byte, error) {
	certPEM, keyPEM, err := cp.pki.ca.issueClient(user, groups, ttl)
	if err != nil {
		return nil, fmt.Errorf("controlplane: %w", err)
	}
	return cp.encodeKubeconfig(user, &clientcmdapi.AuthInfo{ClientCertificateData: certPEM, ClientKeyData: keyPEM})
}

// ServiceAccountKubeconfig returns a kubeconfig with a token of a service account, which is created if it does not exist; its
// namespace must. Zero ttl: an hour. The API server issues no tokens for less than ten minutes, so those are signed here with
// the same key; with a negative ttl such a token has expired.
func (cp *ControlPlane) ServiceAccountKubeconfig(ctx context.Context, namespace, name string, ttl time.Duration) ([]byte, error) {
	if ttl == 0 {
		ttl = defaultTokenTTL
	}
	var token string
	err := cp.withClient(func(client kubernetes.Interface) (err error) {
		accounts := client.CoreV1().ServiceAccounts(namespace)
		account, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			account, err = accounts.Get(ctx, name, metav1.GetOptions{})
		}
		if err != nil {
			return err
		}
		if ttl < minTokenTTL {
			token, err = cp.signToken(account, ttl)
			return err
		}
		seconds := int64(ttl.Seconds())
		request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
		if request, err = accounts.CreateToken(ctx, name, request, metav1.CreateOptions{}); err != nil {
			return err
		}
		token = request.Status.Token
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("controlplane: cannot make a token for %s/%s: %w", namespace, name, err)
	}
	return cp.encodeKubeconfig(name, &clientcmdapi.AuthInfo{Token: token})
}

// signToken does what the API server does for a TokenRequest that is not bound to an object.
func (cp *ControlPlane) signToken(account *corev1.ServiceAccount, ttl time.Duration) (string, error) {
	now := time.Now()
	begin := now
	if ttl < 0 {
		begin = now.Add(ttl)
	}
	type object = map[string]any
	encode := func(part object) (string, error) {
		text, err := json.Marshal(part)
		return base64.RawURLEncoding.EncodeToString(text), err
	}
	header, err := encode(object{"alg": "ES256", "typ": "JWT"})
	if err != nil {
		return "", err
	}
	claims, err := encode(object{
		"iss": issuer,
		"aud": []string{issuer},
		"sub": fmt.Sprintf("system:serviceaccount:%s:%s", account.Namespace, account.Name),
		"iat": begin.Unix(), "nbf": begin.Unix(), "exp": now.Add(ttl).Unix(),
		"kubernetes.io": object{
			"namespace":      account.Namespace,
			"serviceaccount": object{"name": account.Name, "uid": account.UID},
		},
	})
	if err != nil {
		return "", err
	}
	text := header + "." + claims
	digest := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, cp.pki.serviceAccounts, digest[:])
	if err != nil {
		return "", err
	}
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return text + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}

// prepareClients makes the administrator's access and the kubeconfigs of the components. They hold the port.
func (cp *ControlPlane) prepareClients() error {
	var err error
	if cp.kubeconfig, err = cp.ClientCertKubeconfig(adminUser, []string{adminGroup}, aYear); err != nil {
		return err
	}
	if cp.restConfig, err = clientcmd.RESTConfigFromKubeConfig(cp.kubeconfig); err != nil {
		return fmt.Errorf("cannot read back the kubeconfig: %w", err)
	}
	cp.restConfig.QPS = -1
	for component, user := range map[string]string{
		ControllerManager: "system:kube-controller-manager",
		Scheduler:         "system:kube-scheduler",
		Kwok:              "kwok",
	} {
		var groups []string
		if component == Kwok { // RBAC has no role for it
			groups = []string{adminGroup}
		}
		kubeconfig, err := cp.ClientCertKubeconfig(user, groups, aYear)
		if err != nil {
			return err
		}
		if err := writeFile(cp.dir, component+kubeconfigSuffix, kubeconfig); err != nil {
			return err
		}
	}
	return writeFile(cp.dir, "admin"+kubeconfigSuffix, cp.kubeconfig)
}

func (cp *ControlPlane) encodeKubeconfig(user string, auth *clientcmdapi.AuthInfo) ([]byte, error) {
	name := cp.options.Name
	kubeconfig, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: cp.Host(), CertificateAuthorityData: cp.pki.ca.certPEM}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{user: auth},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: user}},
		CurrentContext: name,
	})
	if err != nil {
		return nil, fmt.Errorf("controlplane: cannot encode a kubeconfig: %w", err)
	}
	return kubeconfig, nil
}
