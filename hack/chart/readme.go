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
const head = `# The chart of Trellis

<!-- Generated from values.yaml by "make generate". Do not edit. -->

Into the cluster with the ManagedResources:

    helm install trellis charts/trellis --namespace trellis --create-namespace

Nothing has to be set. In a seed of Gardener, add ` + "`-f charts/trellis/values-gardener.yaml`" + `: the priority class, labels, annotations and
names of Gardener are there, and controllers as gardenlet has them.
Everything that is set is checked before anything is installed; a key that the chart or the hub does not know is refused.

To a later chart, with the values that were set before, and the new defaults of all others:

    helm upgrade trellis charts/trellis --namespace trellis --reset-then-reuse-values

**CRDs.** That of ManagedResources is installed where there is none, and left alone where somebody else brought it, as Gardener does.
That of TargetClusters comes and is upgraded with the chart. Both stay on ` + "`helm uninstall`" + ` unless ` + "`crds.keep`" + ` is false. No
object in any target is touched by an upgrade or by an uninstallation; installed again, the hub goes on where it was. Under another
name, or into another namespace, it has to be installed with ` + "`--take-ownership`" + `, because of what was kept.

**Rights.** The hub gets no more than the configured classes need, see [rights](../../docs/reference/rights.md). If no class has the
target type ` + "`Namespace`" + `, and each lists its namespaces by the label ` + "`kubernetes.io/metadata.name`" + `, it reads Secrets there only. These
namespaces have to exist; and before one is taken from the list, its ManagedResources are deleted.

**Elsewhere than by Helm.** What ` + "`helm template`" + ` shows can be applied as it is, into a namespace that exists: CRDs are among it,
that of ManagedResources unless ` + "`gardener.enabled`" + ` is set, since Gardener brings its own.

**Log level.** ` + "`config.logLevel`" + ` takes effect without new pods: a running hub reads its configuration again when the kubelet has
brought it, about a minute after the upgrade. Any other change of ` + "`config`" + ` replaces the pods.

**Opt-in.** Where Cluster API or others have kubeconfig Secrets of their own, set ` + "`config.clusterCache.registrationSelector`" + `, and label
the Secrets that are to register their cluster.

**Metrics.** ` + "`config.server.metricsAuthentication.enabled`" + ` serves them over HTTPS, to those who have the ClusterRole
` + "`trellis-metrics-reader`" + ` only. Bind it to the service account of your Prometheus.
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
