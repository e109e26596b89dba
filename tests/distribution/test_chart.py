"""The Helm chart of docs/operate/kubernetes: its values, and what it makes of them, held against what it deploys.

What helm makes of the chart is kept in two manifests, so that nearly all of this needs no helm; what does is marked.
"""

from __future__ import annotations

import copy
import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from django.core.management import get_commands

from fastpath.core.telemetry.figures import FIGURES
from fastpath.edge.telemetry.prometheus import metric_of
from fastpath.listen_address import SettingsError
from fastpath.server.workers import KILL_SECONDS
from fastpath.settings import Settings, load
from tests.support.chart import EVERYTHING, PLAIN, Object, environment, objects, one, pods
from tests.support.containers import FOLDER as CONTAINERS
from tests.support.containers import SERVICES, stages
from tests.support.wheel import PROJECT
from tools import kubernetes_chart
from tools.kubernetes_chart import CHART, MANIFESTS, PAGE, Manifest

SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
DEFAULTS: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
REST_SECONDS = 15
"""What the pages ask for beyond the drain; the sidecar itself needs less."""

each_manifest = pytest.mark.parametrize("manifest", MANIFESTS, ids=["plain", "everything"])


def containers(manifest: Manifest) -> Iterator[tuple[Object, Object]]:
    """Each with the pod that it is in."""
    for pod in pods(manifest).values():
        for container in pod["spec"]["containers"]:
            yield pod, container


def component(pod: Object) -> str:
    return str(pod["metadata"]["labels"]["app.kubernetes.io/component"])


def sidecar(manifest: Manifest) -> Object:
    return pods(manifest)["fastpath"]


def chosen(labels: dict[str, str], selector: Object) -> bool:
    """Whether a selector of labels takes what has these."""
    for rule in selector.get("matchExpressions", ()):
        assert rule["operator"] == "In"
        if labels.get(rule["key"]) not in rule["values"]:
            return False
    return selector.get("matchLabels", {}).items() <= labels.items()


def port_names(pod: Object) -> set[str]:
    return {port["name"] for container in pod["spec"]["containers"] for port in container.get("ports", ())}


def merged(below: Any, above: Any) -> Any:
    """Values as helm takes one file over another."""
    if isinstance(below, dict) and isinstance(above, dict):
        return below | {name: merged(below.get(name), value) for name, value in above.items()}
    return above


def changed(path: str, value: Any) -> Object:
    """The default values with one of them another."""
    *names, last = path.split(".")
    values = copy.deepcopy(DEFAULTS)
    place = values
    for name in names:
        place = place[name]
    place[last] = value
    return values


