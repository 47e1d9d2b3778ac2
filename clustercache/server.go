package clustercache

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

// ServerID stands for what authenticates an API server to the hub: its address, the name that its certificate must have
// and the certificate authorities. Two targets with the same ServerID are the same server, whatever it answers.
// Different ones may be the same server under two addresses. The zero value is no server.
type ServerID string

// server identifies the API server that an access leads to; zero if that is not authenticated or cannot be determined.
func (a access) server() ServerID {
	switch {
	case a.kubeconfig != nil:
		return serverID(a.kubeconfig.Server, a.kubeconfig.ServerName, a.kubeconfig.CA, a.kubeconfig.ProxyURL)
	case a.static != nil && a.static.Proxy == nil && !a.static.Insecure:
		config := rest.CopyConfig(a.static)
		if rest.LoadTLSFiles(config) != nil {
			return ""
		}
		return serverID(config.Host, config.ServerName, config.CAData, "")
	default:
		return ""
	}
}

// serverID hashes its arguments, each with its length, so that no two lists of arguments look alike.
func serverID(address, name string, ca []byte, proxy string) ServerID {
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
	return ServerID(hex.EncodeToString(hash.Sum(nil)))
}
