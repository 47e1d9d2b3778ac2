// Command print shows what the package knows of this build.
package main

import (
	"fmt"

	"github.com/trellis-hub/trellis/version"
)

func main() { fmt.Println(version.Get()) }
