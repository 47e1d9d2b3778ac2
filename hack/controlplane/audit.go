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
	"slices"
	"sync"
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
	// UserAgent and Username identify the client.
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
	entries, err := cp.audit.read(filepath.Join(cp.dir, auditFile))
	if err != nil {
		return nil, fmt.Errorf("controlplane: cannot read the audit log: %w", err)
	}
	return entries, nil
}

// audit remembers what was read of an audit log, which only ever grows: tests look again and again.
type audit struct {
	mu      sync.Mutex
	offset  int64
	entries []AuditEntry
	begun   map[string]bool // long-running requests, by their ID: logged when the answer begins and again when it ends
}

func (a *audit) read(path string) ([]AuditEntry, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(a.offset, io.SeekStart); err != nil {
		return nil, err
	}
	if err := a.parse(file); err != nil {
		return nil, err
	}
	return slices.Clone(a.entries), nil
}

// parse reads on from where the last one ended.
func (a *audit) parse(log io.Reader) error {
	if a.begun == nil {
		a.begun = map[string]bool{}
	}
	reader := bufio.NewReader(log)
	for {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil // what follows the last line break is still being written
		}
		if err != nil {
			return err
		}
		a.offset += int64(len(line))
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
			return err
		}
		if a.begun[event.AuditID] {
			continue
		}
		if event.Stage == "ResponseStarted" {
			a.begun[event.AuditID] = true
		}
		a.entries = append(a.entries, AuditEntry{
			Time: event.RequestReceivedTimestamp, Verb: event.Verb,
			APIGroup: event.ObjectRef.APIGroup, Resource: event.ObjectRef.Resource, Subresource: event.ObjectRef.Subresource,
			Namespace: event.ObjectRef.Namespace, Name: event.ObjectRef.Name,
			RequestURI: event.RequestURI, UserAgent: event.UserAgent, Username: event.User.Username,
			Code: event.ResponseStatus.Code,
		})
	}
}
