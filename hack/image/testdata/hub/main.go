// Command hub stands for the hub in tests of its image: it says which build it is, and refuses any other flag unless it is lax.
package main

import (
	"fmt"
	"os"
)

// Set by the linker.
var version, commit, date, lax string

func main() {
	switch {
	case os.Args[1] == "--version":
		fmt.Printf("trellis %s (commit %s of %s, some Go)\n", version, commit, date)
	case lax == "":
		fmt.Fprintln(os.Stderr, "there is no flag", os.Args[1])
		os.Exit(1)
	}
}
