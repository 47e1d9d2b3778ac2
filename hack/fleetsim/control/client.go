package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/trellis-hub/trellis/hack/fleetsim"
)

// callTimeout is how long a call may take. Some work on thousands of targets.
const callTimeout = 2 * time.Minute

// Client operates a fleet in another process. The methods are named after the calls.
type Client struct {
	// Address of the control API, such as http://127.0.0.1:8710.
	Address string
	// HTTP is what calls are made with. Nil: http.DefaultClient.
	HTTP *http.Client
}

// RefusedError is the error of a call that is wrong in itself: it was answered with 400.
type RefusedError struct{ reason string }

func (r RefusedError) Error() string { return r.reason }

// Targets lists targets.
func (c Client) Targets(ctx context.Context, s fleetsim.Selection) ([]Target, error) {
	var targets Targets
	err := c.call(ctx, "/targets", s, &targets)
	return targets.Targets, err
}

// Secrets returns registrations, with the kubeconfigs of now.
func (c Client) Secrets(ctx context.Context, r GetSecrets) (Secrets, error) {
	var secrets Secrets
	err := c.call(ctx, "/secrets", r, &secrets)
	return secrets, err
}

// SetFault sets a fault and returns the names of the targets that have it now.
func (c Client) SetFault(ctx context.Context, r SetFault) ([]string, error) {
	return c.change(ctx, "/set-fault", r)
}

// ClearFaults clears faults and returns the names of the targets that had any.
func (c Client) ClearFaults(ctx context.Context, r ClearFaults) ([]string, error) {
	return c.change(ctx, "/clear-faults", r)
}

// Rotate replaces credentials or certificates.
func (c Client) Rotate(ctx context.Context, r Rotate) ([]string, error) {
	return c.change(ctx, "/rotate", r)
}

// Skew sets clocks wrong.
func (c Client) Skew(ctx context.Context, r Skew) ([]string, error) {
	return c.change(ctx, "/skew", r)
}

// Do does something once.
func (c Client) Do(ctx context.Context, r Do) ([]string, error) { return c.change(ctx, "/do", r) }

// SetCRD lets a CustomResourceDefinition come or go.
func (c Client) SetCRD(ctx context.Context, r SetCRD) ([]string, error) {
	return c.change(ctx, "/set-crd", r)
}

// FailDiscovery lets discovery fail in part.
func (c Client) FailDiscovery(ctx context.Context, r FailDiscovery) ([]string, error) {
	return c.change(ctx, "/fail-discovery", r)
}

// Journal returns what was recorded.
func (c Client) Journal(ctx context.Context, r GetJournal) (Journal, error) {
	var j Journal
	err := c.call(ctx, "/journal", r, &j)
	return j, err
}

// ResetJournal begins a new phase of the journal.
func (c Client) ResetJournal(ctx context.Context) error {
	return c.call(ctx, "/reset-journal", struct{}{}, &struct{}{})
}

// Stats returns what the simulator takes.
func (c Client) Stats(ctx context.Context) (Stats, error) {
	var s Stats
	err := c.call(ctx, "/stats", struct{}{}, &s)
	return s, err
}

func (c Client) change(ctx context.Context, path string, request any) ([]string, error) {
	var done Done
	err := c.call(ctx, path, request, &done)
	return done.Targets, err
}

func (c Client) call(ctx context.Context, path string, request, result any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	body, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("encoding a call of %s: %w", path, err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Address+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("calling %s: %w", path, err)
	}
	client := c.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	response, err := client.Do(r)
	if err != nil {
		return fmt.Errorf("calling the simulator: %w", err)
	}
	defer func() { _ = response.Body.Close() }() // it was read
	decoder := json.NewDecoder(response.Body)
	if response.StatusCode == http.StatusOK {
		if err := decoder.Decode(result); err != nil {
			return fmt.Errorf("reading the answer of %s: %w", path, err)
		}
		return nil
	}
	var f failure
	if err := decoder.Decode(&f); err != nil || f.Error == "" {
		return fmt.Errorf("calling %s: the answer is %s", path, response.Status)
	}
	if response.StatusCode == http.StatusBadRequest {
		return RefusedError{f.Error}
	}
	return errors.New(f.Error)
}
