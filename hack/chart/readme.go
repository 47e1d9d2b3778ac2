package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// head is what README.md says before the values.
const head = `# Helm chart

<!-- Generated from values.yaml by "make generate". Do not edit. -->

Install the chart in the cluster with the ManagedResources:

    helm install trellis charts/trellis --namespace trellis --create-namespace

No value is required. In a Gardener seed, add ` + "`-f charts/trellis/values-gardener.yaml`" + `,
which has the priority class, labels, annotations and names of Gardener, and the controllers
with the settings of gardenlet. All values are validated before anything is installed;
unknown keys of the chart or the hub are refused.

Upgrade with the values that were set before, and the new defaults of all others ([upgrade
and roll back](../../docs/how-to/upgrade.md)):

    helm upgrade trellis charts/trellis --namespace trellis --reset-then-reuse-values

**CRDs.** The CRD of ManagedResources is installed only if it does not exist; one of
Gardener is not changed. The CRD of TargetClusters is installed and upgraded with the chart.
Both stay after ` + "`helm uninstall`" + ` unless ` + "`crds.keep`" + ` is false. Neither an upgrade nor an
uninstallation changes objects in targets; after another installation the hub continues
where it was. Another release name or namespace needs ` + "`--take-ownership`" + ` for the CRDs.

**Rights.** The hub gets only the rights that the configured classes need
([rights](../../docs/reference/rights.md)). If no class has the target type ` + "`Namespace`" + `, and
each lists its namespaces by the label ` + "`kubernetes.io/metadata.name`" + `, it reads Secrets only
there. These namespaces have to exist. Delete the ManagedResources of a namespace before you
remove it from the list.

**Without Helm.** The output of ` + "`helm template`" + ` can be applied to an existing namespace. It
includes the CRDs, that of ManagedResources only without ` + "`gardener.enabled`" + `, since Gardener
installs its own.

**Log level.** ` + "`config.logLevel`" + ` takes effect without new pods: a running hub reads its
configuration again when the kubelet has updated it, about a minute after the upgrade. Any
other change of ` + "`config`" + ` replaces the pods.

**Opt-in.** If Cluster API or others have kubeconfig Secrets that the hub should not use,
set ` + "`config.clusterCache.registrationSelector`" + `, and label the Secrets that should register
their cluster.

**Metrics.** ` + "`config.server.metricsAuthentication.enabled`" + ` serves metrics over HTTPS, only
to accounts with the ClusterRole ` + "`trellis-metrics-reader`" + `. Bind it to the service account of
your Prometheus.
`

// row is a line of the table.
type row struct{ key, value, comment string }

// Readme makes the page of values.yaml.
func Readme(values []byte) ([]byte, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(values, &document); err != nil {
		return nil, err
	}
	rows, err := rowsOf(document.Content[0], "", "")
	if err != nil {
		return nil, err
	}
	page := bytes.NewBufferString(head + "\n## Values\n\n| key | default | |\n|---|---|---|\n")
	for _, r := range rows {
		if r.value != "" {
			r.value = "`" + r.value + "`"
		}
		fmt.Fprintf(page, "| `%s` | %s | %s |\n", r.key, r.value, strings.ReplaceAll(r.comment, "|", `\|`))
	}
	return page.Bytes(), nil
}

// rowsOf returns the rows of a mapping, whose own comment is above.
func rowsOf(mapping *yaml.Node, prefix, above string) ([]row, error) {
	var rows []row
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		path, comment := prefix+key.Value, text(key.HeadComment)
		if value.Kind == yaml.MappingNode && value.Style&yaml.FlowStyle == 0 {
			below, err := rowsOf(value, path+".", comment)
			if err != nil {
				return nil, err
			}
			switch {
			case len(below) == 1 && below[0].comment == "":
				below[0].comment = comment
			case comment != "":
				rows = append(rows, row{key: path, comment: comment})
			}
			rows = append(rows, below...)
			continue
		}
		if comment == "" && (above == "" || len(mapping.Content) > 2) {
			return nil, fmt.Errorf("%s (line %d) has no comment", path, key.Line)
		}
		shown, err := show(value)
		if err != nil {
			return nil, fmt.Errorf("%s (line %d): %w", path, key.Line, err)
		}
		rows = append(rows, row{path, shown, comment})
	}
	return rows, nil
}

// show is a value on one line.
func show(value *yaml.Node) (string, error) {
	var plain any
	if err := value.Decode(&plain); err != nil {
		return "", err
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(plain); err != nil {
		return "", err
	}
	if strings.Contains(out.String(), "`") {
		return "", errors.New("the default contains a backtick")
	}
	return strings.TrimSpace(out.String()), nil
}

// text is a comment as one line.
func text(comment string) string {
	var words []string
	for line := range strings.Lines(comment) {
		words = append(words, strings.Fields(strings.TrimPrefix(line, "#"))...)
	}
	return strings.Join(words, " ")
}
