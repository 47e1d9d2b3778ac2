package connection

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/pem"
	"net"
	"net/url"
	"strings"

	"k8s.io/client-go/rest"
)

// ServerID identifies the API server that an access leads to, by what authenticates it: its address, the name that its
// certificate must have and the certificate authorities. Empty if it is not authenticated or cannot be determined.
func (a Access) ServerID() string {
	switch {
	case a.Kubeconfig != nil:
		return serverID(a.Kubeconfig.Server, a.Kubeconfig.ServerName, a.Kubeconfig.CA, a.Kubeconfig.ProxyURL)
	case a.Static != nil && a.Static.Proxy == nil && !a.Static.Insecure:
		config := rest.CopyConfig(a.Static)
		if rest.LoadTLSFiles(config) != nil {
			return ""
		}
		return serverID(config.Host, config.ServerName, config.CAData, "")
	default:
		return ""
	}
}

// serverID hashes its arguments, each with its length, so that no two lists of arguments look alike.
func serverID(address, name string, ca []byte, proxy string) string {
	server, err := url.Parse(address)
	if err != nil || server.Scheme != "https" || server.Hostname() == "" {
		return ""
	}
	port := server.Port()
	if port == "" {
		port = "443"
	}
	host := net.JoinHostPort(strings.ToLower(server.Hostname()), port)
	hash := sha256.New()
	write := func(part []byte) {
		hash.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		hash.Write(part)
	}
	path := strings.TrimSuffix(server.EscapedPath(), "/")
	for _, part := range []string{host, path, server.RawQuery, strings.ToLower(name), proxy} {
		write([]byte(part))
	}
	for block, rest := pem.Decode(ca); block != nil; block, rest = pem.Decode(rest) {
		write(block.Bytes)
	}
	return hex.EncodeToString(hash.Sum(nil))
}
