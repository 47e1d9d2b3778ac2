{{/* The name of most objects, and the beginning of the names of all others. */}}
{{- define "trellis.name" -}}{{ .Values.fullnameOverride | default "trellis" }}{{- end -}}

{{- define "trellis.labels" -}}
app.kubernetes.io/name: {{ .Values.nameOverride | default "trellis" }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "trellis.selector" -}}
app.kubernetes.io/name: {{ .Values.nameOverride | default "trellis" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* "true" if a class has the target type Source, else empty. */}}
{{- define "trellis.hasSourceClass" -}}
{{- $found := "" -}}
{{- range .Values.config.classes -}}
{{- if eq .target.type "Source" -}}{{- $found = "true" -}}{{- end -}}
{{- end -}}
{{- $found -}}
{{- end -}}

{{/* "true" if the hub serves webhooks, else empty. */}}
{{- define "trellis.webhooks" -}}
{{- if dig "server" "webhooks" "enabled" false .Values.config -}}true{{- end -}}
{{- end -}}

{{/* The Lease of the leader election. */}}
{{- define "trellis.lease" -}}
{{- dig "leaderElection" "resourceName" (include "trellis.name" .) .Values.config -}}
{{- end -}}

{{/* "true" if the hub authenticates who reads its metrics, else empty. */}}
{{- define "trellis.secureMetrics" -}}
{{- if dig "server" "metricsAuthentication" "enabled" false .Values.config -}}true{{- end -}}
{{- end -}}

{{/* The Secret with what the hub serves webhooks with. */}}
{{- define "trellis.webhookSecret" -}}
{{- $lease := include "trellis.lease" . -}}
{{- dig "server" "webhooks" "certificates" "secretName" (printf "%s-webhooks" $lease) .Values.config -}}
{{- end -}}

{{/* For how many seconds a hub that ends serves webhooks as before. */}}
{{- define "trellis.notice" -}}
{{- $notice := dig "server" "webhooks" "shutdownNotice" "10s" .Values.config -}}
{{- if not (regexMatch "^[0-9]+s$" $notice) -}}
{{- fail (printf "config.server.webhooks.shutdownNotice: %q is no number of seconds, such as 10s" $notice) -}}
{{- end -}}
{{- trimSuffix "s" $notice -}}
{{- end -}}

{{/*
The namespaces whose Secrets the classes need, as a list in JSON; empty if it is all of them. The hub does the same sum:
SecretNamespaces in apis/config/v1alpha1.
*/}}
{{- define "trellis.secretNamespaces" -}}
{{- $all := false -}}
{{- $needed := list -}}
{{- range .Values.config.classes -}}
{{- $selector := .namespaceSelector | default dict -}}
{{- $listed := list -}}
{{- with get ($selector.matchLabels | default dict) "kubernetes.io/metadata.name" -}}
{{- $listed = list . -}}
{{- else -}}
{{- range $selector.matchExpressions -}}
{{- if and (not $listed) (eq .key "kubernetes.io/metadata.name") (eq .operator "In") -}}{{- $listed = .values -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- if or (eq .target.type "Namespace") (not $listed) -}}{{- $all = true -}}{{- end -}}
{{- $needed = concat $needed $listed -}}
{{- if eq .target.type "Registration" -}}{{- $needed = append $needed .target.namespace -}}{{- end -}}
{{- end -}}
{{- if not $all -}}{{- $needed | sortAlpha | uniq | toJson -}}{{- end -}}
{{- end -}}

{{/* Whether a class says something about a controller, be it that it is off: then TargetClusters may switch it on. */}}
{{- define "trellis.mentions" -}}
{{- $controller := index . 1 -}}
{{- range (index . 0).Values.config.classes -}}
{{- if hasKey (.controllers | default dict) $controller -}}true{{- end -}}
{{- end -}}
{{- end -}}

{{/* What the hub may do in the namespaces whose Secrets it reads. */}}
{{- define "trellis.secretRules" -}}
{{ .Files.Get "rbac/hub-secrets.yaml" }}
{{- if include "trellis.mentions" (list . "tokenRequestor") }}
{{ .Files.Get "rbac/hub-tokens.yaml" }}
{{- end }}
{{- if include "trellis.mentions" (list . "csrApprover") }}
{{ .Files.Get "rbac/hub-machines.yaml" }}
{{- end }}
{{- end -}}

