package tools

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// timeout bounds how long building a program takes, on a slow machine that has to download its modules first.
const timeout = 20 * time.Minute

// Path returns the path of the executable of a program, and builds it if the cache of Go does not have it. root is the
// root of the repository, folder the one of the module that pins the program, and program the name of its command.
func Path(ctx context.Context, root, folder, program string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "tool", "-n", "-modfile=hack/tools/"+folder+"/go.mod", program)
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("building %s: %w: %s", program, err, &stderr)
	}
	return strings.TrimSpace(string(out)), nil
}
