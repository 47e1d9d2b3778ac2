package app

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/oauth2"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/utils/ptr"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
)

const (
	// sourceTokenLifetime is asked for; a server may give less.
	sourceTokenLifetime = time.Hour
	// tokenCallTimeout bounds a request for a token.
	tokenCallTimeout = 10 * time.Second
)

// secondIdentity returns the access to the source cluster by which classes with the target type Source write: that of a
// service account for which the hub requests tokens, and renews them. The hub's own rights are not used for it.
func secondIdentity(source *rest.Config, account configv1alpha1.ServiceAccount) (*rest.Config, error) {
	requests := rest.CopyConfig(source)
	requests.Timeout = tokenCallTimeout
	client, err := kubernetes.NewForConfig(requests)
	if err != nil {
		return nil, fmt.Errorf("second identity on the source cluster: %w", err)
	}
	tokens := transport.NewCachedTokenSource(&tokenRequest{client: client, account: account})
	config := rest.AnonymousClientConfig(source)
	config.Wrap(transport.ResettableTokenSourceWrapTransport(tokens))
	return config, nil
}

// tokenRequest is a source of tokens of a service account.
type tokenRequest struct {
	client  kubernetes.Interface
	account configv1alpha1.ServiceAccount
}

// Token requests a token.
func (t *tokenRequest) Token() (*oauth2.Token, error) {
	ctx, cancel := context.WithTimeout(context.Background(), tokenCallTimeout)
	defer cancel()
	answer, err := t.client.CoreV1().ServiceAccounts(t.account.Namespace).CreateToken(
		ctx, t.account.Name, &authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(sourceTokenLifetime / time.Second))},
		}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("requesting a token of service account %s/%s: %w", t.account.Namespace, t.account.Name, err)
	}
	// Renewed at four fifths of its life, as kubelet does with mounted tokens.
	life := time.Until(answer.Status.ExpirationTimestamp.Time)
	return &oauth2.Token{AccessToken: answer.Status.Token, Expiry: time.Now().Add(life * 4 / 5)}, nil
}
