package fleetsim

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
)

// Kubeconfig returns a kubeconfig with the newest credentials and the newest certificate authority. It refers to no files.
func (t *Target) Kubeconfig() []byte {
	t.mu.Lock()
	ca := t.ca.pem
	t.mu.Unlock()
	content, err := clientcmd.Write(api.Config{
		Clusters:       map[string]*api.Cluster{t.name: {Server: t.Host(), CertificateAuthorityData: ca}},
		AuthInfos:      map[string]*api.AuthInfo{t.name: t.credentials.user()},
		Contexts:       map[string]*api.Context{t.name: {Cluster: t.name, AuthInfo: t.name}},
		CurrentContext: t.name,
	})
	if err != nil {
		panic(fmt.Sprintf("a kubeconfig cannot be encoded: %v", err))
	}
	return content
}

// Registration returns the Secret that registers the target, in the layout of Cluster API, with the kubeconfig of now.
func (t *Target) Registration(namespace string) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace,
			Name:      secret.Name(t.name, secret.Kubeconfig),
			Labels:    map[string]string{clusterv1.ClusterNameLabel: t.name},
		},
		Type: clusterv1.ClusterSecretType,
		Data: map[string][]byte{secret.KubeconfigDataName: t.Kubeconfig()},
	}
}
