package app_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
)

// Metrics name all clusters. With authentication, a client needs a token of an account that has the right to read them.
func TestMetricsNeedAnAuthorizedToken(t *testing.T) {
	e := newEnv(t)
	_, port, set := e.ports()
	hub := e.startHub(set, func(c *configv1alpha1.HubConfiguration) { c.Server.MetricsAuthentication.Enabled = true })

	token := func(name string) string {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: e.name, Name: name}}
		e.Expect(source.Client.Create(e.ctx, account)).To(Succeed())
		request := &authenticationv1.TokenRequest{}
		e.Expect(source.Client.SubResource("token").Create(e.ctx, account, request)).To(Succeed())
		return request.Status.Token
	}
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: e.name + "-metrics"},
		Rules:      []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}},
	}
	e.Expect(source.Client.Create(e.ctx, role)).To(Succeed())
	e.Expect(source.Client.Create(e.ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: e.name, Name: "prometheus"}},
	})).To(Succeed())
	prometheus, stranger := token("prometheus"), token("stranger")

	transport := &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // its certificate is self-signed
	c := &http.Client{Transport: transport, Timeout: 30 * time.Second}
	get := func(scheme, token string) (int, string) {
		url := fmt.Sprintf("%s://127.0.0.1:%d/metrics", scheme, port)
		request, err := http.NewRequestWithContext(e.ctx, http.MethodGet, url, http.NoBody)
		e.Expect(err).NotTo(HaveOccurred())
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := c.Do(request)
		if err != nil {
			return 0, err.Error()
		}
		defer func() { _ = response.Body.Close() }()
		content, err := io.ReadAll(response.Body)
		if err != nil {
			return response.StatusCode, err.Error() // a server of HTTPS may hang up on plain HTTP at any moment
		}
		return response.StatusCode, string(content)
	}
	code := func(token string) func() int {
		return func() int { code, _ := get("https", token); return code }
	}
	e.Eventually(code(prometheus)).Should(Equal(http.StatusOK))
	_, content := get("https", prometheus)
	e.Expect(content).To(ContainSubstring("go_goroutines"))
	e.Expect(code("")()).To(Equal(http.StatusUnauthorized))
	e.Expect(code("no token at all")()).To(Equal(http.StatusUnauthorized))
	e.Expect(code(stranger)()).To(Equal(http.StatusForbidden))
	plain, content := get("http", prometheus)
	e.Expect(plain).NotTo(Equal(http.StatusOK), content)
	e.stop(hub)
}
