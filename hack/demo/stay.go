package main

import (
	"context"
	"errors"
	"fmt"
)

// lookAround is for people. Its arguments are the directory of the access files, the addresses of alpha and the source,
// and the addresses and the log of the hub.
const lookAround = `
The clusters stay until Ctrl-C. In another terminal, with any kubectl, or with %[1]s/kubectl:

  kubectl --kubeconfig %[1]s/source.kubeconfig get managedresources,targetclusters -A
  kubectl --kubeconfig %[1]s/alpha.kubeconfig -n shop edit configmap settings
  kubectl --kubeconfig %[1]s/alpha.kubeconfig -n shop delete deployment web

Or with trellisctl, which also knows of the targets:

  %[1]s/trellisctl --kubeconfig %[1]s/source.kubeconfig status
  %[1]s/trellisctl --kubeconfig %[1]s/source.kubeconfig problems -A
  %[1]s/trellisctl --kubeconfig %[1]s/source.kubeconfig -n shoot--demo--alpha tree mr web --allow-network 127.0.0.0/8
  %[1]s/trellisctl --kubeconfig %[1]s/source.kubeconfig -n shoot--demo--alpha why mr web

A fourth target, delta, is not registered: docs/tutorial/own-cluster.md does so, step by step. Its access
is %[1]s/delta.kubeconfig.

Or with curl:

  curl -s --cacert %[1]s/source.ca.pem --cert %[1]s/source.pem \
    %[3]s/apis/resources.gardener.cloud/v1alpha1/managedresources
  curl -s --cacert %[1]s/alpha.ca.pem --cert %[1]s/alpha.pem -X DELETE \
    %[2]s/api/v1/namespaces/shop/configmaps/settings
  curl -s %[4]s | grep ^trellis_
  curl -s %[5]s

The log of the hub is in %[6]s. What it reports of its work appears here:
`

// askPrometheus is for people, too. Its arguments are the addresses of Prometheus and the Alertmanager.
const askPrometheus = `
Prometheus is at %[1]s, the Alertmanager at %[2]s. Try

  curl -s '%[1]s/api/v1/query?query=target:trellis_target_up:max'
  curl -s %[1]s/api/v1/alerts
  curl -s %[2]s/api/v2/alerts
`

// stay prints how to look around, and the events of the hub, until ctx ends.
func (w *world) stay(ctx context.Context) error {
	if err := w.startDelta(ctx); err != nil {
		return err
	}
	w.title(fmt.Sprintf(lookAround, w.shown(w.dir), w.alpha.Host(), w.source.Host(), w.hub.MetricsURL(), w.hub.ReadyURL(), w.shown(w.hub.LogFile)))
	if w.monitoring != nil {
		w.title(fmt.Sprintf(askPrometheus, w.monitoring.URL, w.monitoring.AlertmanagerURL))
		if w.monitoring.GrafanaURL == "" {
			w.printf("No Grafana is installed. Prometheus is a data source for any other; the dashboards are in " +
				"charts/trellis/monitoring/dashboards.")
		} else {
			w.printf("Grafana with the dashboards is at %s.", w.monitoring.GrafanaURL)
		}
	}
	events, err := reports(ctx, w.source.Client)
	if err != nil {
		return err
	}
	for {
		select {
		case event, open := <-events:
			if !open {
				return nil
			}
			w.printf("%s: %s", event.Regarding.Name, event.Note)
		case <-w.hub.Done():
			return errors.New("the hub has ended")
		case <-ctx.Done():
			return nil
		}
	}
}
