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
    "name",
    [
        *("HF_TOKEN", "aws_secret_access_key", "DB_PASSWORD", "API_KEY", "STORAGE_EMULATOR_HOST"),
        *("x-api-key", "privateKey", "PASSPHRASE", "Authorization", "NPM_AUTH"),
    ],
)
def test_variables_that_are_named_like_secrets(name):
    assert blot_plan({"env": {name: "s3cr3t"}}) == {"env": {name: BLOT}}


@pytest.mark.parametrize(
    "name",
    [
        *(
            "MAX_TOKENS",
            "maxTokens",
            "MAX_NEW_TOKENS",
            "NUM_TOKENS",
            "N_TOKENS",
            "TOKENS_PER_BATCH",
        ),
        *("TOKENIZERS_PARALLELISM", "TOKENIZER", "TOKEN_COUNT"),
    ],
)
def test_counts_of_tokens_and_tokenizers_are_no_secrets(name):
    assert blot_plan({"env": {name: "4096"}}) == {"env": {name: "4096"}}


@pytest.mark.parametrize(
    "name",
    [
        *("TOKEN", "TOKENS", "API_TOKEN", "API_TOKENS", "ADMIN_TOKENS", "NPM_TOKENS"),
        *("TOKENIZER_API_TOKEN", "MAX_TOKENS_SECRET", "accessToken"),
    ],
)
def test_tokens_beside_such_words_are_secrets(name):
    assert blot_plan({"env": {name: "s3cr3t"}}) == {"env": {name: BLOT}}


def test_all_that_stands_below_the_name_of_a_secret():
    pins, hidden = [1234, "s3cr3t", True, ""], [BLOT, BLOT, True, ""]
    assert blot_plan({"credentials": {"pins": pins}}) == {"credentials": {"pins": hidden}}


def test_variables_in_the_document_of_the_job_that_a_variable_holds():
    """CLUSTER_SPEC holds the worker pools, and so the variables of all replicas."""
    env = [{"name": "HF_TOKEN", "value": "s3cr3t"}, {"name": "WORD", "value": "a"}]
    document = {"cluster": {}, "job": json.dumps({"containerSpec": {"env": env}})}
    blotted = blot_plan({"env": {"CLUSTER_SPEC": json.dumps(document)}})
    spec = json.loads(json.loads(blotted["env"]["CLUSTER_SPEC"])["job"])
    assert spec["containerSpec"]["env"] == [{"name": "HF_TOKEN", "value": BLOT}, env[1]]
    plain = {"env": {"TF_CONFIG": '{"a":  [1]}', "DEEP": "[" * 100_000}}
    assert blot_plan(plain) == plain


def test_the_name_of_a_secrets_file_is_none():
    env = {"TRAINSHED_REDUCTION_TOKEN_FILE": "/shared/progress/token"}
    assert blot_plan({"env": env}) == {"env": env}


@pytest.mark.parametrize("name", ["plan.json", "command"])
def test_users_in_addresses(name):
    text = json.dumps({"PROXY": "http://me:s3@cr3t@proxy:3128/"})
    assert "cr3t" not in mask_secrets(name, text)
    assert f"http://{BLOT}@proxy:3128/" in mask_secrets(name, text)


@pytest.mark.parametrize("name", ["plan.json", "command"])
@pytest.mark.parametrize("host", ["proxy:3128", "10.0.0.7:80/", "[fd00::1]:3128"])
def test_users_in_addresses_without_a_scheme(name, host):
    text = json.dumps({"HTTP_PROXY": f"me:s3@cr/3t@{host}", "argv": [f"--proxy=me:s3cr3t@{host}"]})
    masked = mask_secrets(name, text)
    assert "s3" not in masked
    assert f'"{BLOT}@{host}"' in masked
    assert f"--proxy={BLOT}@{host}" in masked


@pytest.mark.parametrize(
    "text", ["repo/image:tag@sha256:1234abcd", "git@host:22", "gs://bucket/a:b@c", "10:30@home"]
)
def test_other_texts_with_colons_stay(text):
    assert mask_secrets("command", text) == text
