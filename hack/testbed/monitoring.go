package testbed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/api"
	prometheusv1 "github.com/prometheus/client_golang/api/prometheus/v1"

	chart "github.com/trellis-hub/trellis/charts/trellis"
)

// MonitoringOptions say which Prometheus is started and how it looks.
type MonitoringOptions struct {
	// Binaries is the folder with prometheus and alertmanager, see "make monitoring".
	Binaries string
	// Dir is where their files go.
	Dir string
	// Interval is how often the hubs are asked and the rules evaluated. Zero: every 5 seconds.
	Interval time.Duration
	// Rules is a rules file. Nil: that of the chart.
	Rules []byte
	// Dashboards is the folder of those that Grafana is to show, if it is installed. Empty: no Grafana.
	Dashboards string
}

// Monitoring is a Prometheus that watches hubs by the chart's rules, with an Alertmanager that has the chart's inhibition.
type Monitoring struct {
	// API is that of Prometheus.
	API prometheusv1.API
	// URL is the address of Prometheus, AlertmanagerURL that of the Alertmanager. GrafanaURL is empty if no Grafana is installed.
	URL, AlertmanagerURL, GrafanaURL string

	dir      string
	services []*service
}

const prometheusConfig = `
global: {scrape_interval: %[1]s, evaluation_interval: %[1]s, scrape_timeout: %[1]s}
rule_files: [rules.yaml]
alerting:
  alertmanagers:
  - static_configs: [{targets: [%[2]q]}]
scrape_configs:
- job_name: trellis
  file_sd_configs: [{files: [hubs.json]}]
`

const alertmanagerConfig = `
route: {receiver: none, group_wait: 1s}
receivers: [{name: none}]
`

// StartMonitoring starts both and returns when they are ready. Call Watch to add what it scrapes.
func StartMonitoring(ctx context.Context, o MonitoringOptions) (*Monitoring, error) {
	if o.Interval == 0 {
		o.Interval = 5 * time.Second
	}
	if o.Rules == nil {
		o.Rules = chart.Rules()
	}
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	address := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", ports[i]) }
	m := &Monitoring{dir: o.Dir, URL: "http://" + address(0), AlertmanagerURL: "http://" + address(1)}
	for name, content := range map[string][]byte{
		"prometheus.yaml":   fmt.Appendf(nil, prometheusConfig, o.Interval, address(1)),
		"rules.yaml":        o.Rules,
		"alertmanager.yaml": append([]byte(alertmanagerConfig), chart.InhibitRules()...),
		"hubs.json":         []byte("[]"),
	} {
		if err := os.WriteFile(filepath.Join(o.Dir, name), content, 0o600); err != nil {
			return nil, fmt.Errorf("configuration of Prometheus: %w", err)
		}
	}
	client, err := api.NewClient(api.Config{Address: m.URL})
	if err != nil {
		return nil, fmt.Errorf("client for Prometheus: %w", err)
	}
	m.API = prometheusv1.NewAPI(client)
	services := []*service{
		{name: "alertmanager", ready: m.AlertmanagerURL + "/-/ready", args: []string{
			"--config.file=alertmanager.yaml", "--storage.path=alertmanager", "--web.listen-address=" + address(1), "--cluster.listen-address=",
		}},
		{name: "prometheus", ready: m.URL + "/-/ready", args: []string{
			"--config.file=prometheus.yaml", "--storage.tsdb.path=prometheus", "--web.listen-address=" + address(0), "--log.level=warn",
		}},
	}
	grafana, err := m.grafana(o, address(2))
	if err != nil {
		return nil, err
	}
	for _, s := range append(services, grafana...) {
		m.services = append(m.services, s)
		if err := s.start(ctx, o.Binaries, o.Dir); err != nil {
			m.Stop()
			return nil, err
		}
	}
	return m, nil
}

// grafanaHome is where the packages of Grafana put what it needs beside its program.
const grafanaHome = "/usr/share/grafana"

