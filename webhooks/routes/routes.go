package routes

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"path"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-hub/trellis/clustercache"
)

const (
	// source stands for the namespace of targets that have none. No namespace can have this name, since it has a dot.
	source = "no.namespace"
	// ignore is the last part of paths of entries whose failure policy is Ignore.
	ignore = "ignore"
	// maxPath bounds the length of a path in bytes.
	maxPath = 1024
)

// Route is what a path says.
type Route struct {
	// Target is the registration that the path was made for, UID that of the cluster behind it then.
	Target clustercache.ClusterKey
	UID    types.UID
	// Webhook is the path of the webhook.
	Webhook string
	// Ignored says that the API server continues without an answer.
	Ignored bool
}

// Path returns the path of a route, with a code by a key.
func (r Route) Path(key []byte) string {
	path := "/" + r.namespace() + "/" + r.Target.Name + "/" + string(r.UID) + "." + r.code(key) + "/" + r.Webhook
	if r.Ignored {
		path += "/" + ignore
	}
	return path
}

func (r Route) namespace() string {
	if r.Target.Namespace == "" {
		return source
	}
	return r.Target.Namespace
}

// code proves that the hub knows the route.
func (r Route) code(key []byte) string {
	mac := hmac.New(sha256.New, key)
	for _, part := range []string{r.namespace(), r.Target.Name, string(r.UID)} {
		mac.Write([]byte(part))
		mac.Write([]byte{0}) // which none of them can contain
	}
	return encoding.EncodeToString(mac.Sum(nil))
}

// Claimed is a route as a path has it, which may be a forged one.
type Claimed struct {
	route Route
	code  string
}

// Parse reads a path. ok is false if it is none of the hub's.
func Parse(path string) (claimed Claimed, ok bool) {
	if len(path) > maxPath || !strings.HasPrefix(path, "/") || strings.ContainsRune(path, 0) {
		return Claimed{}, false
	}
	parts := strings.Split(path[1:], "/")
	if len(parts) == 5 && parts[4] == ignore {
		parts, claimed.route.Ignored = parts[:4], true
	}
	if len(parts) != 4 {
		return Claimed{}, false
	}
	for _, part := range parts {
		if part == "" {
			return Claimed{}, false
		}
	}
	uid, code, coded := strings.Cut(parts[2], ".")
	if uid == "" || coded && code == "" {
		return Claimed{}, false
	}
	claimed.route.Target = clustercache.ClusterKey{Namespace: parts[0], Name: parts[1]}
	if parts[0] == source {
		claimed.route.Target.Namespace = ""
	}
	claimed.route.UID, claimed.route.Webhook, claimed.code = types.UID(uid), parts[3], code
	return claimed, true
}

// WebhookOf returns the path of the webhook in the path of a URL that the hub has made, which may have a prefix of the
// endpoint. It verifies nothing. No webhook is called "ignore".
func WebhookOf(urlPath string) string {
	return path.Base(strings.TrimSuffix(urlPath, "/"+ignore))
}

// Genuine returns the route if its code was made with one of some keys. It takes as long whether or not it is nearly
// right.
func (c Claimed) Genuine(keys ...[]byte) (Route, bool) {
	genuine := false
	for _, key := range keys {
		if len(key) > 0 && hmac.Equal([]byte(c.route.code(key)), []byte(c.code)) {
			genuine = true
		}
	}
	if !genuine {
		return Route{}, false
	}
	return c.route, true
}

// Proven returns the route if it has no code, and is that of a cluster which the caller has proven to be in another
// way. A path with a code has to have the right one, for every caller.
func (c Claimed) Proven(caller types.UID) (Route, bool) {
	if c.code != "" || caller == "" || c.route.UID != caller {
		return Route{}, false
	}
	return c.route, true
}

// encoding is that of codes and of names of hosts. API servers want lower case in paths of Services, too.
var encoding = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// codes matches the secret parts of paths.
var codes = regexp.MustCompile(`\.[0-9a-v]{52}/`)

// WithoutCodes replaces the secret parts of paths in a text, such as a message of an API server, which repeats them.
func WithoutCodes(text string) string { return codes.ReplaceAllString(text, ".(code)/") }

// Label is what stands for a target in the names of hosts, where each target has one of its own. It reveals nothing.
func Label(target clustercache.ClusterKey, uid types.UID) string {
	sum := sha256.Sum256([]byte(target.String() + "\x00" + string(uid)))
	return encoding.EncodeToString(sum[:20])
}
