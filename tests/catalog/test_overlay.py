"""A user's own machines, accelerators and regions go on top of an edition."""

import tomllib

import pytest

from trainshed import catalog
from trainshed.catalog.open import load_catalog
from trainshed.model.faults import UsageFault

OWN = """
[[machine_type]]
name = "attic-box"
vcpus = 32
memory_gb = 128
family = "attic"

[[accelerator]]
name = "RTX 4090"
enum = "NVIDIA_RTX_4090"
attach_to = "attic"
counts = [1, 2]
caps = [{ count = 1, max_vcpus = 16, max_memory_gb = 128 }]

[[region]]
name = "attic"
accelerators = ["RTX 4090"]
"""


def test_an_overlay_adds_what_the_edition_lacks():
    own = catalog.load("2026-08", overlays=[tomllib.loads(OWN)])
    device = own.accelerator("NVIDIA_RTX_4090")
    assert own.fitting_counts(own.machines["attic-box"], device) == (2,)
    assert own.regions["attic"].offers("RTX 4090") is True
    assert own.regions["attic"].offers("T4") is False
    assert "attic-box" not in catalog.load("2026-08").machines


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[machine]]\nname = 'x'\n", "machine_type"),
        ("[[machine_type]]\nvcpus = 1\n", "name"),
        ("machine_type = 5\n", "machine_type .* must be a list of tables"),
        ("accelerator = [3]\n", "accelerator 1 .* must have a name"),
        ("[[region]]\nname = []\n", "region 1 .* must have a name"),
        ("not toml", "cannot read"),
    ],
)
def test_a_bad_overlay_says_what_is_wrong(tmp_path, text, words):
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(UsageFault, match=words):
        load_catalog("2020-08", (path,), None)


def test_a_missing_overlay_is_named(tmp_path):
    with pytest.raises(UsageFault, match="nowhere"):
        load_catalog("2020-08", (tmp_path / "nowhere.toml",), None)