{{/* The configuration file. What the chart knows better than the user is added. */}}
{{- define "trellis.config" -}}
{{- $known := dict "apiVersion" "config.hub.gardener.cloud/v1alpha1" "kind" "HubConfiguration" -}}
{{- $name := include "trellis.name" . -}}
{{- $election := dict "resourceNamespace" .Release.Namespace -}}
{{- if ne $name "trellis" -}}
{{- $election = set $election "resourceName" $name -}}
{{- if and (include "trellis.webhooks" .) (not (dig "server" "webhooks" "clientConfig" dict .Values.config)) -}}
{{- $url := printf "https://%s-webhooks.%s.svc" $name .Release.Namespace -}}
{{- $known = set $known "server" (dict "webhooks" (dict "clientConfig" (dict "url" $url))) -}}
{{- end -}}
{{- end -}}
{{- $known = set $known "leaderElection" $election -}}
{{- if include "trellis.hasSourceClass" . -}}
{{- $account := dict "namespace" .Release.Namespace "name" "trellis-source" -}}
{{- $known = set $known "sourceIdentity" (dict "serviceAccount" $account) -}}
{{- end -}}
{{- toYaml (mergeOverwrite $known (deepCopy .Values.config)) -}}
{{- end -}}

{{/*
Requests and limits. Memory that is auto follows from the number of targets, by the formula of docs/explanation/sizing.md, in MiB:
each target has 300 objects.
*/}}
{{- define "trellis.resources" -}}
{{- $resources := deepCopy .Values.resources -}}
{{- $request := addf 64 (mulf .Values.targets 1.6) (divf (mulf .Values.targets 600) 1024) -}}
{{- $limit := max 1024 (ceil (addf (mulf $request 1.25) 300) | int) -}}
{{- if eq (toString (dig "requests" "memory" "" $resources)) "auto" -}}
{{- $_ := set $resources.requests "memory" (printf "%dMi" (ceil $request | int)) -}}
{{- end -}}
{{- if eq (toString (dig "limits" "memory" "" $resources)) "auto" -}}
{{- $_ := set $resources.limits "memory" (printf "%dMi" $limit) -}}
{{- end -}}
{{- toYaml $resources -}}
{{- end -}}

