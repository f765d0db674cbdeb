{{- define "zebu.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "zebu.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "zebu.labels" -}}
{{ include "zebu.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- /* The members, as zoo.cfg has them. A pod's number is its member's less one. */ -}}
{{- define "zebu.servers" -}}
{{- $name := include "zebu.name" . -}}
{{- range $i := until (int .Values.replicas) -}}
{{- if $i }} {{ end -}}
server.{{ add1 $i }}={{ $name }}-{{ $i }}.{{ $name }}-headless.{{ $.Release.Namespace }}.svc.{{ $.Values.clusterDomain }}:{{ $.Values.ports.quorum }}:{{ $.Values.ports.election }};{{ $.Values.ports.client }}
{{- end -}}
{{- end -}}

{{- /* Further lines of zoo.cfg, separated by blanks. */ -}}
{{- define "zebu.lines" -}}
{{- $lines := list -}}
{{- range $key, $value := .Values.config -}}
{{- $lines = append $lines (printf "%s=%v" $key $value) -}}
{{- end -}}
{{- /* What the ensemble has agreed on counts; the list of this chart is how a new member finds the others. */ -}}
{{- $lines = append $lines "reconfigEnabled=true" -}}
{{- $lines = append $lines (printf "admin.serverPort=%v" .Values.ports.admin) -}}
{{- if .Values.metrics.enabled -}}
{{- $lines = append $lines "metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider" -}}
{{- $lines = append $lines (printf "metricsProvider.httpPort=%v" .Values.ports.metrics) -}}
{{- end -}}
{{- with .Values.tls.client -}}
{{- if .secret -}}
{{- $lines = append $lines (printf "secureClientPort=%v" .port) -}}
{{- $lines = append $lines (printf "ssl.clientAuth=%s" .clientAuth) -}}
{{- $lines = append $lines (printf "ssl.keyStore.location=/tls/client/%s" .keyStore) -}}
{{- $lines = append $lines (printf "ssl.trustStore.location=/tls/client/%s" .trustStore) -}}
{{- end -}}
{{- end -}}
{{- with .Values.tls.quorum -}}
{{- if .secret -}}
{{- $lines = append $lines "sslQuorum=true" -}}
{{- $lines = append $lines (printf "ssl.quorum.keyStore.location=/tls/quorum/%s" .keyStore) -}}
{{- $lines = append $lines (printf "ssl.quorum.trustStore.location=/tls/quorum/%s" .trustStore) -}}
{{- end -}}
{{- end -}}
{{- join " " $lines -}}
{{- end -}}

{{- define "zebu.claim" -}}
accessModes: [ReadWriteOnce]
{{- with .root.Values.persistence.storageClass }}
storageClassName: {{ . | quote }}
{{- end }}
resources:
  requests:
    storage: {{ .size }}
{{- end -}}
