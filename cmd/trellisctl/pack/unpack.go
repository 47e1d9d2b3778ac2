package pack

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/cmd/trellisctl/mask"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/references"
	"github.com/trellis-hub/trellis/engine/bundle"
	"github.com/trellis-hub/trellis/engine/inventory"
)

type unpacker struct {
	env         *cli.Env
	output      cli.Output
	showSecrets bool
}

// NewUnpack returns the command unpack.
func NewUnpack(env *cli.Env) *cobra.Command {
	u := &unpacker{env: env}
	command := &cobra.Command{
		Use:   "unpack mr NAME [flags]",
		Short: "Show what is in the Secrets of a ManagedResource",
		Long: `Show what is in the Secrets of a ManagedResource, decoded and decompressed as the hub does it. A comment
in each document names the Secret and the key that it is from.

The values of Secrets among the manifests are masked unless --show-secrets is given. Documents that the hub cannot read
are reported on stderr, with the hub's error, and the exit code is 3.`,
		Example: `  trellisctl -n shoot--foo--a unpack mr addons
  trellisctl -n shoot--foo--a unpack mr addons -o name`,
	}
	env.TakeSubject(command, &u.output, u.run, cli.KindManagedResource)
	u.output.AddFlags(command, cli.FormatYAML, cli.FormatJSON, cli.FormatName)
	command.Flags().BoolVar(&u.showSecrets, "show-secrets", false, "Show the values of Secrets.")
	return command
}

func (u *unpacker) run(ctx context.Context, source *cli.Source, subject cli.Subject) error {
	mr, err := source.ManagedResource(ctx, subject.Name)
	if err != nil {
		return err
	}
	b, err := Read(ctx, source, mr)
	if err != nil {
		return err
	}
	if err := u.print(b); err != nil {
		return err
	}
	for _, fault := range b.Faults {
		u.env.Warn("%s", fault)
	}
	if !b.Complete() {
		return cli.Found()
	}
	return nil
}

// Read reads and decodes the Secrets of a ManagedResource as the hub does.
func Read(ctx context.Context, source *cli.Source, mr *resourcesv1alpha1.ManagedResource) (*bundle.Bundle, error) {
	refs, err := references.Of(mr)
	if err != nil {
		return nil, err
	}
	secrets := make([]*corev1.Secret, 0, len(refs))
	for _, key := range refs {
		s := &corev1.Secret{}
		if err := source.Get(ctx, key, s); err != nil {
			if apierrors.IsNotFound(err) {
				return nil, cli.NotFound("ManagedResource %s/%s refers to Secret %s, which does not exist",
					mr.Namespace, mr.Name, key.Name)
			}
			return nil, fmt.Errorf("reading Secret %s: %w", key, err)
		}
		secrets = append(secrets, s)
	}
	return bundle.Decode(Sources(secrets), bundle.Limits{}), nil //nolint:contextcheck // local, and bounded
}

func (u *unpacker) print(b *bundle.Bundle) error {
	shown := make([]any, 0, len(b.Objects))
	documents := cli.Output{Format: cli.FormatYAML}
	for _, o := range b.Objects {
		content := o.Object
		if !u.showSecrets {
			content = mask.Masked(content)
		}
		switch u.output.Format {
		case cli.FormatName:
			fmt.Fprintln(u.env.Out, cli.Text(inventory.KeyOfObject(o.Unstructured).String()))
		case cli.FormatJSON:
			shown = append(shown, content)
		default:
			fmt.Fprintf(u.env.Out, "---\n# %s\n", o.Position)
			if err := documents.Encode(u.env.Out, content); err != nil {
				return err
			}
		}
	}
	if u.output.Format == cli.FormatJSON {
		return u.output.Encode(u.env.Out, map[string]any{"apiVersion": "v1", "kind": "List", "items": shown})
	}
	return nil
}
