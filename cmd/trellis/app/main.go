package app

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/version"
)

// Main runs the command line until ctx ends.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("trellis", flag.ContinueOnError)
	flags.SetOutput(stderr)
	file := flags.String("config", "", "`file` with the HubConfiguration (required)")
	check := flags.Bool("check", false, "only check the configuration, and say everything that is wrong with it")
	showVersion := flags.Bool("version", false, "print the version, commit and date of the build")
	flags.Usage = func() {
		fmt.Fprintln(stderr, "Trellis keeps ManagedResources applied, healthy and free of drift in many clusters.\n\nUsage: trellis --config FILE [--check]")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return fmt.Errorf("reading the command line: %w", err)
	}
	if *showVersion {
		fmt.Fprintln(stdout, "trellis", version.Get())
		return nil
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q; see --help", flags.Arg(0))
	}
	if *file == "" {
		return errors.New("--config is required; see --help")
	}
	data, err := os.ReadFile(*file)
	if err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	config, err := configv1alpha1.Load(data)
	if err != nil {
		return fmt.Errorf("configuration %s: %w", *file, err)
	}
	if *check {
		fmt.Fprintf(stdout, "%s is valid\n", *file)
		return nil
	}
	level := zap.NewAtomicLevelAt(zapLevel(config.LogLevel))
	log := newLogger(config.LogFormat, level, stderr)
	ctrllog.SetLogger(log)
	klog.SetLogger(log.WithName("client-go"))
	redirectStandardLog(log)
	source, err := sourceConfig(config)
	if err != nil {
		return err
	}
	if host, _, err := rest.DefaultServerUrlFor(source); err == nil {
		// A counter for each target's address would never go away again.
		clustercache.MergeHostsInClientMetrics(host.Host)
	}
	build := version.Get()
	log.Info("Starting", "version", build.Version, "commit", build.Commit, "go", build.Go, "classes", len(config.Classes))
	return Run(ctx, Options{
		Config: config, Source: source, Logger: log,
		ConfigFile: *file, SetLogLevel: func(name string) { level.SetLevel(zapLevel(name)) },
	})
}

// sourceConfig finds the source cluster: $KUBECONFIG, the configured kubeconfig, or the cluster the process runs in.
func sourceConfig(config *configv1alpha1.HubConfiguration) (*rest.Config, error) {
	path := config.SourceClientConnection.Kubeconfig
	if env := os.Getenv("KUBECONFIG"); env != "" {
		path = env
	}
	var source *rest.Config
	var err error
	if path == "" {
		source, err = rest.InClusterConfig()
	} else {
		source, err = clientcmd.BuildConfigFromFlags("", path)
	}
	if err != nil {
		return nil, fmt.Errorf("access to the source cluster: %w", err)
	}
	return source, nil
}

// zapLevel is what a configured log level is to the logger.
func zapLevel(name string) zapcore.Level {
	switch name {
	case "debug":
		return zapcore.DebugLevel
	case "error":
		return zapcore.ErrorLevel
	}
	return zapcore.InfoLevel
}

func newLogger(format string, level zap.AtomicLevel, out io.Writer) logr.Logger {
	encoding := zap.NewProductionEncoderConfig()
	encoding.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	encoder := zapcore.NewJSONEncoder(encoding)
	if format == "text" {
		encoder = zapcore.NewConsoleEncoder(encoding)
	}
	core := zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(out)), level)
	return zapr.NewLogger(zap.New(lazyCore{core}))
}

// lazyCore encodes the keys that a logger was given when it says something. Each run of a controller has a logger of
// its own, and hardly any says anything.
type lazyCore struct{ zapcore.Core }

func (c lazyCore) With(fields []zapcore.Field) zapcore.Core {
	return lazyCore{zapcore.NewLazyWith(c.Core, fields)}
}
