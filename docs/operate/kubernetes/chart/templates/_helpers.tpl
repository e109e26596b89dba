{{/* The name that all others begin with: the release's. */}}
{{- define "fastpath.name" -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- end }}

{{/* What tells the pods of a component from others; arguments: the root, the component. */}}
{{- define "fastpath.selector" -}}
app.kubernetes.io/name: fastpath
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{/* The labels of an object; arguments: the root, the component. */}}
{{- define "fastpath.labels" -}}
{{ include "fastpath.selector" . }}
app.kubernetes.io/version: {{ (index . 0).Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ (index . 0).Release.Service }}
helm.sh/chart: {{ printf "%s-%s" (index . 0).Chart.Name (index . 0).Chart.Version }}
{{- end }}

{{/* An image with its tag; arguments: the root, the values of the image. */}}
{{- define "fastpath.image" -}}
{{ (index . 1).repository }}:{{ (index . 1).tag | default (index . 0).Chart.AppVersion }}
{{- end }}

{{/* What holds for every pod; arguments: the root, the user's number. */}}
{{- define "fastpath.pod" -}}
# Kubernetes would give every pod FASTPATH_… variables with the addresses of services, and a sidecar refuses settings
# that it does not know.
enableServiceLinks: false
# Nothing here speaks to Kubernetes.
automountServiceAccountToken: false
{{- with (index . 0).Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: {{ index . 1 }}
  runAsGroup: {{ index . 1 }}
  # Files of secrets and volumes belong to this group.
  fsGroup: {{ index . 1 }}
  seccompProfile:
    type: RuntimeDefault
{{- end }}

{{/* What holds for every container. */}}
{{- define "fastpath.container" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end }}

{{/* A variable out of the site's Secret; arguments: the root, its name, the key. */}}
{{- define "fastpath.secretVariable" -}}
- name: {{ index . 1 }}
  valueFrom:
    secretKeyRef:
      name: {{ (index . 0).Values.secrets.site }}
      key: {{ index . 2 }}
{{- end }}

{{/* The most nodes that there can be. */}}
{{- define "fastpath.nodesMax" -}}
{{ .Values.autoscaling.enabled | ternary .Values.autoscaling.maxReplicas .Values.sidecar.replicas }}
{{- end }}

{{/* Where clients are sent that come by way of the ingress. */}}
{{- define "fastpath.url" -}}
wss://{{ .Values.host }}/ws
{{- end }}

{{/* The control addresses of all nodes, also of those that do not run: they are away, which delays nothing. */}}
{{- define "fastpath.control" -}}
{{- $files := "ca=/etc/fastpath/ca.pem&cert=/etc/fastpath/django.pem&key=/etc/fastpath/django.key" }}
{{- range until (include "fastpath.nodesMax" . | int) }}
{{- if . }}{{ " " }}{{ end -}}
tls://{{ include "fastpath.name" $ }}-{{ . }}.{{ include "fastpath.name" $ }}.{{ $.Release.Namespace }}.svc.{{ $.Values.clusterDomain }}:8802?{{ $files }}
{{- end }}
{{- end }}

{{/* The name of one Redis of the chart's; arguments: the root, its number. */}}
{{- define "fastpath.redisHost" -}}
{{- $name := printf "%s-redis" (include "fastpath.name" (index . 0)) -}}
{{ $name }}-{{ index . 1 }}.{{ $name }}.{{ (index . 0).Release.Namespace }}.svc.{{ (index . 0).Values.clusterDomain }}
{{- end }}

{{/* What the variables of all Django's containers are. */}}
{{- define "fastpath.djangoVariables" -}}
env:
  {{- include "fastpath.secretVariable" (list . "FASTPATH_TOKEN_SECRET" "token-secret") | nindent 2 }}
  {{- include "fastpath.secretVariable" (list . "SITE_SECRET_KEY" "site-secret-key") | nindent 2 }}
  - name: SITE_HOSTS
    value: {{ .Values.host }}
  # The ingress ends TLS, and says so.
  - name: SITE_HTTPS
    value: proxy
  - name: SITE_CONTROL
    value: {{ include "fastpath.control" . | quote }}
  - name: SITE_SERVERS
    value: {{ include "fastpath.url" . }}
  - name: SITE_RELAY
    value: ws://{{ include "fastpath.name" . }}-clients:8800/ws
  {{- with .Values.web.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .Values.web.envFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* What Django's containers read and write. */}}
{{- define "fastpath.djangoMounts" -}}
volumeMounts:
  - name: control
    mountPath: /etc/fastpath
    readOnly: true
  - name: tmp
    mountPath: /tmp
{{- end }}

{{/* The volumes of Django's pods: of the control ports' files those that Django shows. */}}
{{- define "fastpath.djangoVolumes" -}}
volumes:
  - name: control
    secret:
      secretName: {{ .Values.secrets.control }}
      defaultMode: 0440
      items:
        - {key: ca.pem, path: ca.pem}
        - {key: django.pem, path: django.pem}
        - {key: django.key, path: django.key}
  - name: tmp
    emptyDir: {}
{{- end }}
