{{/* What all objects are called. */}}
{{- define "slipway.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "slipway.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "slipway.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* The service account of the scheduler: the Pod's, or its own. */}}
{{- define "slipway.schedulerServiceAccount" -}}
{{- if .Values.scheduler.serviceAccount.separate -}}
{{- default (printf "%s-scheduler" (include "slipway.fullname" . | trunc 53)) .Values.scheduler.serviceAccount.name -}}
{{- else -}}
{{- include "slipway.serviceAccount" . -}}
{{- end -}}
{{- end -}}

{{/* What slipway's Pods are found by. */}}
{{- define "slipway.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "slipway.labels" -}}
{{ include "slipway.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.additionalLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Annotations of an object: those of all, and its own. */}}
{{- define "slipway.annotations" -}}
{{- with merge (dict) (default dict .own) .root.Values.additionalAnnotations -}}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "slipway.image" -}}
{{- if .image.digest -}}
{{ .image.repository }}@{{ .image.digest }}
{{- else -}}
{{ .image.repository }}:{{ default .root.Chart.AppVersion .image.tag }}
{{- end -}}
{{- end -}}

{{- define "slipway.verbosity" -}}
{{- get (dict "error" "0" "info" "2" "debug" "4") .Values.logLevel -}}
{{- end -}}

{{/* The condition of CEL that text is what a selector of a Fargate profile wants. EKS has wildcards: * for any text, ? for one character. */}}
{{- define "slipway.selects" -}}
{{- if regexMatch "[*?]" .want -}}
{{ .text }}.matches({{ printf "^%s$" (regexQuoteMeta .want | replace "\\*" ".*" | replace "\\?" ".") | quote }})
{{- else -}}
{{ .text }} == {{ .want | quote }}
{{- end -}}
{{- end -}}
