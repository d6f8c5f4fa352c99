{{/* Checks a collector's configuration, into which the user's configuration has been merged. The argument is a
list of root, the collector's name and the configuration. `gpudoctor lint` applies the same rules, but it also
checks the scrape configurations of other receivers. */}}
{{- define "otelcol-gpu.checkPipelines" -}}
{{- $root := index . 0 }}
{{- $name := index . 1 }}
{{- $config := index . 2 }}
{{- range $id := $config.service.extensions | default list }}
{{- if not (hasKey ($config.extensions | default dict) $id) }}
{{- fail (printf "%s.config: service.extensions has %q, which is not configured: must be one of %s" $name $id (keys ($config.extensions | default dict) | sortAlpha | join ", ")) }}
{{- end }}
{{- end }}
{{- $used := dict }}
{{- range $pipeline, $parts := $config.service.pipelines }}
{{- range $kind := list "receivers" "processors" "exporters" }}
{{- $known := index $config $kind | default dict }}
{{- if ne $kind "processors" }}
{{- $known = merge (dict) $known ($config.connectors | default dict) }}
{{- end }}
{{- range $id := (index ($parts | default dict) $kind) | default list }}
{{- if not (hasKey $known $id) }}
{{- $hint := "" }}
{{- if and (eq $name "agent") (eq $kind "processors") }}
{{- $hint = ". The agent's receiver runs gpu_synthesizer, gpu_k8s and gpu_window: list only processors that run after it" }}
{{- end }}
{{- fail (printf "%s.config: pipeline %s has %q in its %s, which is not configured: must be one of %s%s" $name $pipeline $id $kind (keys $known | sortAlpha | join ", " | default "(none)") $hint) }}
{{- end }}
{{- if eq $kind "processors" }}
{{- if and (hasKey $used $id) (dig "storage" "" (index $known $id | default dict)) }}
{{- fail (printf "%s.config: processor %s keeps state and is in the pipelines %s and %s: only one of them could start; take it out of one" $name $id (get $used $id) $pipeline) }}
{{- end }}
{{- $_ := set $used $id $pipeline }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- range $id, $_ := $config.processors }}
{{- if not (hasKey $used $id) }}
{{- fail (printf "%s.config: processor %s is in no pipeline and would do nothing: add it to the list of processors, which replaces the chart's, or set %s.config.processors.%s to null" $name $id $name $id) }}
{{- end }}
{{- end }}
{{- $check := dict "name" $name "config" $config "rules" ($root.Files.Get "files/pipeline-rules.json" | fromJson) "ends" dict }}
{{- if eq $name "gateway" }}
{{- /* A gateway receives samples at the agents' scrape intervals. */}}
{{- $receiver := ternary "dcgm" "nvml" $root.Values.dcgm.enabled }}
{{- $_ := set $check "sender" (list $receiver (get $root.Values $receiver)) }}
{{- end }}
{{- range $pipeline, $parts := $config.service.pipelines }}
{{- range $id := ($parts | default dict).receivers | default list }}
{{- if and (eq (include "otelcol-gpu.componentType" (list $check $pipeline)) "metrics") (not (hasKey ($config.connectors | default dict) $id)) }}
{{- $path := include "otelcol-gpu.pathParts" (list $check "receivers" $id $pipeline) | fromJsonArray }}
{{- include "otelcol-gpu.checkPathsBelow" (dict "check" $check "path" $path "pipeline" $pipeline "through" list) }}
{{- end }}
{{- end }}
{{- end }}
{{- range $check.ends }}
{{- if and .lacks (not .met) }}
{{- fail .text }}
{{- end }}
{{- end }}
{{- end }}

{{/* The type in the id of a component or pipeline. The argument is a list of the check and the id. */}}
{{- define "otelcol-gpu.componentType" -}}
{{- $type := splitList "/" (index . 1) | first }}
{{- get (index . 0).rules.renamed $type | default $type }}
{{- end }}

{{/* A component and the components that run inside it, as a JSON list. Each item is a list of type, settings,
id and pipeline. The argument is a list of the check, the kind (receivers, processors, exporters or connectors),
the component's id and its pipeline. */}}
{{- define "otelcol-gpu.pathParts" -}}
{{- $rules := (index . 0).rules }}
{{- $of := index . 1 }}
{{- $id := index . 2 }}
{{- $type := include "otelcol-gpu.componentType" (list (index . 0) $id) }}
{{- $settings := get (get (index . 0).config $of | default dict) $id | default dict }}
{{- $inside := list (list $type $settings) }}
{{- if and (kindIs "map" $settings.stages) (or (eq $of "receivers") (eq $type "gpu_synthesizer")) }}
{{- range $i, $stage := $rules.stages }}
{{- if ternary (eq $of "receivers") (hasKey $settings.stages $stage) (eq $i 0) }}
{{- $inside = append $inside (list $stage (get $settings.stages $stage | default dict)) }}
{{- end }}
{{- end }}
{{- end }}
{{- $parts := list }}
{{- range $part := $inside }}
{{- $parts = append $parts (concat $part (list $id (index $ 3))) }}
{{- range $section := $rules.sections }}
{{- $key := splitList "::" $section | last }}
{{- if and (hasPrefix (printf "%s::" (first $part)) $section) (hasKey (last $part) $key) }}
{{- $parts = append $parts (list $section (get (last $part) $key | default dict) $id (index $ 3)) }}
{{- end }}
{{- end }}
{{- end }}
{{- toJson $parts }}
{{- end }}

