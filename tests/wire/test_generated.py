"""The generated files agree with each other and with the definitions that they come from."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from trainshed.wire.fields import table

ROOT = Path(__file__).parent.parent.parent
DIALECTS = ("ml_v1", "aiplatform_v1")
GOOGLE_PYTHON = ROOT / ".venv-google/bin/python"


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def generated(dialect, name):
    return ROOT / "src/trainshed/wire" / dialect / "generated" / name


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_field_table_agrees_with_the_descriptors_and_the_coverage(dialect):
    gen_fields = script("gen_fields")
    text = gen_fields.fields_text(dialect, gen_fields.read_descriptors(dialect))
    assert generated(dialect, "fields.json").read_text() == text


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_descriptors_are_those_of_the_published_definitions(dialect, tmp_path):
    """Google's packages live in an environment of their own: they are large and pin protobuf."""
    if not GOOGLE_PYTHON.exists():
        pytest.skip("Google's client packages are not here; `make test` installs them")
    output = tmp_path / "training.fds"
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT / 'scripts')!r}); import gen_wire; "
        f"content = gen_wire.{dialect}().SerializeToString(deterministic=True); "
        f"open({str(output)!r}, 'wb').write(content)"
    )
    subprocess.run([GOOGLE_PYTHON, "-c", code], check=True)
    assert generated(dialect, "training.fds").read_bytes() == output.read_bytes()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_enum_has_its_names_in_the_order_of_their_numbers(dialect):
    raw = json.loads(generated(dialect, "fields.json").read_text())["enums"]
    for name, values in raw.items():
        assert [values[value] for value in table(dialect).enums[name].names] == sorted(
            values.values()
        )


def test_parsing_a_document_does_not_import_protobuf():
    code = (
        "import sys; from trainshed.wire.detect import parse; "
        "parse({'jobSpec': {'workerPoolSpecs': [{}]}}); "
        "sys.exit(any(name.startswith('google') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
