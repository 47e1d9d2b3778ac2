package controlplane

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// roleVariable makes the test binary play the process that dies.
const roleVariable = "TRELLIS_CONTROLPLANE_TEST_ROLE"

// report is what that process prints before.
type report struct {
	Dir  string
	PIDs []int
}

func TestDeathOfTheProcessLeavesNothing(t *testing.T) {
	if os.Getenv(roleVariable) != "" {
		startAndHang(t)
	}
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	g := NewWithT(t)
	victim := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	victim.Env = append(os.Environ(), roleVariable+"=victim")
	victim.Stderr = os.Stderr
	output, err := victim.StdoutPipe()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(victim.Start()).To(Succeed())
	defer func() {
		_ = victim.Process.Kill()
		_ = victim.Wait()
	}()

	var left report
	for lines := bufio.NewScanner(output); left.Dir == "" && lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "{") {
			g.Expect(json.Unmarshal(lines.Bytes(), &left)).To(Succeed())
		}
	}
	g.Expect(left.PIDs).To(HaveLen(5 + 1))
	g.Expect(left.PIDs).To(HaveEach(Satisfy(isAlive)))
	g.Expect(left.Dir).To(BeADirectory())

	g.Expect(victim.Process.Kill()).To(Succeed())
	g.Expect(victim.Wait()).To(MatchError("signal: killed"))
	g.Eventually(func() []int { return left.PIDs }).WithTimeout(2 * time.Minute).
		ShouldNot(ContainElement(Satisfy(isAlive)))
	sweep() // the guard removes the directory under the feet of etcd, which may put a last file there
	g.Expect(left.Dir).NotTo(BeAnExistingFile())
}

// startAndHang starts a complete control plane with a frozen API server, prints what there is, and waits for its death.
func startAndHang(t *testing.T) {
	cp, err := Start(context.Background(), Options{ControllerManager: true, Scheduler: true, Nodes: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := cp.Freeze(); err != nil {
		t.Fatal(err)
	}
	line, err := json.Marshal(report{Dir: cp.dir, PIDs: cp.pids()})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(string(line))
	select {}
}

func TestSweepRemovesDirectoriesOfTheDead(t *testing.T) {
	g := NewWithT(t)
	t.Setenv("TMPDIR", t.TempDir())
	dead := exec.Command("true")
	g.Expect(dead.Run()).To(Succeed())

	ofTheDead := filepath.Join(os.TempDir(), fmt.Sprintf("%s%d-name-123", dirPrefix, dead.Process.Pid))
	g.Expect(os.MkdirAll(filepath.Join(ofTheDead, "etcd"), 0o700)).To(Succeed())
	ofTheLiving, err := makeTempDir("name")
	g.Expect(err).NotTo(HaveOccurred())
	ofAnother := filepath.Join(os.TempDir(), "something-else")
	g.Expect(os.Mkdir(ofAnother, 0o700)).To(Succeed())

	sweep()
	g.Expect(ofTheDead).NotTo(BeAnExistingFile())
	g.Expect(ofTheLiving).To(BeADirectory())
	g.Expect(ofAnother).To(BeADirectory())
}

func TestSafeName(t *testing.T) {
	g := NewWithT(t)
	g.Expect(safeName("TestOne/case #1")).To(Equal("testone-case-1"))
	g.Expect(safeName("--")).To(BeEmpty())
	g.Expect(len(safeName(strings.Repeat("long", 100)))).To(BeNumerically("<=", 40))
}
