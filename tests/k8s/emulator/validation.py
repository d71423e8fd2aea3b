"""What the API server refuses of core kinds on its own, in its words, and unknown fields."""

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .core_schemas import describe_type_error, load_core_schema
from .kinds import Resource
from .names import check_labels, check_metadata
from .schemas import (
    compare_immutable,
    load_schema,
    prune_object,
    set_defaults,
    validate,
)
from .statuses import BadRequest, FieldError, Invalid

Body = dict[str, Any]
_NEVER_OR_ON_FAILURE = 'valid values: "OnFailure", "Never"'
_POD_FIELDS = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_MUTABLE_OF_POD = (
    "activeDeadlineSeconds",
    "nodeName",
    "nodeSelector",
    "schedulingGates",
    "terminationGracePeriodSeconds",
    "tolerations",
)
_MUTABLE_OF_SUSPENDED = ("nodeSelector", "tolerations", "schedulingGates", "affinity")


def decode(resource: Resource, version: str, obj: Body, field_validation: str) -> list[str]:
    """Remove unknown fields from a request's body and give them; ``Strict`` refuses them.

    BadRequest names a body of another kind or version.
    """
    _check_identity(resource, version, obj)
    schema = load_schema(resource, version) or load_core_schema(resource)
    unknown = prune_object(schema, obj) if schema else []
    texts = [f'unknown field "{path}"' for path in unknown]
    trouble = describe_type_error(resource, obj)
    if texts and field_validation == "Strict" and not trouble:
        trouble = f"strict decoding error: {', '.join(texts)}"
    if trouble:
        raise BadRequest(
            f'{resource.kind} in version "{version}" cannot be handled as a {resource.kind}: '
            f"{trouble}"
        )
    if schema and resource.is_custom:
        set_defaults(schema, obj)
    return texts if field_validation != "Ignore" else []


def _check_identity(resource: Resource, version: str, obj: Body) -> None:
    wanted = resource.get_api_version(version)
    if obj.setdefault("apiVersion", wanted) != wanted:
        raise BadRequest(
            f"the API version in the data ({obj['apiVersion']}) does not match the expected API "
            f"version ({wanted})"
        )
    if obj.setdefault("kind", resource.kind) != resource.kind:
        raise BadRequest(
            f'{obj["kind"]} in version "{version}" cannot be handled as a {resource.kind}: '
            f'no kind "{obj["kind"]}" is registered for version "{wanted}"'
        )


def validate_object(resource: Resource, obj: Body, old: Body | None = None) -> None:
    """Raise Invalid for everything that is wrong with a new or changed object."""
    errors = list(check_metadata(resource, obj["metadata"]))
    version = obj["apiVersion"].rpartition("/")[2]
    if schema := load_schema(resource, version):
        errors += validate(schema, obj)
        if old is not None and not errors:
            errors += compare_immutable(schema, obj, old)
    else:
        errors += _CHECKS.get(resource.kind, lambda _: ())(obj)
        if old is not None:
            errors += _CHANGES.get(resource.kind, lambda *_: ())(obj, old)
    if errors:
        raise Invalid(resource, obj["metadata"].get("name", ""), errors)


def _check_pod(obj: Body) -> Iterator[FieldError]:
    yield from _check_pod_spec(obj.get("spec") or {}, "spec")


def _check_pod_spec(spec: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    if not spec.get("containers"):
        yield FieldError(f"{path}.containers", "FieldValueRequired")
    names: list[str] = []
    for group in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(group) or ()):
            below = f"{path}.{group}[{index}]"
            yield from _check_container(container, below)
            if container.get("name") in names:
                yield FieldError(f"{below}.name", "FieldValueDuplicate", "", container["name"])
            names.append(container.get("name", ""))
    volumes = {volume.get("name") for volume in spec.get("volumes") or ()}
    yield from _check_mounts(spec, volumes, path)
    yield from check_labels(spec.get("nodeSelector") or {}, f"{path}.nodeSelector")


def _check_container(container: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    for field in ("name", "image"):
        if not container.get(field):
            yield FieldError(f"{path}.{field}", "FieldValueRequired")
    resources = container.get("resources") or {}
    limits = resources.get("limits") or {}
    for name, amount in (resources.get("requests") or {}).items():
        is_device = "/" in name
        if is_device and name not in limits:
            detail = f"Limit must be set for non overcommitable resources: {name}"
            yield FieldError(f"{path}.resources.limits", "FieldValueRequired", detail)
        elif is_device and limits[name] != amount:
            detail = f"must be equal to {name} limit of {limits[name]}"
            yield FieldError(f"{path}.resources.requests", "FieldValueInvalid", detail, amount)


def _check_mounts(spec: Mapping[str, Any], volumes: set[Any], path: str) -> Iterator[FieldError]:
    for group in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(group) or ()):
            for row, mount in enumerate(container.get("volumeMounts") or ()):
                below = f"{path}.{group}[{index}].volumeMounts[{row}]"
                if mount.get("name") not in volumes:
                    yield FieldError(f"{below}.name", "FieldValueNotFound", "", mount.get("name"))
                if not mount.get("mountPath"):
                    yield FieldError(f"{below}.mountPath", "FieldValueRequired")


