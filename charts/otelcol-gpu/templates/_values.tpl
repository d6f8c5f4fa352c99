{{/* Unknown values are rejected with one line that suggests the value to set instead. The schema defines which
values exist. Helm itself only checks types, because its message for an unknown value suggests no other one. */}}

{{/* Former names of values. The longest matching name is used. */}}
{{- define "otelcol-gpu.renamedValues" -}}
attribution.claims: gpu_k8s.claims
attribution.dra: gpu_k8s.sources.dra.enabled
attribution.enabled: gpu_k8s.enabled
attribution.podResources: gpu_k8s.sources.pod_resources.enabled
attribution.settings: gpu_k8s, without settings
backend.promoteResourceAttributes: gpu_window.flat_attributes, true or false
backend.settings: backend, without settings
budget.enabled: "gpu_k8s.budget: {} switches it on, null off"
budget.settings: gpu_k8s.budget
cluster.settings: gpu_cluster
dcgm.settings: dcgm, without settings
events.enabled: gpu_events.enabled
events.endpoint: backend.logsEndpoint
events.kubernetes: "gpu_events.kubernetes_events: {auth_type: serviceAccount} switches it on"
events.settings: gpu_events
findings.enabled: gpu_findings.enabled
findings.settings: gpu_findings
gpu_events.findings: gpu_findings, which a receiver runs beside gpu_events
gpuShareAdmission: admission
gpuShareAdmission.settings: gpu_share_admission
memoryResource.enabled: gpu_memory_resource.enabled
memoryResource.settings: gpu_memory_resource
nvml.settings: nvml, without settings
power.enabled: "gpu_k8s.power: {} switches it on, null off"
power.settings: gpu_k8s.power
prometheus.settings: prometheus, without settings
usage.enabled: "gpu_k8s.usage: {} switches it on, null off"
usage.prices: agent.prices
usage.settings: gpu_k8s.usage
view.settings: gpu_view
watchdog.dryRun: gpu_watchdog.dry_run
watchdog.enabled: gpu_watchdog.enabled
watchdog.namespaces: gpu_watchdog.namespaces
watchdog.settings: gpu_watchdog
window.settings: gpu_window
{{- end }}

{{- define "otelcol-gpu.checkNames" -}}
{{- $schema := .Files.Get "files/values.schema.json" | fromJson }}
{{- include "otelcol-gpu.checkNamesBelow" (list $schema.definitions $schema .Values "") }}
{{- end }}

{{/* The argument is a list of the schema's definitions, the schema of a value, the value, and its name. Maps whose
schema has no properties may have any key. */}}
{{- define "otelcol-gpu.checkNamesBelow" -}}
{{- $definitions := index . 0 }}
{{- $schema := index . 1 }}
{{- $value := index . 2 }}
{{- $name := index . 3 }}
{{- with get $schema "$ref" }}
{{- $schema = get $definitions (trimPrefix "#/definitions/" .) }}
{{- end }}
{{- $parts := concat (list $schema) ($schema.allOf | default list) }}
{{- if and (kindIs "map" $value) (hasKey ($schema.then | default dict) "$ref") }}
{{- $parts = append $parts (ternary $schema.then $schema.else (eq (toString $value.protocol) "grpc")) }}
{{- end }}
{{- $properties := dict }}
{{- range $part := $parts }}
{{- with get $part "$ref" }}
{{- $part = get $definitions (trimPrefix "#/definitions/" .) }}
{{- end }}
{{- range $key, $below := $part.properties | default dict }}
{{- if not (hasKey $properties $key) }}{{ $_ := set $properties $key $below }}{{ end }}
{{- end }}
{{- end }}
{{- if and (kindIs "map" $value) $properties }}
{{- range $key, $below := $value }}
{{- $of := ternary $key (printf "%s.%s" $name $key) (empty $name) }}
{{- if not (hasKey $properties $key) }}
{{- include "otelcol-gpu.refuseName" (list $name $key $of $below (keys $properties | sortAlpha)) }}
{{- end }}
{{- include "otelcol-gpu.checkNamesBelow" (list $definitions (get $properties $key) $below $of) }}
{{- end }}
{{- else if and (kindIs "slice" $value) $schema.items }}
{{- range $i, $item := $value }}
{{- include "otelcol-gpu.checkNamesBelow" (list $definitions $schema.items $item (printf "%s[%d]" $name $i)) }}
{{- end }}
{{- end }}
{{- end }}

{{/* Fails with a message. The argument is a list of the name of a map, the unknown key, its name, its value, and the known keys. */}}
{{- define "otelcol-gpu.refuseName" -}}
{{- $map := index . 0 }}
{{- $of := index . 2 }}
{{- $known := index . 4 }}
{{- $renamed := include "otelcol-gpu.renamedValues" . | fromYaml }}
{{- if kindIs "map" (index . 3) }}
{{- range $key, $_ := index . 3 }}
{{- $below := printf "%s.%s" $of $key }}
{{- with get $renamed $below }}
{{- fail (printf "%s is no longer a value of this chart: use %s" $below .) }}
{{- end }}
{{- end }}
{{- end }}
{{- with get $renamed $of }}
{{- fail (printf "%s is no longer a value of this chart: use %s" $of .) }}
{{- end }}
{{- with include "otelcol-gpu.nearestName" (list (index . 1) $known) }}
{{- fail (printf "%s is not a value of this chart: did you mean %s?" $of (ternary . (printf "%s.%s" $map .) (empty $map))) }}
{{- end }}
{{- fail (printf "%s is not a value of this chart: %s has %s" $of ($map | default "it") (join ", " $known)) }}
{{- end }}

{{/* The known name that is most similar to a misspelled one, or empty if there is none. Case, -, and _ are ignored. In
addition, one letter may be missing, added, changed, or swapped with the next one. Two such names become equal when
at most one letter is removed from each. The argument is a list of the name and the known names. */}}
{{- define "otelcol-gpu.nearestName" -}}
{{- $misspelt := index . 0 | lower | replace "_" "" | replace "-" "" }}
{{- $shorter := dict $misspelt true }}
{{- range $i := until (len $misspelt) }}
{{- $_ := set $shorter (printf "%s%s" (substr 0 $i $misspelt) (substr (int (add1 $i)) (len $misspelt) $misspelt)) true }}
{{- end }}
{{- $nearest := "" }}
{{- range $name := index . 1 }}
{{- $plain := $name | lower | replace "_" "" | replace "-" "" }}
{{- $close := hasKey $shorter $plain }}
{{- range $i := until (len $plain) }}
{{- $close = or $close (hasKey $shorter (printf "%s%s" (substr 0 $i $plain) (substr (int (add1 $i)) (len $plain) $plain))) }}
{{- end }}
{{- if and $close (or (not $nearest) (eq $plain $misspelt)) }}{{ $nearest = $name }}{{ end }}
{{- end }}
{{- $nearest }}
{{- end }}
