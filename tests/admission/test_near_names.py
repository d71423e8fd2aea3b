"""Refusals of unknown names suggest the name that was most likely meant."""

import pytest

from admission.asking import ask, gpus, group, ml, vertex
from trainshed.admission import check
from trainshed.admission.context import Scope
from trainshed.model.job import Accelerator, Program, ProgramKind

#: What was written, and what is suggested; None for no suggestion.
VERTEX_ACCELERATORS = {
    "NVIDIA_TESLA_L4": "NVIDIA_L4",
    "nvidia-l4": "NVIDIA_L4",
    "L4": "NVIDIA_L4",
    "NVIDIA_T4": "NVIDIA_TESLA_T4",
    "nvidia-tesla-t4": "NVIDIA_TESLA_T4",
    "TESLA_V100": "NVIDIA_TESLA_V100",
    "NVIDIA_A100": "NVIDIA_TESLA_A100",
    "NVIDIA_A100_40GB": "NVIDIA_TESLA_A100",
    "NVIDIA_TESLA_A100_80GB": "NVIDIA_A100_80GB",
    "NVIDIA_TESLA_H100": "NVIDIA_H100_80GB",
    "NVIDIA_H200": "NVIDIA_H200_141GB",
    "NVIDIA_TSLA_T4": "NVIDIA_TESLA_T4",
    "TPU_V5E": "TPU_V5_LITEPOD",
    "TPU-v3": "TPU_V3",
    "MY_CARD": None,
}
ML_ACCELERATORS = {
    "TESLA_T4": "NVIDIA_TESLA_T4",
    "NVIDIA_P100": "NVIDIA_TESLA_P100",
    "V100": "NVIDIA_TESLA_V100",
}
MACHINE_TYPES = {
    "n1_standard_4": "n1-standard-4",
    "N1-STANDARD-4": "n1-standard-4",
    "n1-standart-4": "n1-standard-4",
    "n1standard4": "n1-standard-4",
    "n1-standard-3": "n1-standard-4",
    "n1-standard-200": "n1-standard-96",
    "a2-highgpu-3g": "a2-highgpu-4g",
    "n1-highcpu": "n1-highcpu-16",
    "banana": None,
}
REGIONS = {
    "us-central-1": "us-central1",
    "US-CENTRAL1": "us-central1",
    "us_central1": "us-central1",
    "us-central1-a": "us-central1",
    "us-west1c": "us-west1",
    "europe-west": "europe-west1",
    "us-centrall": "us-central1",
    "mars": None,
}
RUNTIMES = {
    "2.11.0": "2.11",
    "v2.11": "2.11",
    "tf2-gpu.2-11": "2.11",
    "2.111": "2.11",
    "TF 1.15": "1.15",
    "two": None,
}


MODULES = {
    "trainer/task.py": "trainer.task",
    "./trainer/task.py": "trainer.task",
    "trainer.task.py": "trainer.task",
    "task.py": "task",
    "trainer/task": "trainer.task",
    "-m trainer.task": "trainer.task",
    "python -m trainer.task": "trainer.task",
    "trainer.task:main": "trainer.task",
    " trainer.task": "trainer.task",
    "trainer..task": None,
}
PACKAGES = {
    "s3://b/t.tar.gz": "is not in a bucket",
    "https://storage.googleapis.com/b/t.tar.gz": "is not in a bucket",
    "gs:/b/t.tar.gz": "is not in a bucket",
    "gs:///t.tar.gz": "is not in a bucket",
    "gs://b/trainer/": "is a folder, not a package",
    "gs://b/task.py": "is a program, not a package",
}


def message_of(spec, rule, scope=Scope.MACHINES):
    return next(v.message for v in check(ask(spec, scope=scope)) if v.rule == rule)


def program(**fields):
    whole = {"module": "trainer.task", "package_uris": ("gs://b/t.tar.gz",), "image_uri": "i"}
    return Program(kind=ProgramKind.PYTHON_PACKAGE, **{**whole, **fields})


def suggests(message, meant):
    return message.endswith(f"; did you mean {meant}?") if meant else "did you mean" not in message


@pytest.mark.parametrize(("name", "meant"), VERTEX_ACCELERATORS.items())
def test_an_accelerator_of_vertex(name, meant):
    message = message_of(vertex(group(accelerator=gpus(1, name))), "unknown-accelerator")
    assert suggests(message, meant)


@pytest.mark.parametrize(("name", "meant"), ML_ACCELERATORS.items())
def test_an_accelerator_of_ai_platform(name, meant):
    message = message_of(ml(group(accelerator=gpus(1, name))), "unknown-accelerator")
    assert suggests(message, meant)


def test_an_accelerator_of_the_other_product_is_told_so():
    message = message_of(ml(group(accelerator=gpus(1, "NVIDIA_L4"))), "unknown-accelerator")
    assert message.endswith("NVIDIA_L4 belongs to the other product")


