package hostile

import "slices"

// attacks are all of them, in the order of their rows.
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
	return all
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
