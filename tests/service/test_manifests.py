"""What is blotted in what was sent for a job."""

import json

import pytest

from trainshed.service.jobs.manifests import BLOT, mask_secrets

PLAIN = {"WORD": "a 'b'\n\u00e9", "KEYBOARD": "qwerty", "TOKENIZER_PATH": "/x", "argv": ["a", "b"]}


def blot_plan(value):
    return json.loads(mask_secrets("plan.json", json.dumps(value)))


def test_all_else_is_as_it_was():
    assert blot_plan({"replicas": [{"env": PLAIN}]}) == {"replicas": [{"env": PLAIN}]}


@pytest.mark.parametrize(
    "name", ["HF_TOKEN", "aws_secret_access_key", "DB_PASSWORD", "API_KEY", "STORAGE_EMULATOR_HOST"]
)
def test_variables_that_are_named_like_secrets(name):
    assert blot_plan({"env": {name: "s3cr3t"}}) == {"env": {name: BLOT}}


def test_the_name_of_a_secrets_file_is_none():
    env = {"TRAINSHED_REDUCTION_TOKEN_FILE": "/shared/progress/token"}
    assert blot_plan({"env": env}) == {"env": env}


@pytest.mark.parametrize("name", ["plan.json", "command"])
def test_users_in_addresses(name):
    text = json.dumps({"PROXY": "http://me:s3cr3t@proxy:3128/"})
    assert "s3cr3t" not in mask_secrets(name, text)
    assert f"http://{BLOT}@proxy:3128/" in mask_secrets(name, text)