@pytest.mark.parametrize(("name", "meant"), MACHINE_TYPES.items())
def test_a_machine_type(name, meant):
    assert suggests(message_of(vertex(group(name)), "unknown-machine-type"), meant)


@pytest.mark.parametrize(("name", "meant"), REGIONS.items())
def test_a_region(name, meant):
    assert suggests(message_of(vertex(group(), region=name), "region-unknown"), meant)


@pytest.mark.parametrize(("name", "meant"), RUNTIMES.items())
def test_a_runtime_version(name, meant):
    program = Program(kind=ProgramKind.PYTHON_PACKAGE, runtime_version=name, module="trainer.task")
    spec = ml(group(program=program))
    assert suggests(message_of(spec, "unknown-runtime", Scope.ALL), meant)


@pytest.mark.parametrize(
    ("accelerator", "rule"),
    [
        (Accelerator(type="NVIDIA_TESLA_T4"), "accelerator-count"),
        (Accelerator(type="NVIDIA_TESLA_T4", count=0), "accelerator-count"),
        (Accelerator(count=2), "accelerator-type-missing"),
    ],
)
def test_a_type_or_a_count_alone_is_refused_in_googles_words(accelerator, rule):
    [violation] = check(ask(vertex(group(accelerator=accelerator))))
    assert violation.rule == rule
    words = "Both `accelerator_type` and `accelerator_count` should be specified or none"
    assert violation.message.startswith(words)


@pytest.mark.parametrize("machine", ["a2-highgpu-1g", "cloud-tpu", "n1-standard-8"])
def test_a_type_alone_is_refused_on_every_kind_of_machine(machine):
    kind = {"a2-highgpu-1g": "NVIDIA_TESLA_A100", "cloud-tpu": "TPU_V3"}.get(machine, "TPU_V3")
    kind = "NVIDIA_TESLA_T4" if machine.startswith("n1") else kind
    spec = vertex(group(machine, accelerator=Accelerator(type=kind)), region="europe-west4")
    assert "should be specified or none" in message_of(spec, "accelerator-count")


def test_ai_platform_has_the_same_rule_for_its_own_fields():
    spec = ml(group(accelerator=Accelerator(type="NVIDIA_TESLA_T4")))
    message = message_of(spec, "accelerator-count")
    assert message.startswith("Both `type` and `count` should be specified or none")


@pytest.mark.parametrize("dialect", [ml, vertex])
@pytest.mark.parametrize(("name", "meant"), MODULES.items())
def test_a_file_or_a_command_in_place_of_a_module(dialect, name, meant):
    message = message_of(dialect(group(program=program(module=name))), "python-module")
    assert message.startswith(f"{name!r} is not a valid module name")
    assert suggests(message, meant)


@pytest.mark.parametrize("name", ["task", "trainer.task", "my-trainer.task", "a_b.c1.__main__"])
def test_a_module(name):
    violations = check(ask(vertex(group(program=program(module=name))), scope=Scope.ALL))
    assert "python-module" not in {v.rule for v in violations}


@pytest.mark.parametrize("dialect", [ml, vertex])
@pytest.mark.parametrize(("uri", "says"), PACKAGES.items())
def test_what_is_no_package(dialect, uri, says):
    spec = dialect(group(program=program(package_uris=(uri,))))
    assert says in message_of(spec, "package-uris", Scope.ALL)


@pytest.mark.parametrize(
    ("dialect", "name", "says"),
    [
        (ml, "basic_gpu", "; BASIC_GPU is a scale tier"),
        (ml, "nvidia-tesla-p100", "; NVIDIA_TESLA_P100 is an accelerator"),
        (vertex, "T4", "; NVIDIA_TESLA_T4 is an accelerator"),
        (vertex, "NVIDIA_L4", "; NVIDIA_L4 is an accelerator"),
    ],
)
def test_a_name_of_another_kind_in_place_of_a_machine_type(dialect, name, says):
    assert says in message_of(dialect(group(name)), "unknown-machine-type")


@pytest.mark.parametrize("name", ["n1_standard_4", "standard-gpu", "t2d-standard-4"])
def test_the_suggested_machine_type_is_among_those_accepted(name):
    [violation] = check(ask(vertex(group(name))))
    meant = violation.message.rpartition("did you mean ")[2].rstrip("?")
    assert violation.accepted.startswith(meant)


@pytest.mark.parametrize(("name", "first"), {"US": "us-", "eu": "europe-"}.items())
def test_a_location_of_buckets_is_told_its_regions(name, first):
    [violation] = check(ask(vertex(group(), region=name)))
    assert violation.accepted.startswith(first)


@pytest.mark.parametrize(
    ("uri", "meant"), [("https://gcr.io/p/i", "gcr.io/p/i"), ("docker://a b", None)]
)
def test_what_is_no_image(uri, meant):
    spec = vertex(group(program=Program(kind=ProgramKind.CONTAINER, image_uri=uri)))
    assert suggests(message_of(spec, "image-missing", Scope.ALL), meant)