{{/*
Nine tenths of the memory limit, in bytes; empty if there is none. The Go runtime collects its garbage to stay below that, and what
it does not count has the rest.
*/}}
{{- define "trellis.memoryLimit" -}}
{{- $limit := dig "limits" "memory" "" (include "trellis.resources" . | fromYaml) -}}
{{- if and $limit (not (kindIs "string" $limit)) -}}{{- $limit = toString (int64 $limit) -}}{{- end -}}
{{- if $limit -}}
{{- $bytes := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 -}}
{{- $bytes = merge $bytes (dict "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776) -}}
{{- $number := regexFind "^[0-9]+([.][0-9]+)?" $limit -}}
{{- $suffix := trimPrefix $number $limit -}}
{{- if or (not $number) (not (hasKey $bytes $suffix)) -}}
{{- fail (printf "resources.limits.memory: %q is no number of bytes such as 1Gi or 1500M" $limit) -}}
{{- end -}}
{{- int64 (mulf (float64 $number) (float64 (get $bytes $suffix)) 0.9) -}}
{{- end -}}
{{- end -}}

{{/* The environment of the hub. What the user sets wins. */}}
{{- define "trellis.env" -}}
{{- $limit := include "trellis.memoryLimit" . -}}
{{- $growth := "80" -}}
{{- $authorities := or .Values.customCA.configMap .Values.customCA.secret -}}
{{- range .Values.env -}}
{{- if eq .name "GOMEMLIMIT" -}}{{- $limit = "" -}}{{- end -}}
{{- if eq .name "GOGC" -}}{{- $growth = "" -}}{{- end -}}
{{- if eq .name "SSL_CERT_DIR" -}}{{- $authorities = "" -}}{{- end -}}
{{- end -}}
{{- $env := .Values.env | default list -}}
{{- if $limit -}}{{- $env = prepend $env (dict "name" "GOMEMLIMIT" "value" $limit) -}}{{- end -}}
{{- if $growth -}}{{- $env = prepend $env (dict "name" "GOGC" "value" $growth) -}}{{- end -}}
{{- if $authorities -}}{{- $env = prepend $env (dict "name" "SSL_CERT_DIR" "value" "/etc/trellis-ca") -}}{{- end -}}
{{- toYaml $env -}}
{{- end -}}

{{/* What the values say together, that no schema can judge. */}}
{{- define "trellis.check" -}}
{{- $election := .Values.config.leaderElection | default dict -}}
{{- if and (eq (toString $election.leaderElect) "false") (gt (int .Values.replicas) 1) -}}
{{- fail (printf "config.leaderElection.leaderElect: without it, %d replicas would write at the same time; it needs replicas: 1" (int .Values.replicas)) -}}
{{- end -}}
{{- if and .Values.customCA.configMap .Values.customCA.secret -}}
{{- fail "customCA: name a ConfigMap or a Secret, not both" -}}
{{- end -}}
{{- if and .Values.monitoring.operator.enabled (include "trellis.secureMetrics" .) (eq .Values.monitoring.operator.monitor "PodMonitor") -}}
{{- fail "monitoring.operator.monitor: a PodMonitor cannot authenticate by the token of Prometheus; use a ServiceMonitor" -}}
{{- end -}}
{{- $class := .Values.priorityClassName -}}
{{- /* Without a cluster, as in "helm template", nothing can be looked up. */ -}}
{{- if and $class (lookup "v1" "Namespace" "" "kube-system") (not (lookup "scheduling.k8s.io/v1" "PriorityClass" "" $class)) -}}
{{- fail (printf "priorityClassName: this cluster has no PriorityClass %q, so it would refuse the pods; name another one, or set it to \"\"" $class) -}}
{{- end -}}
{{- end -}}

{{/* What opens the network policies of Gardener for scrapes. */}}
{{- define "trellis.scrapeAnnotations" -}}
networking.resources.gardener.cloud/from-all-seed-scrape-targets-allowed-ports: '[{"port":{{ dig "metrics" "port" 8080 (.Values.config.server | default dict) }},"protocol":"TCP"}]'
{{- if ne .Release.Namespace "garden" }}
networking.resources.gardener.cloud/namespace-selectors: '[{"matchLabels":{"kubernetes.io/metadata.name":"garden"}}]'
networking.resources.gardener.cloud/pod-label-selector-namespace-alias: extensions
{{- end }}
{{- end -}}

{{/* The rules file, with the job, the label of clusters, and the labels and annotations of alerts that the values say. */}}
{{- define "trellis.rules" -}}
{{- $m := .Values.monitoring -}}
{{- $text := .Files.Get "monitoring/rules.yaml" -}}
{{- $text = $text | replace "job=\"trellis\"" (printf "job=%q" $m.job) | replace "(cluster, job" (printf "(%s, job" $m.clusterLabel) | replace "$labels.cluster" (printf "$labels.%s" $m.clusterLabel) -}}
{{- $groups := list -}}
{{- range $group := (fromYaml $text).groups -}}
{{- $rules := list -}}
{{- range $rule := $group.rules -}}
{{- if not $rule.alert -}}
{{- $rules = append $rules $rule -}}
{{- else if not (has $rule.alert $m.alerts.disabled) -}}
{{- $severity := get $m.alerts.severityOf $rule.alert | default (get $m.alerts.severities $rule.labels.severity) -}}
{{- $_ := set $rule "labels" (merge (dict "severity" $severity) $rule.labels $m.alerts.labels) -}}
{{- $_ = set $rule.annotations "runbook_url" (print $m.alerts.runbookURL (lower $rule.alert)) -}}
{{- $_ = set $rule.annotations "dashboard_url" (print $m.alerts.grafanaURL $rule.annotations.dashboard_url) -}}
{{- $rules = append $rules $rule -}}
{{- end -}}
{{- end -}}
{{- $groups = append $groups (dict "name" $group.name "rules" $rules) -}}
{{- end -}}
{{- toYaml (dict "groups" $groups) -}}
{{- end -}}
