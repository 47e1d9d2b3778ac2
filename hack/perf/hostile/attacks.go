package hostile

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// attacks are all of them, in the order of their rows. The last one plays one of each row at the same time.
func attacks() []attack {
	all := slices.Concat(
		kubeconfigCases(), forgedCases(), discoveryCases(), answersCases(), pagesCases(), referencesCases(),
		fieldsCases(), framesCases(), textsCases(), addressesCases(),
	)
	slices.SortStableFunc(all, func(a, b attack) int {
		if a.row != b.row {
			return a.row - b.row
		}
		return 0
	})
	return append(all, together(all))
}

// together plays the representative selection of the attacks at the same time, each in a namespace of its own.
func together(all []attack) attack {
	var chosen []attack
	for _, a := range all {
		if a.quick {
			chosen = append(chosen, a)
		}
	}
	scenes := make([]*scene, len(chosen)) // one run at a time has them
	return attack{
		name: "one of each row at once", budget: allRows, window: time.Minute, quick: true, stalls: true,
		begin: func(ctx context.Context, s *scene) error {
			for i, a := range chosen {
				var err error
				if scenes[i], err = s.beside(ctx); err != nil {
					return err
				}
				if err := a.begin(ctx, scenes[i]); err != nil {
					return fmt.Errorf("%s: %w", a.id(), err)
				}
			}
			return nil
		},
		goesOn: func(ctx context.Context, _ *scene) error {
			group, ctx := errgroup.WithContext(ctx)
			for i, a := range chosen {
				if a.goesOn != nil {
					group.Go(func() error { return a.goesOn(ctx, scenes[i]) })
				}
			}
			return group.Wait()
		},
	}
}

// rows is how many rows the table of attacks has.
const rows = 15

// tested is a row that no running hub takes part in. Its tests are named.
type tested struct {
	row         int
	name, tests string
}

// elsewhere are the rows of the command line, which "make test" goes through.
var elsewhere = []tested{
	{14, "rotation for an account that a tenant named", "TestRotationTakesNoAccountFromTheRegistration"},
}
