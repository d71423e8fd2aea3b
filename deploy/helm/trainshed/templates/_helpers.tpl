{{- define "trainshed.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- /* 52 characters: StatefulSets add a hash of 11 to the names of pods' labels */ -}}
{{- define "trainshed.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- $full | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "trainshed.selector" -}}
app.kubernetes.io/name: {{ include "trainshed.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "trainshed.labels" -}}
{{ include "trainshed.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "trainshed.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "trainshed.fullname" .) "default" .Values.serviceAccount.create) -}}
{{- end -}}

{{- define "trainshed.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "trainshed.dataClaim" -}}
{{- .Values.data.existingClaim | default (printf "%s-data" (include "trainshed.fullname" .)) -}}
{{- end -}}

{{- define "trainshed.sharedClaim" -}}
{{- .Values.shared.existingClaim | default (printf "%s-shared" (include "trainshed.fullname" .)) -}}
{{- end -}}

{{- define "trainshed.tokenSecret" -}}
{{- .Values.adminToken.existingSecret | default (printf "%s-admin-token" (include "trainshed.fullname" .)) -}}
{{- end -}}

{{- define "trainshed.tokenKey" -}}
{{- ternary .Values.adminToken.key "token" (ne .Values.adminToken.existingSecret "") -}}
{{- end -}}

{{- define "trainshed.locked" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- /* Names by which clients in the cluster call the server. */ -}}
{{- define "trainshed.hosts" -}}
{{- $name := include "trainshed.fullname" . -}}
{{- $inNamespace := printf "%s.%s" $name .Release.Namespace -}}
{{- $hosts := list $name $inNamespace (printf "%s.svc" $inNamespace) (printf "%s.svc.cluster.local" $inNamespace) -}}
{{- concat $hosts .Values.allowedHosts | uniq | toJson -}}
{{- end -}}

{{- /* A value as TOML.  Helm reads numbers as floats, of which its own toToml writes 8080.0 and 1e+10. */ -}}
{{- define "trainshed.toml" -}}
{{- if kindIs "map" . -}}
{ {{- range $index, $key := keys . | sortAlpha }}{{ if $index }},{{ end }} {{ toJson $key }} = {{ include "trainshed.toml" (get $ $key) }}{{ end }} }
{{- else if kindIs "slice" . -}}
[{{- range $index, $value := . }}{{ if $index }}, {{ end }}{{ include "trainshed.toml" $value }}{{ end -}}]
{{- else if kindIs "invalid" . -}}
{{- fail "values of engine and config must not be null: config.toml has no such value; leave the name out" -}}
{{- else -}}
{{- mustToJson . -}}
{{- end -}}
{{- end -}}

{{- /* The lines of a table: the values of a map by their keys. */ -}}
{{- define "trainshed.tomlLines" -}}
{{- range $key := keys . | sortAlpha }}
{{ ternary $key (toJson $key) (regexMatch "^[A-Za-z0-9_-]+$" $key) }} = {{ include "trainshed.toml" (get $ $key) }}
{{- end -}}
{{- end -}}

{{- define "trainshed.config" -}}
{{- $server := dict "host" "0.0.0.0" "port" 8080 "grpc_port" 8081 "allowed_hosts" (include "trainshed.hosts" . | fromJsonArray) -}}
{{- if .Values.tls.existingSecret -}}
{{- $_ := set $server "tls_certificate" "/etc/trainshed/tls/tls.crt" -}}
{{- $_ := set $server "tls_key" "/etc/trainshed/tls/tls.key" -}}
{{- end -}}
{{- $engine := dict "kind" "kubernetes" "namespace" .Release.Namespace "claim" (include "trainshed.sharedClaim" .) "spool" "/trainshed/shared" -}}
{{- if .Values.registry.existingSecret -}}
{{- $_ := set $engine "docker_config" "/etc/trainshed/registry/config.json" -}}
{{- end -}}
{{- if .Values.registry.caConfigMap -}}
{{- $_ := set $engine "ca_file" "/etc/trainshed/registry-ca/ca.crt" -}}
{{- end -}}
{{- if not (hasKey .Values.engine "probe_image") -}}
{{- $_ := set $engine "probe_image" (include "trainshed.image" .) -}}
{{- end -}}
[server]
{{- include "trainshed.tomlLines" (merge $server (.Values.config.server | default dict)) }}

[[engine]]
{{- include "trainshed.tomlLines" (merge $engine .Values.engine) }}
{{ range $name, $table := omit .Values.config "server" }}
{{- if kindIs "slice" $table }}
{{- range $row := $table }}
[[{{ $name }}]]
{{- include "trainshed.tomlLines" $row }}
{{ end }}
{{- else }}
[{{ $name }}]
{{- include "trainshed.tomlLines" $table }}
{{ end }}
{{- end }}
{{- end -}}
