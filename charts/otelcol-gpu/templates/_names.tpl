{{/* Names and labels. The argument is the root context, or a list of the root context and a component. */}}

{{- define "otelcol-gpu.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 44 | trimSuffix "-" }}
{{- end }}

{{/* A StatefulSet's name may have 52 characters, including the 8 characters of -gateway. */}}
{{- define "otelcol-gpu.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if .Values.fullnameOverride }}
{{- $name = .Values.fullnameOverride }}
{{- else if not (contains $name .Release.Name) }}
{{- $name = printf "%s-%s" .Release.Name $name }}
{{- else }}
{{- $name = .Release.Name }}
{{- end }}
{{- trunc 44 $name | trimSuffix "-" }}
{{- end }}

{{/* Label values: a name, an instance, and optionally a component. */}}
{{- define "otelcol-gpu.selectorLabels" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ include "otelcol-gpu.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
{{- if gt (len .) 1 }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}
{{- end }}

{{- define "otelcol-gpu.labels" -}}
{{- $root := index . 0 -}}
{{ include "otelcol-gpu.selectorLabels" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with $root.Values.additionalLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Annotations of an object. The argument is a list of root, the indentation, and optionally the object's own annotations. */}}
{{- define "otelcol-gpu.annotations" -}}
{{- $own := dict }}
{{- if gt (len .) 2 }}{{ $own = index . 2 | default dict }}{{ end }}
{{- with merge (dict) $own (index . 0).Values.additionalAnnotations }}
{{- dict "annotations" . | toYaml | nindent (int (index $ 1)) }}
{{- end }}
{{- end }}

{{- define "otelcol-gpu.metadata" -}}
{{- $root := index . 0 -}}
name: {{ include "otelcol-gpu.fullname" $root }}-{{ index . 1 }}
namespace: {{ $root.Release.Namespace }}
labels:
  {{- include "otelcol-gpu.labels" . | nindent 2 }}
{{- include "otelcol-gpu.annotations" (list $root 0) }}
{{- end }}

{{/* The service account of the agent, the cluster collector, or the admission webhooks. */}}
{{- define "otelcol-gpu.serviceAccount" -}}
{{- $root := index . 0 }}
{{- $account := (index $root.Values (index . 1)).serviceAccount }}
{{- if $account.name }}
{{- $account.name }}
{{- else if $account.create }}
{{- include "otelcol-gpu.fullname" $root }}-{{ index . 1 }}
{{- else }}default{{ end }}
{{- end }}
