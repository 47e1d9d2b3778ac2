package controlplane

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

const (
	auditFile   = "audit.log"
	auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`
)

// AuditEntry is one request that the API server has answered; a watch counts when it begins.
type AuditEntry struct {
	// Time is when the request came in.
	Time time.Time
	// Verb is get, list, watch, create, update, patch, delete or deletecollection, or that of HTTP in lower case for paths
	// that are no resources.
	Verb string
	// APIGroup, Resource, Subresource, Namespace and Name are empty where they do not apply.
	APIGroup, Resource, Subresource, Namespace, Name string
	// RequestURI is the path with its query.
	RequestURI string
	// UserAgent and Username tell who asked.
	UserAgent, Username string
	// Code is the HTTP status of the answer.
	Code int
}

// String renders the entry on one line.
func (e AuditEntry) String() string {
	return fmt.Sprintf("%s %s -> %d (%s as %s)", e.Verb, e.RequestURI, e.Code, e.UserAgent, e.Username)
}

// AuditEntries returns what the API server has been asked since it was first started, in the order of the answers. It needs
// Options.Audit. An entry is written when the answer is complete, which its reader may know a moment earlier.
func (cp *ControlPlane) AuditEntries() ([]AuditEntry, error) {
	if !cp.options.Audit {
		return nil, errors.New("controlplane: started without Options.Audit")
	}
	file, err := os.Open(filepath.Join(cp.dir, auditFile))
	if err != nil {
		return nil, fmt.Errorf("controlplane: %w", err)
	}
	defer func() { _ = file.Close() }()
	entries, err := parseAudit(file)
	if err != nil {
		return nil, fmt.Errorf("controlplane: cannot read the audit log: %w", err)
	}
	return entries, nil
}

func parseAudit(log io.Reader) ([]AuditEntry, error) {
	var entries []AuditEntry
	// A long-running request is logged when its answer begins and again when it ends.
	begun := map[string]bool{}
	reader := bufio.NewReader(log)
	for {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return entries, nil // what follows the last line break is still being written
		}
		if err != nil {
			return nil, err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var event struct {
			AuditID                  string
			Stage                    string
			RequestURI               string
			Verb                     string
			User                     struct{ Username string }
			UserAgent                string
			ObjectRef                struct{ APIGroup, Resource, Subresource, Namespace, Name string }
			ResponseStatus           struct{ Code int }
			RequestReceivedTimestamp time.Time
		}
		if err := json.Unmarshal(line, &event); err != nil {
			return nil, err
		}
		if begun[event.AuditID] {
			continue
		}
		if event.Stage == "ResponseStarted" {
			begun[event.AuditID] = true
		}
		entries = append(entries, AuditEntry{
			Time: event.RequestReceivedTimestamp, Verb: event.Verb,
			APIGroup: event.ObjectRef.APIGroup, Resource: event.ObjectRef.Resource, Subresource: event.ObjectRef.Subresource,
			Namespace: event.ObjectRef.Namespace, Name: event.ObjectRef.Name,
			RequestURI: event.RequestURI, UserAgent: event.UserAgent, Username: event.User.Username,
			Code: event.ResponseStatus.Code,
		})
	}
}
