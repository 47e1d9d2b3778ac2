package app

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
)

// reloadEvery is how often the configuration file is looked at. It is read, not watched: a mounted ConfigMap changes by
// a link two directories above.
const reloadEvery = 5 * time.Second

var (
	metricReloaded = metricDefinitions.Gauge(
		"trellis_hub_config_last_reload_successful",
		"1 if the configuration file is valid, else 0: the hub would not start with it.")
	metricOutdated = metricDefinitions.Gauge(
		"trellis_hub_config_restart_needed",
		"1 if the configuration file has changed in more than the log level, and the hub was not restarted since.")
)

var descReloaded, descOutdated = metricReloaded.Desc(), metricOutdated.Desc()

// reloader takes over the log level when the configuration file changes. Other changes are reported, and need a
// restart: the classes, for example, must not change while the hub runs.
type reloader struct {
	file     string
	running  *configv1alpha1.HubConfiguration // what the hub was started with
	setLevel func(level string)
	log      logr.Logger

	level             string
	seen              []byte // the content that was judged last
	invalid, outdated atomic.Bool
}

func newReloader(o Options) *reloader {
	return &reloader{file: o.ConfigFile, running: o.Config, setLevel: o.SetLogLevel, level: o.Config.LogLevel,
		log: o.Logger.WithName("config")}
}

// Start looks at the file until ctx ends.
func (r *reloader) Start(ctx context.Context) error {
	ticker := time.NewTicker(reloadEvery)
	defer ticker.Stop()
	for {
		r.look()
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (r *reloader) look() {
	data, err := os.ReadFile(r.file)
	if err != nil {
		r.seen = nil
		if !r.invalid.Swap(true) {
			r.log.Error(err, "The configuration file can no longer be read; continuing without it")
		}
		return
	}
	if r.seen != nil && bytes.Equal(data, r.seen) {
		return
	}
	r.seen = data
	config, err := configv1alpha1.Load(data)
	if err != nil {
		r.invalid.Store(true)
		r.log.Error(fmt.Errorf("configuration %s: %w", r.file, err),
			"The configuration file is no longer valid; continuing without it")
		return
	}
	r.invalid.Store(false)
	if config.LogLevel != r.level {
		r.setLevel(config.LogLevel)
		r.log.Info("The log level has changed", "logLevel", config.LogLevel, "before", r.level)
		r.level = config.LogLevel
	}
	config.LogLevel = r.running.LogLevel
	outdated := !reflect.DeepEqual(config, r.running)
	if outdated && !r.outdated.Load() {
		r.log.Info("The configuration file has changed in more than the log level, which takes a restart")
	}
	r.outdated.Store(outdated)
}

// Describe implements prometheus.Collector.
func (r *reloader) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- descReloaded
	descriptions <- descOutdated
}

// Collect implements prometheus.Collector.
func (r *reloader) Collect(collected chan<- prometheus.Metric) {
	reloaded, outdated := 1.0, 0.0
	if r.invalid.Load() {
		reloaded = 0
	}
	if r.outdated.Load() {
		outdated = 1
	}
	collected <- prometheus.MustNewConstMetric(descReloaded, prometheus.GaugeValue, reloaded)
	collected <- prometheus.MustNewConstMetric(descOutdated, prometheus.GaugeValue, outdated)
}
