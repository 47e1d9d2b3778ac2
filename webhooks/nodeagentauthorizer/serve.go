package nodeagentauthorizer

import (
	"io"
	"net/http"

	"k8s.io/utils/ptr"

	"github.com/trellis-hub/trellis/webhooks/server"
)

// Path is the last part of the URL that the authorizer is served at.
const Path = "node-agent-authorizer"

// ServeTarget implements server.Extra. A target for which the authorizer is off gets no opinion.
func (a *Authorizer) ServeTarget(w http.ResponseWriter, r *http.Request, caller server.Caller) {
	body, err := io.ReadAll(io.LimitReader(r.Body, bounds.Bytes+1)) // what is longer exceeds the bounds
	if err != nil {
		http.Error(w, "the body cannot be read", http.StatusBadRequest)
		return
	}
	status, reply := a.Review(r.Context(), Caller{
		Target: caller.Target, Authenticated: caller.Certified, Settings: settingsOf(caller),
	}, r.Header.Get("Content-Type"), body)
	if status == http.StatusOK {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(status)
	_, _ = w.Write(reply) // a caller that has gone needs no answer
}

func settingsOf(caller server.Caller) Settings {
	own := caller.Settings.NodeAgentAuthorizer
	if own == nil || !own.IsEnabled() {
		return Settings{Off: true}
	}
	s := Settings{AuthorizeWithSelectors: ptr.Deref(own.AuthorizeWithSelectors, false)}
	if !ptr.Deref(own.WithoutMachines, false) {
		if s.MachineNamespace = ptr.Deref(own.MachineNamespace, ""); s.MachineNamespace == "" {
			s.MachineNamespace = caller.Target.Namespace
		}
	}
	return s
}
