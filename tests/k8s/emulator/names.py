"""Rules of names and labels of the API server, in its words."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from .kinds import Resource
from .statuses import FieldError

_SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_LABEL = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_VALUE = r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
_KEY = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    f"for validation is '{_SUBDOMAIN}')"
)
LABEL_1035_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', "
    f"regex used for validation is '{_LABEL}')"
)
_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  "
    f"or '12345', regex used for validation is '{_VALUE}')"
)
_KEY_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    f"validation is '{_KEY}')"
)
MAX_LABEL = 63
MAX_NAME = 253


def is_subdomain(text: str) -> bool:
    return re.fullmatch(_SUBDOMAIN, text) is not None


def list_1035_errors(text: str) -> list[str]:
    """What is wrong with a text as a label of DNS-1035."""
    errors = [] if re.fullmatch(_LABEL, text) else [LABEL_1035_TEXT]
    if len(text) > MAX_LABEL:
        errors.append(f"must be no more than {MAX_LABEL} bytes")
    return errors


def check_metadata(resource: Resource, metadata: Mapping[str, Any]) -> Iterator[FieldError]:
    """What is wrong with the name, the labels and the annotations of an object."""
    yield from _check_name(resource, metadata)
    yield from check_labels(metadata.get("labels") or {}, "metadata.labels")
    for key in metadata.get("annotations") or {}:
        yield from _check_key(key.lower(), "metadata.annotations")


def check_labels(labels: Mapping[str, str], path: str) -> Iterator[FieldError]:
    for key, value in labels.items():
        yield from _check_key(key, path)
        text = str(value)
        if len(text) > MAX_LABEL:
            detail = f"must be no more than {MAX_LABEL} bytes"
            yield FieldError(path, "FieldValueInvalid", detail, text)
        if not re.fullmatch(_VALUE, text):
            yield FieldError(path, "FieldValueInvalid", _VALUE_TEXT, text)


def _check_name(resource: Resource, metadata: Mapping[str, Any]) -> Iterator[FieldError]:
    name = metadata.get("name", "")
    if not name:
        yield FieldError("metadata.name", "FieldValueRequired", "name or generateName is required")
        return
    if resource.kind == "Service":
        for detail in list_1035_errors(name):
            yield FieldError("metadata.name", "FieldValueInvalid", detail, name)
        return
    if len(name) > MAX_NAME:
        detail = f"must be no more than {MAX_NAME} bytes"
        yield FieldError("metadata.name", "FieldValueInvalid", detail, name)
    if not is_subdomain(name):
        yield FieldError("metadata.name", "FieldValueInvalid", SUBDOMAIN_TEXT, name)


def _check_key(key: str, path: str) -> Iterator[FieldError]:
    prefix, _, name = key.rpartition("/")
    if not re.fullmatch(_KEY, name):
        yield FieldError(path, "FieldValueInvalid", _KEY_TEXT, key)
    if len(name) > MAX_LABEL:
        detail = f"name part must be no more than {MAX_LABEL} bytes"
        yield FieldError(path, "FieldValueInvalid", detail, key)
    if "/" in key and not is_subdomain(prefix):
        yield FieldError(path, "FieldValueInvalid", f"prefix part {SUBDOMAIN_TEXT}", key)
