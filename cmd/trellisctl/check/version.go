package check

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"

	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/version"
)

// Versions are what version prints with -o json.
type Versions struct {
	Client version.Info `json:"client"`
	// Hub is the version of the hub that leads, Source that of the API server of the source cluster. They are empty if
	// they are not known; Problem is the reason.
	Hub     string `json:"hub,omitempty"`
	Source  string `json:"source,omitempty"`
	Problem string `json:"problem,omitempty"`
}

// NewVersion returns the command version.
func NewVersion(env *cli.Env) *cobra.Command {
	var output cli.Output
	var hub cli.HubFlags
	local := false
	command := &cobra.Command{
		Use:   "version [flags]",
		Short: "Print the versions of trellisctl, of the hub and of the source cluster",
		Long: `Print the versions of trellisctl, of the hub that leads and of the source cluster. If the source cluster
does not answer, only that of trellisctl is printed, and the exit code is 6.`,
		Example: `  trellisctl version
  trellisctl version --client`,
		Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := output.Validate(); err != nil {
				return err
			}
			v := Versions{Client: version.Get()}
			var failed error
			if !local {
				var source *cli.Source
				if source, failed = env.Source(); failed == nil {
					_, failed = v.read(cmd.Context(), source, hub, env.Clock.Now())
				}
			}
			if err := v.print(env, &output, local); err != nil {
				return err
			}
			return failed
		},
	}
	output.AddFlags(command, cli.FormatJSON, cli.FormatYAML, cli.FormatName)
	hub.AddFlags(command)
	command.Flags().BoolVar(&local, "client", false, "Print the version of trellisctl only.")
	return command
}

// read reads the versions of the hub and the source cluster. It returns the heartbeat of the hub.
func (v *Versions) read(ctx context.Context, source *cli.Source, hub cli.HubFlags, now time.Time) (
	cli.Heartbeat, error) {
	heartbeat, err := hub.Read(ctx, source, now)
	if err != nil {
		v.Problem = "the source cluster does not answer"
		return heartbeat, err
	}
	v.Hub, v.Problem = heartbeat.Version, heartbeat.Problem
	if heartbeat.Known && heartbeat.Version == "" {
		v.Problem = "the hub does not report its version"
	}
	if v.Source, err = sourceVersion(ctx, source.Tables); err != nil {
		return heartbeat, fmt.Errorf("asking the source cluster for its version: %w", err)
	}
	return heartbeat, nil
}

// sourceVersion is the version of an API server.
func sourceVersion(ctx context.Context, server rest.Interface) (string, error) {
	if server == nil {
		return "", nil
	}
	raw, err := server.Get().AbsPath("/version").Do(ctx).Raw()
	if err != nil {
		return "", err
	}
	info := apimachineryversion.Info{}
	if err := json.Unmarshal(raw, &info); err != nil {
		return "", fmt.Errorf("decoding the version: %w", err)
	}
	return info.GitVersion, nil
}

func (v *Versions) print(env *cli.Env, output *cli.Output, local bool) error {
	switch {
	case output.Structured():
		return output.Encode(env.Out, v)
	case output.Format == cli.FormatName:
		fmt.Fprintln(env.Out, v.Client.Version)
		return nil
	}
	fmt.Fprintln(env.Out, "trellisctl", v.Client)
	if local {
		return nil
	}
	hub := cmp.Or(v.Hub, "unknown")
	if v.Problem != "" {
		hub += " (" + v.Problem + ")"
	}
	fmt.Fprintln(env.Out, "hub", cli.Text(hub))
	fmt.Fprintln(env.Out, "source cluster", cli.Text(cmp.Or(v.Source, "unknown")))
	return nil
}
