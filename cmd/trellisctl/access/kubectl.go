package access

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
)

// patience is how long kubectl may take to end after an interrupt.
const patience = 10 * time.Second

// NewKubectl returns the command kubectl.
func NewKubectl(env *cli.Env) *cobra.Command {
	a := &access{env: env}
	command := &cobra.Command{
		Use:   "kubectl NAME [flags] -- ARGUMENTS...",
		Short: "Run kubectl in a cluster, with a token for some minutes",
		Long: `Run the kubectl that is on the PATH in a cluster, with a token as of "kubeconfig". The arguments after
the two dashes are for kubectl, whose exit code is the one of this command. Nothing is stored. A command that runs for
longer than the token is valid, such as logs -f, ends with it: --duration requests a longer one.`,
		Example: `  trellisctl -n shoot--foo--a kubectl shoot-a -- get pods -A
  trellisctl kubectl shoot--foo--a/shoot-a -- -n kube-system logs deploy/coredns`,
		Args: func(cmd *cobra.Command, args []string) error {
			if cmd.ArgsLenAtDash() != 1 || len(args) < 2 || args[0] == "" {
				return cli.Usage("the arguments must be: kubectl NAME -- ARGUMENTS")
			}
			return nil
		},
		ValidArgsFunction: env.CompleteName(cli.KindCluster),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.kubectl(cmd.Context(), args[0], args[1:])
		},
	}
	a.addFlags(command)
	return command
}

func (a *access) kubectl(ctx context.Context, name string, args []string) error {
	program, err := exec.LookPath("kubectl")
	if err != nil {
		return cli.NotFound("kubectl is not on the PATH: %w", err)
	}
	g, err := a.grant(ctx, name)
	if err != nil {
		return err
	}
	text, err := g.config.Encode(false)
	if err != nil {
		return err
	}
	file, path, remove, err := secret(text)
	if err != nil {
		return err
	}
	defer remove()
	command := exec.CommandContext(ctx, program, args...) //nolint:gosec // the user's own kubectl and arguments
	command.Cancel, command.WaitDelay = func() error { return command.Process.Signal(os.Interrupt) }, patience
	command.Stdin, command.Stdout, command.Stderr = a.env.In, a.env.Out, a.env.ErrOut
	command.Env = append(slices.DeleteFunc(os.Environ(), isKubeconfig), "KUBECONFIG="+path)
	if file != nil {
		command.ExtraFiles = []*os.File{file} // descriptor 3
	}
	var ended *exec.ExitError
	if err := command.Run(); errors.As(err, &ended) && ended.ExitCode() > 0 {
		return &cli.ExitError{Code: ended.ExitCode()} // kubectl has printed why
	} else if err != nil {
		return fmt.Errorf("running kubectl: %w", err)
	}
	return nil
}

func isKubeconfig(variable string) bool {
	return strings.HasPrefix(variable, "KUBECONFIG=")
}

// inFile stores a text in a file that only its user may read, for systems that have no files in memory.
func inFile(text []byte) (file *os.File, path string, remove func(), err error) {
	stored, err := os.CreateTemp("", "trellisctl-*")
	if err != nil {
		return nil, "", nil, fmt.Errorf("storing a kubeconfig for kubectl: %w", err)
	}
	remove = func() { _ = os.Remove(stored.Name()) }
	_, err = stored.Write(text)
	if err = errors.Join(err, stored.Close()); err != nil {
		remove()
		return nil, "", nil, fmt.Errorf("storing a kubeconfig for kubectl: %w", err)
	}
	return nil, stored.Name(), remove, nil
}
