package managedresource

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/trellis-hub/trellis/controllers/managedresource/source/secretindex"
	"github.com/trellis-hub/trellis/engine/apply"
)

// engine changes when a new version of the hub would send other objects for the same input; then everything is applied
// once, which is a no-op where nothing differs.
const engine = "3"

// applied is the content of the applied annotation: what was applied and how the objects were afterwards. It is compared,
// never trusted: a wrong one costs an apply that changes nothing.
type applied struct {
	Input, Fold string
}

// String renders the annotation.
func (a applied) String() string { return a.Input + "." + a.Fold }

func parseApplied(s string) (applied, bool) {
	input, fold, ok := strings.Cut(s, ".")
	return applied{Input: input, Fold: fold}, ok && input != "" && fold != ""
}

// inputOf condenses what decides about the objects to be applied.
func inputOf(work *run, managedBy string, secrets []secretindex.Version) string {
	spec, err := json.Marshal(work.mr.Spec)
	if err != nil { // cannot happen for a decoded object; a unique input leads to an apply
		spec = fmt.Append(nil, work.mr.Generation)
	}
	hash := sha256.New()
	for _, part := range []string{engine, work.class.Name, work.origin(), managedBy, apply.Description, string(spec)} {
		hash.Write([]byte(part))
		hash.Write([]byte{0})
	}
	for _, v := range secrets {
		hash.Write([]byte(v.UID))
		hash.Write([]byte{'/'})
		hash.Write([]byte(v.ResourceVersion))
		hash.Write([]byte{0})
	}
	return hex.EncodeToString(hash.Sum(nil)[:16])
}