{{/* Checks all paths that continue in a pipeline. The argument is a dict of the check, the path up to the
pipeline, the pipeline, and the list of previous pipelines. */}}
{{- define "otelcol-gpu.checkPathsBelow" -}}
{{- $check := .check }}
{{- $config := .check.config }}
{{- $path := .path }}
{{- $pipeline := .pipeline }}
{{- if not (has $pipeline .through) }}
{{- $through := append .through $pipeline }}
{{- $parts := get $config.service.pipelines $pipeline | default dict }}
{{- range $id := $parts.processors | default list }}
{{- $path = concat $path (include "otelcol-gpu.pathParts" (list $check "processors" $id $pipeline) | fromJsonArray) }}
{{- end }}
{{- range $id := $parts.exporters | default list }}
{{- $connects := hasKey ($config.connectors | default dict) $id }}
{{- $on := concat $path (include "otelcol-gpu.pathParts" (list $check (ternary "connectors" "exporters" $connects) $id $pipeline) | fromJsonArray) }}
{{- if and $connects (ne (last $on | first) "gpu_events") }}
{{- range $next, $below := $config.service.pipelines }}
{{- if has $id (($below | default dict).receivers | default list) }}
{{- include "otelcol-gpu.checkPathsBelow" (dict "check" $check "path" $on "pipeline" $next "through" $through) }}
{{- end }}
{{- end }}
{{- else }}
{{- include "otelcol-gpu.checkPath" (list $check $on) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Checks a path from a receiver to an exporter. The argument is a list of the check and the path. */}}
{{- define "otelcol-gpu.checkPath" -}}
{{- $check := index . 0 }}
{{- $path := index . 1 }}
{{- $at := dict }}
{{- range $i, $part := $path }}
{{- if not (hasKey $at (first $part)) }}{{ $_ := set $at (first $part) $i }}{{ end }}
{{- end }}
{{- $end := last $path }}
{{- $receiver := get $check.rules.receivers (first $path | first) | default dict }}
{{- range $rule := $check.rules.orders }}
{{- if hasKey $at $rule.second }}
{{- $second := get $at $rule.second | int }}
{{- $where := printf "%s.config: pipeline %s" $check.name (index $path $second | last) }}
{{- $content := $receiver.provides | default "" }}
{{- if and (hasKey $at "gpu_synthesizer") (lt (get $at "gpu_synthesizer" | default 0 | int) $second) }}
{{- $content = "samples" }}
{{- end }}
{{- $present := hasKey $at $rule.first }}
{{- if and $present (gt (get $at $rule.first | default 0 | int) $second) }}
{{- fail (printf "%s: %s" $where $rule.reversed) }}
{{- end }}
{{- if and $rule.needed (eq $rule.needed "samples") (eq $rule.second (first $end)) }}
{{- /* The exporter needs the component on only one of its paths, because the other paths may carry other metrics. */}}
{{- $key := printf "%s %s" (index $end 2) $rule.first }}
{{- $of := get $check.ends $key | default (dict "met" false "lacks" false "text" (printf "%s: %s" $where $rule.missing)) }}
{{- if or $present (not $content) }}{{ $_ := set $of "met" true }}{{ end }}
{{- if eq $content "samples" }}{{ $_ := set $of "lacks" true }}{{ end }}
{{- $_ := set $check.ends $key $of }}
{{- else if and $rule.needed (not $present) (eq $content $rule.needed) }}
{{- fail (printf "%s: %s" $where $rule.missing) }}
{{- end }}
{{- end }}
{{- end }}
{{- $source := first $path }}
{{- if and (not $receiver) $check.sender }}
{{- $source = $check.sender }}
{{- $receiver = get $check.rules.receivers (first $source) }}
{{- end }}
{{- $interval := (index $source 1).collection_interval | default $receiver.interval }}
{{- $every := include "otelcol-gpu.seconds" $interval }}
{{- range $rule := $check.rules.intervals }}
{{- if and $every (hasKey $at $rule.component) }}
{{- $value := get (index $path (get $at $rule.component | int) 1) $rule.setting | default $rule.default }}
{{- $length := include "otelcol-gpu.seconds" $value }}
{{- if and $length (or (gt (float64 $every) (float64 $length)) (and (eq (float64 $every) (float64 $length)) (not $rule.equal))) }}
{{- fail (printf "%s.%s is %q and %s.collection_interval is %q: %s" ($rule.component | replace "::" ".") $rule.setting $value (first $source) $interval $rule.otherwise) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
