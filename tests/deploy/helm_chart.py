"""The chart of deploy/helm, rendered by Helm 4 without a cluster."""

import importlib.util
import tomllib
from functools import cache
from pathlib import Path

import yaml

import leftovers
from trainshed.config import load_settings

CHART = Path(__file__).parents[2] / "deploy/helm/trainshed"
RELEASE, NAMESPACE = "ts", "ml"
#: The name of most objects of the release.
NAME = "ts-trainshed"
DATA_DIR = "/var/lib/trainshed/data"
NOTES = "trainshed/templates/NOTES.txt"


def why_no_helm():
    """What keeps Helm from being run here; empty where nothing does."""
    absent = importlib.util.find_spec("helm_python") is None
    return "not installed (pip install helm-python-sdk): helm" if absent else ""


@cache
def load_helm():
    """The module; its runtime opens descriptors at the import and at the first call."""
    with leftovers.outliving_the_test():
        import helm_python  # noqa: PLC0415  # 75 MB that not every machine has

        helm_python.lint(str(CHART), {})
    return helm_python


def render(values, *, release=RELEASE, namespace=NAMESPACE):
    """The text of each template with these values; HelmError says why there is none."""
    helm_python = load_helm()
    with helm_python.Chart.load(CHART) as chart:
        chart.validate_schema(values)
        return chart.render(values, name=release, namespace=namespace)


def list_objects(values, **names):
    """The objects that an installation with these values has."""
    texts = render(values, **names)
    texts.pop(NOTES)
    documents = (document for text in texts.values() for document in yaml.safe_load_all(text))
    return [document for document in documents if document]


def find_object(objects, kind, name=NAME):
    """The object of a kind and a name."""
    (match,) = (row for row in objects if row["kind"] == kind and row["metadata"]["name"] == name)
    return match


def read_config(objects):
    """The text of config.toml, and its tables."""
    text = find_object(objects, "ConfigMap")["data"]["config.toml"]
    return text, tomllib.loads(text)


def load_config(objects, folder):
    """The settings that the server reads from the rendered config.toml."""
    path = folder / "config.toml"
    path.write_text(read_config(objects)[0])
    return load_settings(path, {"TRAINSHED_DATA_DIR": DATA_DIR}, {})
