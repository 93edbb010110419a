{{- define "sink.labels" -}}
app: sink
release: {{ .Release.Name }}
{{- end }}