def leaves(schema: Object, path: str = "") -> Iterator[str]:
    """The path of each value that the schema knows and that has no parts which must be there."""
    schema = SCHEMA["definitions"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    if not {"required", "properties"} <= schema.keys():
        yield path
        return
    for name, each in schema["properties"].items():
        yield from leaves(each, f"{path}.{name}" if path else name)


WRONG = {
    "a name that is none": ("sidecar.replica", 3, "replica"),
    "no nodes": ("sidecar.replicas", 0, "minimum"),
    "a text for a number": ("sidecar.drain.seconds", "30", "integer"),
    "no wait before a stop": ("sidecar.preStopSeconds", 0, "minimum"),
    "a setting that is none": ("sidecar.settings", {"FASTPATH_NONSENSE": "1"}, "FASTPATH_NONSENSE"),
    "a setting of the chart's own": ("sidecar.settings", {"FASTPATH_LISTEN": "clients://*:1"}, "FASTPATH_LISTEN"),
    "a proxy by its name": ("sidecar.trustedProxies", ["ingress"], "ingress"),
    "a weight that is none": ("sidecar.servers", ["wss://a.example.com/ws 101"], "101"),
    "no bound of processors": ("sidecar.resources", {"requests": {}, "limits": {"cpu": None, "memory": "1Gi"}}, "None"),
    "a host with a scheme": ("host", "https://live.example.com", "https"),
    "no ASGI application": ("web.application", "mysite.wsgi", "mysite.wsgi"),
    "Redis without a version": ("redis.image", "redis", "redis"),
    "a peer that is none": ("networkPolicy.clients", [{"podSelecter": {}}], "podSelecter"),
    "a path without its slash": ("ingress.clientPaths", ["ws"], "ws"),
    "nearly true": ("serviceMonitor.enabled", "yes", "boolean"),
}


def test_the_schema_takes_the_defaults() -> None:
    """And what the tests give besides; helm itself adds `global`."""
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    assert EVERYTHING.values is not None
    given = yaml.safe_load(EVERYTHING.values.read_text(encoding="utf-8"))
    for values in (DEFAULTS, merged(DEFAULTS, given), DEFAULTS | {"global": {}}):
        jsonschema.validate(values, SCHEMA)


@pytest.mark.parametrize(("path", "value", "told"), WRONG.values(), ids=WRONG)
def test_wrong_values_are_refused(path: str, value: Any, told: str) -> None:
    with pytest.raises(jsonschema.ValidationError) as refused:
        jsonschema.validate(changed(path, value), SCHEMA)
    error = jsonschema.exceptions.best_match([refused.value])
    assert told in error.message or told in str(error.validator)
    place = ".".join(str(step) for step in error.absolute_path)
    assert path.startswith(place) or place.startswith(path)


def test_each_value_has_one_comment() -> None:
    """And each that the schema knows has a default."""
    told = [value.path for value in kubernetes_chart.values()]
    assert len(told) == len(set(told))
    for leaf in set(leaves(SCHEMA)) - {"global"}:
        parts = leaf.split(".")
        assert any(".".join(parts[:length]) in told for length in range(1, len(parts) + 1)), leaf
        place = DEFAULTS
        for part in parts:
            place = place[part]


def test_the_page_has_the_values() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text == kubernetes_chart.page(text), "run tools/kubernetes_chart.py"


@each_manifest
def test_a_manifest_is_of_the_chart_of_today(manifest: Manifest) -> None:
    second = manifest.path.read_text(encoding="utf-8").splitlines()[1]
    assert second.endswith(f"from {kubernetes_chart.digest(manifest)}"), "run tools/kubernetes_chart.py, where helm is"


def test_versions_are_the_projects() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert chart["version"] == chart["appVersion"] == PROJECT["version"]
    (container,) = sidecar(PLAIN)["spec"]["containers"]
    assert container["image"].endswith(f":{PROJECT['version']}")


def test_settings_are_those_that_there_are() -> None:
    """The chart makes some of them; the others may be given, and no more."""
    (container,) = sidecar(PLAIN)["spec"]["containers"]
    own = {name for name in environment(PLAIN, container) if name.startswith("FASTPATH_")}
    known = {f"FASTPATH_{field.name.upper()}" for field in fields(Settings)}
    given = SCHEMA["properties"]["sidecar"]["properties"]["settings"]["properties"]
    assert sorted(given) == sorted(known - own - {"FASTPATH_USER"}), "who starts it is no root"
    texts = [path.read_text(encoding="utf-8") for path in [*CHART.rglob("*"), PAGE] if path.is_file()]
    assert {name for text in texts for name in re.findall(r"\bFASTPATH_[A-Z_]*[A-Z]\b", text)} <= known | {
        "FASTPATH_NONSENSE",
        "FASTPATH_CLIENTS_PORT",
    }


@each_manifest
def test_the_sidecar_takes_its_settings(manifest: Manifest) -> None:
    """Its ports are the container's; the variables that Kubernetes adds for services it would refuse."""
    (container,) = sidecar(manifest)["spec"]["containers"]
    given = {key: value for key, value in environment(manifest, container).items() if key.startswith("FASTPATH_")}
    settings = load(given)
    assert settings.workers == int(container["resources"]["limits"]["cpu"])
    ports = {purpose: listener.port for listener in settings.listeners for purpose in listener.purposes}
    assert ports == {port["name"]: port["containerPort"] for port in container["ports"]}
    assert set(stages()["sidecar"].rest("EXPOSE").split()) <= {str(port) for port in ports.values()}
    with pytest.raises(SettingsError, match="unknown setting FASTPATH_CLIENTS_PORT"):
        load(given | {"FASTPATH_CLIENTS_PORT": "tcp://10.0.0.1:8800"})
    assert all(pod["spec"]["enableServiceLinks"] is False for pod in pods(manifest).values())


@each_manifest
def test_a_pod_has_the_time_that_a_stop_takes(manifest: Manifest) -> None:
    """That of the drain, with who is asked to go before, and what the sidecar waits for afterwards."""
    pod = sidecar(manifest)
    (container,) = pod["spec"]["containers"]
    word, seconds = container["lifecycle"]["preStop"]["exec"]["command"]
    assert word == "sleep"
    settings = load({k: v for k, v in environment(manifest, container).items() if k.startswith("FASTPATH_")})
    assert pod["spec"]["terminationGracePeriodSeconds"] == int(seconds) + settings.drain_seconds + REST_SECONDS
    assert KILL_SECONDS < REST_SECONDS
    web = pods(manifest)["fastpath-web"]["spec"]
    _, seconds = web["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    assert web["terminationGracePeriodSeconds"] == int(seconds) + 30, "TimeoutStopSec of the units"


@each_manifest
def test_commands_are_those_of_the_containers(manifest: Manifest) -> None:
    """Of the images, and of the compose file; and they exist."""
    found = {container["name"]: container["command"] for _, container in containers(manifest)}
    assert found["sidecar"] == stages()["sidecar"].command("CMD")
    assert found["web"] == stages()["web"].command("CMD")
    for name, command in found.items():
        if command[:2] == ["python", "manage.py"]:
            assert command[2] in get_commands(), name
            assert name == "outbox" or command == SERVICES[name]["command"]
    assert ("outbox" in found) == (manifest is EVERYTHING)
    unit = (CONTAINERS.parent / "systemd" / "fastpath-outbox.service").read_text(encoding="utf-8")
    assert f" manage.py {found.get('outbox', ['', '', 'realtime_outbox'])[2]}\n" in unit


@each_manifest
def test_no_pod_may_do_more_than_it_must(manifest: Manifest) -> None:
    """Of the user of its image, on a root that it cannot write, with no capability and no account of Kubernetes."""
    uid = re.search(r"--uid (\d+)", stages()["base"].rest("RUN"))
    assert uid is not None
    for pod, container in containers(manifest):
        who = pod["spec"]["securityContext"]
        number = 999 if component(pod) == "redis" else int(uid[1])
        assert (who["runAsUser"], who["runAsGroup"], who["fsGroup"]) == (number, number, number)
        assert who["runAsNonRoot"] is True
        assert who["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["spec"]["automountServiceAccountToken"] is False
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["limits"]["memory"]


@each_manifest
def test_what_is_named_is_there(manifest: Manifest) -> None:
    """Volumes, files of the control ports, ports of probes; each secret is one that the page makes, with its keys."""
    text = PAGE.read_text(encoding="utf-8")
    made = set(re.findall(r"--from-literal=([\w-]+)=", text)) | set(re.findall(r"--from-file=([\w.-]+)", text))
    for pod, container in containers(manifest):
        volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes", ())}
        claimed = {"data"} if component(pod) == "redis" else set()
        assert {mount["name"] for mount in container["volumeMounts"]} <= volumes.keys() | claimed
        keys = [item["key"] for each in volumes.values() for item in each.get("secret", {}).get("items", ())]
        keys += [each["valueFrom"]["secretKeyRef"]["key"] for each in container.get("env", ())
                 if "secretKeyRef" in each.get("valueFrom", {})]  # fmt: skip
        assert set(keys) <= made
        files = set(re.findall(r"/etc/fastpath/([\w.]+)", " ".join(environment(manifest, container).values())))
        assert files <= set(keys)
        for probe in ("readinessProbe", "livenessProbe"):
            if "httpGet" in container.get(probe, {}):
                assert container[probe]["httpGet"]["port"] in port_names(pod)
    (container,) = sidecar(manifest)["spec"]["containers"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert "django.key" not in str(sidecar(manifest))


@each_manifest
def test_selectors_find_the_pods_that_are_meant(manifest: Manifest) -> None:
    """All by the labels that the pods have; and ports by the names that they have there."""
    found: dict[str, set[str]] = {}
    for each in objects(manifest, "Service", "PodDisruptionBudget", "NetworkPolicy", "StatefulSet", "Deployment"):
        spec = each["spec"]
        selector = {"matchLabels": spec["selector"]} if each["kind"] == "Service" else None
        selector = selector or spec.get("podSelector") or spec["selector"]
        those = [pod for pod in pods(manifest).values() if chosen(pod["metadata"]["labels"], selector)]
        name = each["metadata"]["name"]
        found[f"{each['kind']} {name}"] = {component(pod) for pod in those}
        named = [port["targetPort"] for port in spec.get("ports", ())]
        named += [port["port"] for rule in spec.get("ingress") or () for port in rule["ports"]]
        assert set(named) <= {port for pod in those for port in port_names(pod)}, name
    assert found["Service fastpath"] == found["Service fastpath-clients"] == {"sidecar"}
    assert found["Service fastpath-publishers"] == found["PodDisruptionBudget fastpath"] == {"sidecar"}
    assert found["NetworkPolicy fastpath"] == {"sidecar"}
    assert found["Service fastpath-web"] == found["NetworkPolicy fastpath-web"] == {"web"}
    more = {"outbox"} if manifest is EVERYTHING else set()
    assert found["NetworkPolicy fastpath-django"] == {"agent", "collector", "migrate"} | more
    policed = set().union(*(those for what, those in found.items() if what.startswith("NetworkPolicy")))
    assert policed == {component(pod) for pod in pods(manifest).values()}, "each is bounded by a policy"


@each_manifest
def test_django_reaches_every_node_that_may_be(manifest: Manifest) -> None:
    """By the pods' own names, in a service that has them also while they are not ready; the certificate covers them."""
    domain = "svc.cluster.local" if manifest is PLAIN else "svc.cluster.internal"
    service = one(manifest, "Service", "fastpath")["spec"]
    assert (service["clusterIP"], service["publishNotReadyAddresses"]) == ("None", True)
    assert one(manifest, "StatefulSet", "fastpath")["spec"]["serviceName"] == "fastpath"
    (container,) = pods(manifest)["fastpath-agent"]["spec"]["containers"]
    addresses = environment(manifest, container)["SITE_CONTROL"].split()
    scalers = objects(manifest, "HorizontalPodAutoscaler")
    stateful = one(manifest, "StatefulSet", "fastpath")["spec"]
    count = scalers[0]["spec"]["maxReplicas"] if scalers else stateful["replicas"]
    assert ("replicas" in stateful) == (not scalers), "the autoscaler's number is not overwritten"
    hosts = [re.match(r"tls://([\w.-]+):8802\?ca=", address) for address in addresses]
    assert [host and host[1] for host in hosts] == [f"fastpath-{n}.fastpath.fastpath.{domain}" for n in range(count)]


def test_it_scales_by_figures_that_there_are() -> None:
    """Under the names of /metrics, in its units; and down one at a time, later than a drain takes."""
    (scaler,) = objects(EVERYTHING, "HorizontalPodAutoscaler")
    names = {f"fastpath_{metric_of(name, figure)}": name for name, figure in FIGURES.items()}
    asked = {metric["pods"]["metric"]["name"]: metric["pods"]["target"]["averageValue"]
             for metric in scaler["spec"]["metrics"] if metric["type"] == "Pods"}  # fmt: skip
    assert [names[metric] for metric in asked] == ["connections", "loop_lag_ms"]
    assert asked["fastpath_loop_lag_seconds"] == "50m"
    down = scaler["spec"]["behavior"]["scaleDown"]
    (policy,) = down["policies"]
    assert (policy["type"], policy["value"]) == ("Pods", 1)
    assert policy["periodSeconds"] > sidecar(EVERYTHING)["spec"]["terminationGracePeriodSeconds"]
    assert scaler["spec"]["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "fastpath"}


@each_manifest
def test_the_ingress_lets_streams_flow(manifest: Manifest) -> None:
    """To ports that there are, for all that a client asks the sidecar; in the default by nginx' own words."""
    for ingress in objects(manifest, "Ingress"):
        (rule,) = ingress["spec"]["rules"]
        assert ingress["spec"]["tls"][0]["hosts"] == [rule["host"]]
        for path in rule["http"]["paths"]:
            service = path["backend"]["service"]
            ports = one(manifest, "Service", service["name"])["spec"]["ports"]
            assert service["port"]["name"] in {port["name"] for port in ports}
    clients = one(manifest, "Ingress", "fastpath-clients")
    paths = [path["path"] for path in clients["spec"]["rules"][0]["http"]["paths"]]
    assert paths == ["/ws", "/events", "/session"]
    told = {name.rpartition("/")[2]: value for name, value in clients["metadata"]["annotations"].items()}
    assert told["proxy-buffering"] == "off"
    pings = 2 * Settings(mode="none").ping_seconds
    assert int(told["proxy-read-timeout"]) > pings
    assert int(told["proxy-send-timeout"]) > pings
    (container,) = sidecar(manifest)["spec"]["containers"]
    given = environment(manifest, container)
    trusted = {"127.0.0.1,::1"} if manifest is PLAIN else {"10.244.0.0/16"}
    assert {given["FASTPATH_TRUSTED_PROXIES"]} == trusted


def test_prometheus_finds_the_nodes() -> None:
    """By the one service that has their figures' port."""
    (monitor,) = objects(EVERYTHING, "ServiceMonitor")
    labels = monitor["spec"]["selector"]
    (endpoint,) = monitor["spec"]["endpoints"]
    services = [
        service["metadata"]["name"]
        for service in objects(EVERYTHING, "Service")
        if chosen(service["metadata"]["labels"], labels)
        and endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    ]
    assert services == ["fastpath"]


def directives(path: Path) -> set[str]:
    """The lines of a file of Redis that say something."""
    return {line for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")}


def test_redis_is_that_of_the_compose_file() -> None:
    """But for names in the place of addresses, and the memory, which is a value."""
    assert (CHART / "files" / "start-redis.sh").read_bytes() == (CONTAINERS / "start-redis.sh").read_bytes()
    here, there = directives(CHART / "files" / "redis.conf"), directives(CONTAINERS / "redis.conf")
    assert here - there == {"bind * -::*", "maxmemory {{ .Values.redis.maxMemoryMegabytes }}mb"}
    assert there - here == {"bind ADDRESS", "maxmemory 512mb"}
    here, there = directives(CHART / "files" / "sentinel.conf"), directives(CONTAINERS / "sentinel.conf")
    monitor = 'sentinel monitor fastpath {{ include "fastpath.redisHost" (list . 0) }} 6379 2'
    names = {"sentinel resolve-hostnames yes", "sentinel announce-hostnames yes"}
    assert here - there == {"bind * -::*", "dir /data", monitor} | names
    assert there - here == {"bind ADDRESS", "sentinel monitor fastpath 172.30.0.21 6379 2"}


def test_the_nodes_look_for_redis_where_it_is() -> None:
    (container,) = sidecar(EVERYTHING)["spec"]["containers"]
    engine = environment(EVERYTHING, container)["FASTPATH_ENGINE"]
    servers = one(EVERYTHING, "StatefulSet", "fastpath-redis")["spec"]
    hosts = [f"fastpath-redis-{n}.{servers['serviceName']}.fastpath.svc.cluster.internal" for n in range(3)]
    assert servers["replicas"] == 3
    assert f"@{','.join(f'{host}:26379' for host in hosts)}/fastpath?" in engine
    files = one(EVERYTHING, "ConfigMap", "fastpath-redis")["data"]
    assert f"sentinel monitor fastpath {hosts[0]} 6379 2" in files["sentinel.conf"].splitlines()
    assert "maxmemory 512mb" in files["redis.conf"].splitlines()
    script = (CHART / "files" / "start-redis.sh").read_text(encoding="utf-8")
    assert files["start-redis.sh"].strip() == script.strip()
    for each in servers["template"]["spec"]["containers"]:
        assert each["command"] == ["sh", "/etc/fastpath/start-redis.sh", each["name"], "$(ADDRESS)", hosts[0]]
        assert environment(EVERYTHING, each)["ADDRESS"] == hosts[0].replace("fastpath-redis-0", "POD")


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    argv = ["helm", *arguments, "--kube-version", kubernetes_chart.KUBERNETES]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60)


@pytest.mark.helm
@each_manifest
def test_helm_makes_the_manifest(manifest: Manifest) -> None:
    assert manifest.path.read_text(encoding="utf-8") == kubernetes_chart.text_of(manifest)


@pytest.mark.helm
@each_manifest
def test_helm_finds_no_fault(manifest: Manifest) -> None:
    given = ["--values", str(manifest.values)] if manifest.values else []
    done = helm("lint", "--strict", *given, str(CHART))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.helm
def test_helm_refuses_what_is_wrong(tmp_path: Path) -> None:
    """By the schema with the place of the value, and what a schema cannot say in words of the chart."""
    for path, value, _ in WRONG.values():
        (tmp_path / "values.yaml").write_text(yaml.safe_dump(changed(path, value)), encoding="utf-8")
        done = helm("template", "fastpath", str(CHART), "--values", str(tmp_path / "values.yaml"))
        assert done.returncode != 0
        assert path.split(".")[0] in done.stderr, done.stderr
    for given, told in (
        ("autoscaling.maxReplicas=2", "autoscaling.maxReplicas is 2, less than sidecar.replicas (3)"),
        ("autoscaling.connections=0,autoscaling.loopLagMilliseconds=0,autoscaling.cpuPercent=0", "looks at nothing"),
    ):
        done = helm("template", "fastpath", str(CHART), "--set", f"autoscaling.enabled=true,{given}")
        assert done.returncode != 0
        assert told in done.stderr


@pytest.mark.helm
def test_all_can_be_left_out() -> None:
    """But the nodes."""
    parts = ("web", "ingress", "networkPolicy")
    text = kubernetes_chart.rendered(PLAIN, "--set", ",".join(f"{part}.enabled=false" for part in parts))
    kinds = sorted(each["kind"] for each in yaml.safe_load_all(text) if each)
    assert kinds == ["ConfigMap", "PodDisruptionBudget", "Service", "Service", "Service", "StatefulSet"]
    text = kubernetes_chart.rendered(PLAIN, "--set", "web.enabled=false", "--set-json", "networkPolicy.clients=[]")
    (policy,) = [each for each in yaml.safe_load_all(text) if each and each["kind"] == "NetworkPolicy"]
    assert {"podSelector": {}} in [peer for rule in policy["spec"]["ingress"] for peer in rule["from"]]
