package fleetsim

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-hub/trellis/hack/fleetsim/apiserver"
)

const issuer = "https://kubernetes.default.svc.cluster.local"

// header of all tokens: base64url of {"alg":"HS256","typ":"JWT"}.
const header = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9"

// claims of a token.
type claims struct {
	Issuer   string `json:"iss"`
	Subject  string `json:"sub"`
	IssuedAt int64  `json:"iat"`
	Expires  int64  `json:"exp,omitempty"` // zero: never
	// Number of a kubeconfig's token among all of its target, beginning with 1.
	Number uint64 `json:"number,omitempty"`
	// ID and Kubernetes are those of a service account's token.
	ID         string            `json:"jti,omitempty"`
	Kubernetes *kubernetesClaims `json:"kubernetes.io,omitempty"`
}

type kubernetesClaims struct {
	Namespace      string         `json:"namespace"`
	ServiceAccount serviceAccount `json:"serviceaccount"`
}

type serviceAccount struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
}

// sign makes a JSON web token.
func (c *credentials) sign(t claims) string {
	payload, err := json.Marshal(t)
	if err != nil {
		panic(fmt.Sprintf("claims cannot be encoded: %v", err))
	}
	signed := header + "." + base64.RawURLEncoding.EncodeToString(payload)
	return signed + "." + base64.RawURLEncoding.EncodeToString(c.signature(signed))
}

func (c *credentials) signature(signed string) []byte {
	mac := hmac.New(sha256.New, c.key[:])
	mac.Write([]byte(signed))
	return mac.Sum(nil)
}

// issue makes a token for a service account, as apiserver.Options.IssueToken wants it.
func (c *credentials) issue(namespace, name string, uid types.UID, seconds int64) (token string, expires time.Time, err error) {
	now := c.clock()
	expires = now.Add(time.Duration(seconds) * time.Second).Truncate(time.Second)
	return c.sign(claims{
		Issuer:     issuer,
		Subject:    "system:serviceaccount:" + namespace + ":" + name,
		IssuedAt:   now.Unix(),
		Expires:    expires.Unix(),
		ID:         fmt.Sprint(c.accounts.Add(1)),
		Kubernetes: &kubernetesClaims{Namespace: namespace, ServiceAccount: serviceAccount{Name: name, UID: uid}},
	}), expires, nil
}

// userOf returns the user of a token that is valid now.
func (c *credentials) userOf(token string, current *generation) (apiserver.User, bool) {
	noUser := apiserver.User{}
	end := strings.LastIndexByte(token, '.')
	if end < 0 || !strings.HasPrefix(token, header+".") || end < len(header) {
		return noUser, false
	}
	signature, err := base64.RawURLEncoding.DecodeString(token[end+1:])
	if err != nil || !hmac.Equal(signature, c.signature(token[:end])) {
		return noUser, false
	}
	var t claims
	payload, err := base64.RawURLEncoding.DecodeString(token[len(header)+1 : end])
	if err != nil || json.Unmarshal(payload, &t) != nil {
		return noUser, false
	}
	if t.Expires != 0 && c.clock().Unix() >= t.Expires {
		return noUser, false
	}
	if k := t.Kubernetes; k != nil {
		return apiserver.User{
			Name: t.Subject, UID: string(k.ServiceAccount.UID),
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + k.Namespace, "system:authenticated"},
		}, true
	}
	if current == nil || t.Number < current.oldest {
		return noUser, false
	}
	return admin, true
}
