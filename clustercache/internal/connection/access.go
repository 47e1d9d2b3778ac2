package connection

import (
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/trellis-hub/trellis/clustercache/kubeconfig"
	"github.com/trellis-hub/trellis/untrusted"
)

// maxMessage bounds the message of a fault.
const maxMessage = 512

// Access is what a connection is made with: the kubeconfig of a registration, or a static configuration. It is
// immutable. The zero value leads nowhere.
type Access struct {
	Kubeconfig *kubeconfig.Config
	Static     *rest.Config
}

// Empty reports whether it leads nowhere.
func (a Access) Empty() bool { return a.Kubeconfig == nil && a.Static == nil }

// Equal reports whether a connection that was made with a need not change for b.
func (a Access) Equal(b Access) bool {
	if a.Kubeconfig == nil || b.Kubeconfig == nil {
		return a == b
	}
	return a.Kubeconfig.Equal(b.Kubeconfig)
}

// EqualButToken reports whether an open connection can continue with b after its token was replaced.
func (a Access) EqualButToken(b Access) bool {
	return a.Kubeconfig != nil && b.Kubeconfig != nil && a.Kubeconfig.EqualButToken(b.Kubeconfig)
}

// Validity is that of the credential which ends first, zero if that is not known.
func (a Access) Validity() (issued, end time.Time) {
	if a.Kubeconfig != nil {
		return a.Kubeconfig.Issued, a.Kubeconfig.Expiry
	}
	return time.Time{}, time.Time{}
}

// config returns the configuration without the token of a registration, which is sent by the transport.
func (a Access) config() *rest.Config {
	if a.Kubeconfig != nil {
		return a.Kubeconfig.REST()
	}
	return rest.CopyConfig(a.Static)
}

func (a Access) token() string {
	if a.Kubeconfig != nil {
		return a.Kubeconfig.Token
	}
	return ""
}

// secrets returns what must not be shown.
func (a Access) secrets() []string {
	if a.Kubeconfig == nil {
		return nil
	}
	return slices.DeleteFunc([]string{a.Kubeconfig.Token, a.Kubeconfig.Password}, func(s string) bool { return s == "" })
}

// shown returns a text bounded for display.
func (a Access) shown(text string) string { return untrusted.Text(a.redact(text), maxMessage) }

// redact takes the credential out of a text.
func (a Access) redact(text string) string {
	for _, secret := range a.secrets() {
		text = strings.ReplaceAll(text, secret, "[redacted]")
	}
	return text
}