// grafana prepares a Grafana with the chart's dashboards, if one is installed and dashboards are wanted.
func (m *Monitoring) grafana(o MonitoringOptions, address string) ([]*service, error) {
	if o.Dashboards == "" {
		return nil, nil
	}
	program, err := exec.LookPath("grafana")
	if errors.Is(err, exec.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking for Grafana: %w", err)
	}
	for name, content := range map[string]string{
		"datasources": fmt.Sprintf("apiVersion: 1\ndatasources:\n- {name: Prometheus, type: prometheus, access: proxy, isDefault: true, url: %q}\n", m.URL),
		"dashboards":  fmt.Sprintf("apiVersion: 1\nproviders:\n- {name: trellis, type: file, options: {path: %q}}\n", o.Dashboards),
	} {
		folder := filepath.Join(o.Dir, "provisioning", name)
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return nil, fmt.Errorf("configuration of Grafana: %w", err)
		}
		if err := os.WriteFile(filepath.Join(folder, "trellis.yaml"), []byte(content), 0o600); err != nil {
			return nil, fmt.Errorf("configuration of Grafana: %w", err)
		}
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("configuration of Grafana: %w", err)
	}
	m.GrafanaURL = "http://" + address
	return []*service{{name: "grafana", program: program, ready: m.GrafanaURL + "/api/health", args: []string{
		"server", "--homepath", grafanaHome,
		"cfg:server.http_addr=" + host, "cfg:server.http_port=" + port,
		"cfg:paths.data=" + filepath.Join(o.Dir, "grafana"), "cfg:paths.logs=" + filepath.Join(o.Dir, "grafana"), "cfg:paths.provisioning=" + filepath.Join(o.Dir, "provisioning"),
		"cfg:auth.anonymous.enabled=true", "cfg:analytics.reporting_enabled=false", "cfg:analytics.check_for_updates=false",
	}}}, nil
}

// Watch has Prometheus look at these hubs and no others, within a moment.
func (m *Monitoring) Watch(hubs ...*Process) error {
	type group struct {
		Targets []string `json:"targets"`
	}
	groups := []group{}
	for _, h := range hubs {
		groups = append(groups, group{Targets: []string{h.metrics}})
	}
	content, err := json.Marshal(groups)
	if err != nil {
		return fmt.Errorf("adding the hub to Prometheus: %w", err)
	}
	// Prometheus notices the file that takes the place of another one; it must never see half of it.
	file := filepath.Join(m.dir, "hubs.json")
	if err := os.WriteFile(file+".tmp", content, 0o600); err != nil {
		return fmt.Errorf("adding the hub to Prometheus: %w", err)
	}
	if err := os.Rename(file+".tmp", file); err != nil {
		return fmt.Errorf("adding the hub to Prometheus: %w", err)
	}
	return nil
}

// Muted returns the alerts that the Alertmanager has and mutes because of others.
func (m *Monitoring) Muted(ctx context.Context) (names []string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, m.AlertmanagerURL+"/api/v2/alerts", nil)
	if err != nil {
		return nil, fmt.Errorf("asking the Alertmanager: %w", err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking the Alertmanager: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	var alerts []struct {
		Labels map[string]string `json:"labels"`
		Status struct {
			InhibitedBy []string `json:"inhibitedBy"`
		} `json:"status"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&alerts); err != nil {
		return nil, fmt.Errorf("asking the Alertmanager: %w", err)
	}
	for _, a := range alerts {
		if len(a.Status.InhibitedBy) > 0 {
			names = append(names, a.Labels["alertname"])
		}
	}
	return names, nil
}

// Stop ends both. Twice is fine.
func (m *Monitoring) Stop() {
	for _, s := range m.services {
		s.stop()
	}
}

// service is a program that serves HTTP until it is ended.
type service struct {
	name    string
	program string // empty: of this name in the folder of binaries
	args    []string
	ready   string

	cmd   *exec.Cmd
	guard *guard
	done  chan struct{} // closed when it has ended
}

// start starts it in a folder, and returns when it is ready.
func (s *service) start(ctx context.Context, binaries, dir string) error {
	logFile := filepath.Join(dir, s.name+".log")
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("starting %s: %w", s.name, err)
	}
	defer func() { _ = log.Close() }()
	if s.program == "" {
		s.program = filepath.Join(binaries, s.name)
	}
	s.cmd = exec.Command(s.program, s.args...)
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = dir, log, log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for us; we end it in order
	s.done = make(chan struct{})
	if err := s.cmd.Start(); err != nil {
		close(s.done)
		return fmt.Errorf("starting %s: %w; \"make monitoring\" builds it", s.name, err)
	}
	go func() {
		_ = s.cmd.Wait() // how it ended is in its log
		close(s.done)
	}()
	if s.guard, err = startGuard(s.cmd.Process.Pid); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := s.check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-s.done:
			content, _ := os.ReadFile(logFile)
			return fmt.Errorf("%s ended: %s", s.name, strings.TrimSpace(string(content)))
		case <-ctx.Done():
			return fmt.Errorf("%s does not become ready: %w", s.name, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (s *service) check(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.ready, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return errors.New(answer.Status)
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}

// stop ends it at once: its files are no longer needed.
func (s *service) stop() {
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	<-s.done
	s.guard.stop()
}
