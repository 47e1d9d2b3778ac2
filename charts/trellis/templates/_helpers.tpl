{{- define "trellis.labels" -}}
app.kubernetes.io/name: trellis
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "trellis.selector" -}}
app.kubernetes.io/name: trellis
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* "true" if a class has the target type Source, else empty. */}}
{{- define "trellis.hasSourceClass" -}}
{{- range .Values.config.classes -}}
{{- if eq .target.type "Source" -}}true{{- end -}}
{{- end -}}
{{- end -}}

{{/* The configuration file. What the chart knows better than the user is added, and his word wins. */}}
{{- define "trellis.config" -}}
{{- $known := dict "apiVersion" "config.hub.gardener.cloud/v1alpha1" "kind" "HubConfiguration" -}}
{{- $known = set $known "leaderElection" (dict "resourceNamespace" .Release.Namespace) -}}
{{- if include "trellis.hasSourceClass" . -}}
{{- $account := dict "namespace" .Release.Namespace "name" "trellis-source" -}}
{{- $known = set $known "sourceIdentity" (dict "serviceAccount" $account) -}}
{{- end -}}
{{- toYaml (mergeOverwrite $known (deepCopy .Values.config)) -}}
{{- end -}}
