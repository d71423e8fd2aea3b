"""Variables, commands and arguments of containers, expanded by Kubernetes' rules; pure.

A variable's value may refer to variables before it in the list; command and arguments may refer to
all of them.  ``$(NAME)`` of an unknown name stays as it is, and ``$$`` is a dollar sign.
"""

import base64
import re
from collections.abc import Callable, Mapping

from k8s.emulator.controllers.objects import key_of, labels_of, status_of, uid_of

SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")
Read = Callable[[str, str], Mapping | None]
"""Returns an object of a kind by its name, or None."""


class ConfigRefused(Exception):
    """A container's environment names an object or a key that is absent."""


def expand(text, values):
    """Replace ``$(NAME)`` by its value."""
    out, at = [], 0
    while at < len(text):
        if text[at] != "$" or at + 1 == len(text):
            out.append(text[at])
            at += 1
            continue
        piece, at = _expand_at(text, at, values)
        out.append(piece)
    return "".join(out)


def build_environment(pod, container, read: Read, *, node_address="", pod_address=""):
    """A container's variables; ConfigRefused names what is absent."""
    values = {}
    for source in container.get("envFrom") or ():
        values |= _read_all(source, read)
    for row in container.get("env") or ():
        if "valueFrom" not in row:
            values[row["name"]] = expand(row.get("value", ""), values)
            continue
        value = _read_one(pod, row["valueFrom"], read, node_address, pod_address)
        if value is not None:
            values[row["name"]] = value
    return values


def build_argv(container, image, values):
    """The program of a container: a command replaces the image's entry point and command."""
    command, arguments = container.get("command") or (), container.get("args") or ()
    expanded = [expand(word, values) for word in (*command, *arguments)]
    if command:
        return expanded
    return [*image.entrypoint, *(expanded if arguments else image.command)]


def _expand_at(text, at, values):
    follower = text[at + 1]
    if follower == "$":
        return "$", at + 2
    if follower != "(":
        return text[at : at + 2], at + 2
    end = text.find(")", at + 2)
    if end < 0:
        return "$(", at + 2
    name = text[at + 2 : end]
    return values.get(name, f"$({name})"), end + 1


def _read_all(source, read):
    prefix = source.get("prefix", "")
    for field, kind in (("secretRef", "Secret"), ("configMapRef", "ConfigMap")):
        if reference := source.get(field):
            data = _find_data(kind, reference, read)
            return {prefix + name: value for name, value in (data or {}).items()}
    return {}


def _read_one(pod, source, read, node_address, pod_address):
    for field, kind in (("secretKeyRef", "Secret"), ("configMapKeyRef", "ConfigMap")):
        if reference := source.get(field):
            data = _find_data(kind, reference, read)
            if data is None:
                return None
            if reference["key"] in data:
                return data[reference["key"]]
            if reference.get("optional"):
                return None
            where = f"{kind} {pod['metadata']['namespace']}/{reference['name']}"
            raise ConfigRefused(f"couldn't find key {reference['key']} in {where}")
    return read_field(pod, source["fieldRef"]["fieldPath"], node_address, pod_address)


def _find_data(kind, reference, read):
    obj = read(kind, reference["name"])
    if obj is not None:
        return decode_data(obj)
    if reference.get("optional"):
        return None
    raise ConfigRefused(f'{kind.lower()} "{reference["name"]}" not found')


def decode_data(obj):
    """The values of a Secret or a ConfigMap, as text."""
    rows = obj.get("data") or {}
    if obj["kind"] == "ConfigMap":
        return rows
    return {name: base64.b64decode(value).decode() for name, value in rows.items()}


def read_field(pod, path, node_address="", pod_address=""):
    """A field of a pod as the downward API gives it."""
    if match := SUBSCRIPT.fullmatch(path):
        group = labels_of(pod) if match[1] == "labels" else pod["metadata"].get("annotations") or {}
        return group.get(match[2], "")
    namespace, name = key_of(pod)
    return {
        "metadata.name": name,
        "metadata.namespace": namespace,
        "metadata.uid": uid_of(pod),
        "spec.nodeName": pod["spec"].get("nodeName", ""),
        "spec.serviceAccountName": pod["spec"].get("serviceAccountName", "default"),
        "status.hostIP": node_address,
        "status.podIP": pod_address or status_of(pod).get("podIP", ""),
    }[path]
