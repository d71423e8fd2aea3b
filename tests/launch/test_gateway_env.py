"""What a replica is told of the gateway (docs/decisions/0041)."""

import json

import pytest

from launch.builders import container, ml_spec, plan_of, vertex_spec
from trainshed.launch.gateway_env import CERTIFICATES, METADATA
from trainshed.model.gateway import GatewaySight
from trainshed.model.launch_plan import Address
from trainshed.model.roles import Role

BY_PROXY = GatewaySight(address="127.0.0.1:4711", folder="/data/gateway")
BY_NAME = BY_PROXY._replace(hosts=(("127.0.0.2", "storage.googleapis.com"),))


def env_of(gateway, spec=None, **changes):
    return plan_of(spec or vertex_spec(), gateway=gateway, **changes).primary.env


@pytest.mark.parametrize("spec", [ml_spec(), vertex_spec()])
def test_credentials_and_certificates_are_found_by_every_client(spec):
    env = env_of(BY_NAME, spec)
    assert {env[name] for name in METADATA} == {"127.0.0.1:4711"}
    assert {env[name] for name in CERTIFICATES} == {"/data/gateway/ca-bundle.pem"}
    assert env["GOOGLE_CLOUD_PROJECT"] == "demo-proj"


def test_tensorflow_reads_one_authority_for_each_object_and_curl_has_all():
    env = env_of(BY_NAME)
    assert (env["CURL_CA_BUNDLE"], env["CURL_HOME"]) == ("/data/gateway/ca.pem", "/data/gateway")
    env = env_of(BY_NAME, vertex_spec(program=container(env=[("CURL_CA_BUNDLE", "/mine.pem")])))
    assert env["CURL_CA_BUNDLE"] == "/mine.pem"
    assert "CURL_HOME" not in env


def test_where_names_lead_to_the_gateway_nothing_else_goes_through_it():
    assert not [name for name in env_of(BY_NAME) if "proxy" in name.lower()]


def test_elsewhere_it_is_the_proxy_of_https_but_not_between_replicas():
    addresses = {
        (Role.PRIMARY, 0): Address(host="10.0.0.7", port=1, rendezvous_port=2),
    }
    env = env_of(BY_PROXY, vertex_spec(), addresses=addresses)
    assert env["https_proxy"] == "http://127.0.0.1:4711"
    assert {"localhost", "127.0.0.1", "10.0.0.7"} <= set(env["no_proxy"].split(","))
    assert json.loads(env["FSSPEC_GS"]) == {"session_kwargs": {"trust_env": True}}
    assert (env["HTTPS_PROXY"], env["NO_PROXY"]) == (env["https_proxy"], env["no_proxy"])
    assert not {"http_proxy", "HTTP_PROXY"} & set(env)


def test_the_user_s_own_variables_win():
    mine = container(env=[("https_proxy", "http://proxy:3128"), ("SSL_CERT_FILE", "/mine.pem")])
    env = env_of(BY_PROXY, vertex_spec(program=mine))
    assert (env["https_proxy"], env["SSL_CERT_FILE"]) == ("http://proxy:3128", "/mine.pem")


def test_without_a_gateway_a_replica_is_told_of_none():
    env = plan_of(vertex_spec()).primary.env
    assert not {*METADATA, *CERTIFICATES, "GOOGLE_CLOUD_PROJECT", "https_proxy"} & set(env)


def test_a_reducer_is_told_of_none():
    spec = vertex_spec({Role.PRIMARY: 1, Role.WORKER: 1, Role.REDUCER: 1})
    plan = plan_of(spec, gateway=BY_NAME)
    roles = {replica.role for replica in plan.replicas if METADATA[0] in replica.env}
    assert roles == {Role.PRIMARY, Role.WORKER}
