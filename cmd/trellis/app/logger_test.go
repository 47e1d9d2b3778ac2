package app

import (
	"bytes"
	"testing"

	. "github.com/onsi/gomega"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// The keys of a logger are encoded when it says something, whatever it is made of and whenever the level changes.
func TestLoggerSaysWithAllItsKeys(t *testing.T) {
	g := NewWithT(t)
	var out bytes.Buffer
	level := zap.NewAtomicLevelAt(zapcore.InfoLevel)
	root := newLogger("json", level, &out)
	class := root.WithValues("class", "seed")
	run := class.WithName("runs").WithValues("target", "a/b", "managedResource", "a/c")

	run.V(1).Info("Not said")
	g.Expect(out.String()).To(BeEmpty())
	level.SetLevel(zapcore.DebugLevel)
	run.V(1).Info("Said", "object", "o")
	g.Expect(out.String()).To(SatisfyAll(ContainSubstring(`"logger":"runs"`), HaveSuffix(`"class":"seed","target":"a/b","managedResource":"a/c","object":"o"}`+"\n")))
	out.Reset()
	class.Info("Said, too")
	g.Expect(out.String()).To(HaveSuffix(`"msg":"Said, too","class":"seed"}` + "\n"))
	out.Reset()
	root.Info("Said without")
	g.Expect(out.String()).To(HaveSuffix(`"msg":"Said without"}` + "\n"))
}