def _check_job(obj: Body) -> Iterator[FieldError]:
    spec = obj["spec"]
    template = spec["template"]["spec"]
    yield from _check_pod_spec(template, "spec.template.spec")
    path = "spec.template.spec.restartPolicy"
    if template["restartPolicy"] not in ("OnFailure", "Never"):
        yield FieldError(path, "FieldValueRequired", _NEVER_OR_ON_FAILURE)
    elif "podFailurePolicy" in spec and template["restartPolicy"] != "Never":
        detail = 'only "Never" is supported when podFailurePolicy is specified'
        yield FieldError(path, "FieldValueInvalid", detail, template["restartPolicy"])
    for field in ("parallelism", "completions", "backoffLimit", "activeDeadlineSeconds"):
        if spec.get(field, 0) < 0:
            detail = "must be greater than or equal to 0"
            yield FieldError(f"spec.{field}", "FieldValueInvalid", detail, spec[field])
    if spec["completionMode"] == "Indexed" and spec.get("completions") is None:
        detail = "when completion mode is Indexed"
        yield FieldError("spec.completions", "FieldValueRequired", detail)


def _check_secret(obj: Body) -> Iterator[FieldError]:
    for key, text in (obj.get("data") or {}).items():
        try:
            base64.b64decode(text or "", validate=True)
        except (binascii.Error, ValueError, TypeError):
            detail = f"illegal base64 data in {key}"
            yield FieldError(
                f"data[{key}]", "FieldValueInvalid", detail, "<secret contents redacted>"
            )


def _compare_jobs(obj: Body, old: Body) -> Iterator[FieldError]:
    new_spec, old_spec = obj["spec"], old["spec"]
    for field in ("completionMode", "selector", "podFailurePolicy"):
        if new_spec.get(field) != old_spec.get(field):
            value = new_spec.get(field)
            yield FieldError(f"spec.{field}", "FieldValueInvalid", "field is immutable", value)
    if new_spec.get("completions") != old_spec.get("completions") and (
        new_spec["completionMode"] != "Indexed"
        or new_spec.get("completions") != new_spec.get("parallelism")
    ):
        value = new_spec.get("completions")
        yield FieldError("spec.completions", "FieldValueInvalid", "field is immutable", value)
    is_suspended = bool(old_spec.get("suspend"))
    new_fixed, old_fixed = (
        _fix_template(spec, is_suspended=is_suspended) for spec in (new_spec, old_spec)
    )
    if new_fixed != old_fixed:
        value = new_spec["template"]
        yield FieldError("spec.template", "FieldValueInvalid", "field is immutable", value)


def _fix_template(spec: Mapping[str, Any], *, is_suspended: bool) -> Any:
    """What of a template may not change: while a Job is suspended, where its pods go may."""
    template = spec["template"]
    if not is_suspended:
        return template
    return {k: v for k, v in template["spec"].items() if k not in _MUTABLE_OF_SUSPENDED}


def _compare_pods(obj: Body, old: Body) -> Iterator[FieldError]:
    if _fix_pod(obj["spec"]) != _fix_pod(old["spec"]):
        detail = f"pod updates may not change fields other than {_POD_FIELDS}"
        yield FieldError("spec", "FieldValueForbidden", detail)
    node = old["spec"].get("nodeName")
    if node and obj["spec"].get("nodeName") != node:
        value = obj["spec"].get("nodeName")
        yield FieldError("spec.nodeName", "FieldValueInvalid", "field is immutable", value)


def _fix_pod(spec: Mapping[str, Any]) -> Any:
    fixed = {name: value for name, value in spec.items() if name not in _MUTABLE_OF_POD}
    for group in ("initContainers", "containers"):
        fixed[group] = [{**row, "image": ""} for row in spec.get(group) or ()]
    return fixed


def _compare_secrets(obj: Body, old: Body) -> Iterator[FieldError]:
    if obj.get("type") != old.get("type"):
        yield FieldError("type", "FieldValueInvalid", "field is immutable", obj.get("type"))
    if old.get("immutable") and obj.get("data") != old.get("data"):
        detail = "field is immutable when `immutable` is set"
        yield FieldError("data", "FieldValueForbidden", detail)


_CHECKS: Mapping[str, Callable[[Body], Iterator[FieldError]]] = {
    "Job": _check_job,
    "Pod": _check_pod,
    "Secret": _check_secret,
}
_CHANGES: Mapping[str, Callable[[Body, Body], Iterator[FieldError]]] = {
    "Job": _compare_jobs,
    "Pod": _compare_pods,
    "Secret": _compare_secrets,
}


def check_uid(resource: Resource, obj: Body, uid: str) -> None:
    """Raise Invalid where a patch names another uid than the object's."""
    wanted = obj["metadata"].get("uid", uid)
    if wanted != uid:
        error = FieldError("metadata.uid", "FieldValueInvalid", "field is immutable", wanted)
        raise Invalid(resource, obj["metadata"]["name"], [error, error])
