"""The how-to of Kubernetes shows the Role that the engine needs."""

import re
from pathlib import Path

import yaml

from trainshed.engines.kubernetes.permissions import compose_rules

PAGE = Path(__file__).parents[2] / "docs/how-to/kubernetes.md"


def test_the_page_shows_exactly_the_rules_that_the_engine_uses():
    (text,) = re.findall(
        r"<!-- run: file=role.yaml -->\n```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL
    )
    assert yaml.safe_load(text)["rules"] == compose_rules()
