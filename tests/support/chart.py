"""The manifests that are rendered from the Helm chart: their objects, their pods, what a container is given."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import yaml

from tools.kubernetes_chart import MANIFESTS, Manifest

PLAIN, EVERYTHING = MANIFESTS
Object = dict[str, Any]


@cache
def read(manifest: Manifest) -> list[Object]:
    return list(filter(None, yaml.safe_load_all(manifest.path.read_text(encoding="utf-8"))))


def objects(manifest: Manifest, *kinds: str) -> list[Object]:
    """Those of a rendering that are of these kinds."""
    return [each for each in read(manifest) if each["kind"] in kinds]


def one(manifest: Manifest, kind: str, name: str) -> Object:
    (found,) = [each for each in objects(manifest, kind) if each["metadata"]["name"] == name]
    return found


def pods(manifest: Manifest) -> dict[str, Object]:
    """The template of each kind of pod, by the name of what makes them."""
    makers = objects(manifest, "StatefulSet", "Deployment", "Job")
    return {maker["metadata"]["name"]: maker["spec"]["template"] for maker in makers}


def environment(manifest: Manifest, container: Object) -> dict[str, str]:
    """What a container is given: a secret is its key's name over and over, a number of processors 2."""
    given: dict[str, str] = {}
    for source in container.get("envFrom", ()):
        if "configMapRef" in source:
            given |= one(manifest, "ConfigMap", source["configMapRef"]["name"])["data"]
    for variable in container.get("env", ()):
        origin = variable.get("valueFrom", {})
        if "secretKeyRef" in origin:
            key = origin["secretKeyRef"]["key"]
            value = "redis://127.0.0.1:6379" if key == "engine" else key * 4
        elif "resourceFieldRef" in origin:
            value = str(container["resources"]["limits"]["cpu"])
        else:
            value = variable.get("value", "POD")
        given[variable["name"]] = re.sub(r"\$\((\w+)\)", lambda found: given[found[1]], value)
    return given
