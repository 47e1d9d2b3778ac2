package cluster

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/cmd/trellisctl/remote"
)

// change is what add, rotate and remove have in common: they take the kubeconfig of a cluster, change its registration,
// print the outcome, and wait for the hub.
type change struct {
	env     *cli.Env
	output  cli.Output
	from    fromFlags
	target  remote.Flags
	wait    bool
	timeout time.Duration
}

// addFlags adds the flags. wait is whether the command waits by default, and until what.
func (c *change) addFlags(cmd *cobra.Command, wait bool, until string, timeout time.Duration) {
	c.output.AddFlags(cmd, cli.FormatJSON, cli.FormatYAML, cli.FormatName)
	c.from.addFlags(cmd, c.env)
	c.target.AddConnectFlags(cmd)
	cmd.Flags().BoolVar(&c.wait, "wait", wait, "Wait until "+until+".")
	cmd.Flags().DurationVar(&c.timeout, "timeout", timeout, "How long to wait for the hub.")
}

// Actions of an Outcome.
const (
	Registered = "registered"
	Rotated    = "rotated"
	Unchanged  = "unchanged"
	Removed    = "removed"
)

// Outcome is the outcome of a change of a registration, as printed by -o json. It does not include the reaction of the
// hub: the exit code reports whether the wait for it timed out.
type Outcome struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Action    string `json:"action"`
	// Version and UID are those of the cluster; empty if it was not contacted.
	Version string    `json:"version,omitempty"`
	UID     types.UID `json:"uid,omitempty"`
	// ServiceAccount is the namespace/name of the service account in the cluster that the registration uses, or used if
	// it was removed; empty if trellisctl made none.
	ServiceAccount string `json:"serviceAccount,omitempty"`
	// Deleted are the objects that were deleted in the cluster.
	Deleted []string `json:"deleted,omitempty"`
}

// report prints an outcome.
func (c *change) report(o *Outcome) error {
	if c.output.Structured() {
		return c.output.Encode(c.env.Out, o)
	}
	if c.output.Format == cli.FormatName {
		fmt.Fprintln(c.env.Out, nameOf(o.Name))
		return nil
	}
	line := "cluster/" + o.Name + " " + o.Action
	if o.UID != "" {
		line += fmt.Sprintf(" (%s, UID %s)", o.Version, o.UID)
	}
	fmt.Fprintln(c.env.Out, cli.Text(line))
	for _, name := range o.Deleted {
		fmt.Fprintln(c.env.Out, cli.Text(name)+" deleted in the cluster")
	}
	return nil
}
