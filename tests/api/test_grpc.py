"""gRPC over TLS reaches the same handlers, and its refusals say as much."""

import socket
import ssl
from contextlib import suppress

import grpc
import pytest
from google.protobuf.json_format import ParseDict

from api.grpc_calls import JOBS, grpc_client, status_of
from api.support import Seen, method, surroundings
from trainshed.api.chain import RequestContext
from trainshed.api.grpc_server import transcoder
from trainshed.api.request_records import is_sampled, make_spans
from trainshed.model.access import AccessRole
from trainshed.model.faults import Violation
from trainshed.model.refusals import Code, Refusal
from trainshed.observability.spans import TraceParent
from trainshed.wire.descriptors import message_class, pool
from trainshed.wire.field_count import holds_more

PARENT = "projects/demo/locations/us-central1"
NAME = f"{PARENT}/customJobs/7"
COLLECTION = "/v1/projects/{project}/locations/{location}/customJobs"
PACKAGE = "google.cloud.aiplatform.v1"
OPERATIONS = "google.longrunning.Operations"

CREATE, GET, LIST, DELETE, CANCEL = (Seen() for _ in range(5))
OPERATION, OPERATION_LIST = Seen(), Seen({})
#: The calls as they were reported when they were answered.
REPORTED = []


def rpc(name, verb, path, handle, response, **fields):
    return method(
        verb,
        path,
        handle,
        rpc=f"{JOBS}/{name}",
        request=f"{PACKAGE}.{name}Request",
        response=response,
        **fields,
    )


ROWS = [
    rpc("CreateCustomJob", "POST", COLLECTION, CREATE, f"{PACKAGE}.CustomJob",
        role=AccessRole.SUBMITTER, body="custom_job"),
    rpc("GetCustomJob", "GET", COLLECTION + "/{job}", GET, f"{PACKAGE}.CustomJob"),
    rpc("ListCustomJobs", "GET", COLLECTION, LIST, f"{PACKAGE}.ListCustomJobsResponse",
        query=("filter", "pageSize", "pageToken", "readMask")),
    rpc("DeleteCustomJob", "DELETE", COLLECTION + "/{job}", DELETE, "google.longrunning.Operation"),
    rpc("CancelCustomJob", "POST", COLLECTION + "/{job}:cancel", CANCEL, "google.protobuf.Empty",
        body="*"),
    method("GET", "/v1/projects/{project}/locations/{location}/operations/{operation}", OPERATION,
           rpc=f"{OPERATIONS}/GetOperation", request="google.longrunning.GetOperationRequest",
           response="google.longrunning.Operation"),
    method("GET", "/v1/projects/{project}/locations/{location}/operations", OPERATION_LIST,
           rpc=f"{OPERATIONS}/ListOperations", request="google.longrunning.ListOperationsRequest",
           response="google.longrunning.ListOperationsResponse"),
]  # fmt: skip


@pytest.fixture(scope="module")
def edge(tmp_path_factory):
    services = surroundings(ROWS, watch=REPORTED.append)
    with grpc_client(ROWS, services, tmp_path_factory.mktemp("tls")) as edge:
        yield edge


@pytest.fixture(autouse=True)
def _answers():
    for handle in (CREATE, GET, LIST, DELETE, CANCEL, OPERATION):
        handle.calls.clear()
        handle.answer = {}


def refused(edge, name, request, **fields):
    with pytest.raises(grpc.RpcError) as error:
        edge.call(f"{JOBS}/{name}", request, **fields)
    return error.value


def test_a_document_arrives_in_its_senders_spelling(edge):
    CREATE.answer = {"name": NAME, "state": "JOB_STATE_PENDING"}
    document = {
        "displayName": "a",
        "jobSpec": {
            "workerPoolSpecs": [
                {
                    "machineSpec": {"machineType": "n1-standard-4", "acceleratorType": 5},
                    "replicaCount": "1",
                    "containerSpec": {"imageUri": "i", "args": ["1"]},
                },
                {},
            ],
            "scheduling": {"timeout": "3600s"},
        },
    }
    answer = edge.call(f"{JOBS}/CreateCustomJob", {"parent": PARENT, "customJob": document})
    [call] = CREATE.calls
    assert answer == {"name": NAME, "state": "JOB_STATE_PENDING"}
    assert call.params == {"project": "demo", "location": "us-central1"}
    assert call.caller.name == "dora"
    assert call.document == {
        "display_name": "a",
        "job_spec": {
            "worker_pool_specs": [
                {
                    "machine_spec": {
                        "machine_type": "n1-standard-4",
                        "accelerator_type": "NVIDIA_TESLA_T4",
                    },
                    "replica_count": "1",
                    "container_spec": {"image_uri": "i", "args": ["1"]},
                },
                {},
            ],
            "scheduling": {"timeout": "3600s"},
        },
    }


def test_an_absent_document_is_an_empty_one(edge):
    edge.call(f"{JOBS}/CreateCustomJob", {"parent": PARENT})
    assert CREATE.calls[0].document == {}


def test_a_name_and_its_project_number(edge):
    edge.call(f"{JOBS}/GetCustomJob", {"name": NAME.replace("demo", "1001")})
    assert GET.calls[0].params == {"project": "demo", "location": "us-central1", "job": "7"}


def test_a_list_has_its_query_and_its_answer(edge):
    LIST.answer = {"customJobs": [{"name": NAME}], "nextPageToken": "t"}
    request = {"parent": PARENT, "pageSize": 3, "filter": "f", "readMask": "name,displayName"}
    assert edge.call(f"{JOBS}/ListCustomJobs", request) == LIST.answer
    assert LIST.calls[0].query == {
        "pageSize": "3",
        "filter": "f",
        "readMask": "name,displayName",
    }


def test_a_delete_is_an_operation_that_is_over(edge):
    DELETE.answer = {
        "name": f"{PARENT}/operations/9",
        "metadata": {
            "@type": f"type.googleapis.com/{PACKAGE}.DeleteOperationMetadata",
            "genericMetadata": {"createTime": "2026-11-20T23:53:31Z"},
        },
        "done": True,
        "response": {"@type": "type.googleapis.com/google.protobuf.Empty"},
    }
    answer = edge.call(f"{JOBS}/DeleteCustomJob", {"name": NAME})
    assert answer["response"]["@type"] == "type.googleapis.com/google.protobuf.Empty"
    assert answer["metadata"] == DELETE.answer["metadata"]
    assert answer["done"] is True


def test_a_cancel_is_answered_with_nothing(edge):
    assert edge.call(f"{JOBS}/CancelCustomJob", {"name": NAME}) == {}
    assert CANCEL.calls[0].params["job"] == "7"


def test_operations_are_asked_for_by_their_name(edge):
    edge.call(f"{OPERATIONS}/GetOperation", {"name": f"{PARENT}/operations/9"})
    assert OPERATION.calls[0].params["operation"] == "9"
    assert edge.call(f"{OPERATIONS}/ListOperations", {"name": PARENT, "pageSize": 1}) == {}


def test_what_only_json_has_room_for_is_left_out(edge):
    GET.answer = {"name": NAME, "ours": {"a": 1}, "state": "JOB_STATE_FROM_THE_FUTURE"}
    assert edge.call(f"{JOBS}/GetCustomJob", {"name": NAME}) == {"name": NAME}


# ---- refusals ----


def test_a_refusal_has_its_code_and_every_violation(edge):
    violations = [
        Violation(field=f"job_spec.{n}", rule="wrong-type", message=f"wrong {n}", accepted="b")
        for n in range(3)
    ]
    CREATE.answer = Refusal(Code.INVALID_ARGUMENT, "job_spec.0: wrong", violations)
    error = refused(edge, "CreateCustomJob", {"parent": PARENT})
    assert (error.code(), error.details()) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "job_spec.0: wrong",
    )
    status = status_of(error)
    assert (status["code"], status["message"]) == (3, "job_spec.0: wrong")
    [detail] = status["details"]
    assert detail["@type"] == "type.googleapis.com/google.rpc.BadRequest"
    assert [v["field"] for v in detail["fieldViolations"]] == [f"job_spec.{n}" for n in range(3)]


@pytest.mark.parametrize("code", list(Code), ids=lambda code: code.name)
def test_every_code_has_its_name(edge, code):
    GET.answer = Refusal(code, "why")
    assert refused(edge, "GetCustomJob", {"name": NAME}).code().name == code.name


@pytest.mark.parametrize("letter", ["x", "\u4e2d", "\u00e9"])
def test_a_refusal_of_any_length_arrives(edge, letter):
    """Peers refuse metadata over 8 KiB, and then nobody would know why."""
    violations = [
        Violation(field=f"a.{n}", rule="wrong-type", message=letter * 300, accepted="b")
        for n in range(100)
    ]
    CREATE.answer = Refusal(Code.INVALID_ARGUMENT, letter * 20_000, violations)
    error = refused(edge, "CreateCustomJob", {"parent": PARENT})
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert error.details().startswith(letter * 300)
    assert status_of(error)["details"][0]["fieldViolations"][0]["field"] == "a.0"


def test_who_calls_is_asked_first(edge):
    denied, unknown = grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED
    assert refused(edge, "GetCustomJob", {"name": "nonsense"}, token=None).code() is denied
    assert refused(edge, "GetCustomJob", {"name": "nonsense"}, token="stolen").code() is unknown
    error = refused(edge, "GetCustomJob", {"name": NAME}, token="other")
    assert (error.code(), error.details()) == (
        denied,
        "Permission denied on project demo (or it may not exist)",
    )
    assert refused(edge, "CreateCustomJob", {"parent": PARENT}, token="reader").code() is denied


@pytest.mark.parametrize(
    "name", ["", "projects/demo", NAME + "/x", NAME + "\u0007", f"{PARENT}/jobs/7"]
)
def test_a_name_of_something_else_is_refused(edge, name):
    error = refused(edge, "GetCustomJob", {"name": name})
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "is not a valid resource name for this method" in error.details()


def test_what_no_database_keeps_is_refused(edge):
    request = {"parent": PARENT, "customJob": {"displayName": "a\u0000b"}}
    assert "U+0000" in refused(edge, "CreateCustomJob", request).details()


def test_a_message_of_very_many_fields_is_refused_before_it_is_made():
    """Two bytes each: as objects they would take hundreds of megabytes."""
    kind = message_class(f"{PACKAGE}.CreateCustomJobRequest")
    few, many = kind(), kind()
    for request, count in ((few, 10_000), (many, 30_000)):
        for _ in range(count):
            request.custom_job.job_spec.worker_pool_specs.add()
    few.custom_job.display_name = "a" * 100_000
    assert holds_more(many.SerializeToString(), kind.DESCRIPTOR, 20_000)
    assert not holds_more(few.SerializeToString(), kind.DESCRIPTOR, 20_000)
    row = next(row for row in ROWS if row.rpc.endswith("CreateCustomJob"))
    with pytest.raises(Refusal, match="more than 20000 fields"):
        transcoder(row).read(surroundings([]), RequestContext(body=many.SerializeToString()))


def test_a_name_that_no_head_would_hold_is_refused(edge):
    name = NAME.replace("demo", "d" * 3000)
    assert "is not a valid resource name" in refused(edge, "GetCustomJob", {"name": name}).details()


def test_two_authorizations_are_refused(edge):
    call = edge.channel.unary_unary(f"/{JOBS}/GetCustomJob")
    twice = [("authorization", "Bearer demo"), ("authorization", "Bearer admin")]
    with pytest.raises(grpc.RpcError) as error:
        call(b"", timeout=60, metadata=twice)
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "given twice" in error.value.details()


def test_bytes_that_are_no_message_are_refused(edge):
    with pytest.raises(grpc.RpcError) as error:
        edge.send(f"{JOBS}/GetCustomJob", b"\xff\xff\xff")
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "is not a google.cloud.aiplatform.v1.GetCustomJobRequest" in error.value.details()


def test_a_field_of_a_newer_client_is_named_and_not_swallowed(edge):
    request = message_class(f"{PACKAGE}.CreateCustomJobRequest")()
    request.parent = PARENT
    request.custom_job.display_name = "a"
    request.custom_job.job_spec.scheduling.MergeFromString(b"\xf8\x3f\x01")  # field 1023
    with pytest.raises(grpc.RpcError) as error:
        edge.send(f"{JOBS}/CreateCustomJob", request.SerializeToString())
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "custom_job.job_spec.scheduling.field number 1023" in error.value.details()
    assert CREATE.calls == []


def test_a_value_without_a_json_form_is_refused():
    request = message_class(f"{PACKAGE}.CreateTrainingPipelineRequest")()
    request.training_pipeline.training_task_inputs.number_value = float("nan")
    row = rpc("CreateTrainingPipeline", "POST", COLLECTION, CREATE, f"{PACKAGE}.TrainingPipeline",
              body="training_pipeline")  # fmt: skip
    with pytest.raises(Refusal, match="has no JSON form"):
        transcoder(row).read(surroundings([]), RequestContext(body=request.SerializeToString()))


def test_each_call_is_reported_with_its_method_and_the_status_that_it_has_over_http(edge):
    REPORTED.clear()
    parent = TraceParent(7, 8)
    for call, request in (("CreateCustomJob", {"parent": PARENT}), ("GetCustomJob", {"name": "x"})):
        metadata = [("authorization", "Bearer demo"), ("traceparent", parent.text)]
        message = message_class(f"{PACKAGE}.{call}Request")()
        ParseDict(request, message, descriptor_pool=pool())
        with suppress(grpc.RpcError):
            edge.channel.unary_unary(f"/{JOBS}/{call}")(
                message.SerializeToString(), metadata=metadata, timeout=60
            )
    created, malformed = REPORTED
    assert (created.api, created.status) == ("grpc", 200)
    assert created.method == f"gRPC {JOBS}/CreateCustomJob"
    assert (created.project, created.trace.parent) == ("demo", parent)
    assert malformed.status == 400
    span = make_spans(created)[0]
    assert span.attributes["rpc.method"] == f"{JOBS}/CreateCustomJob"
    assert "http.route" not in span.attributes


def test_reads_over_grpc_are_traced_as_rarely_as_over_http(edge):
    REPORTED.clear()
    for _ in range(60):
        edge.call(f"{JOBS}/ListCustomJobs", {"parent": PARENT})
    assert sum(map(is_sampled, REPORTED)) < 40
    edge.call(f"{JOBS}/CancelCustomJob", {"name": NAME})
    assert is_sampled(REPORTED[-1])


def test_an_error_of_ours_is_a_number(edge, caplog):
    GET.answer = ZeroDivisionError("secret detail")
    error = refused(edge, "GetCustomJob", {"name": NAME})
    assert error.code() is grpc.StatusCode.INTERNAL
    assert "secret" not in error.details()
    assert "secret detail" in caplog.text


@pytest.mark.parametrize(
    ("rpc", "says"),
    [
        (
            "google.cloud.aiplatform.v1.JobService/CreateNothing",
            "this server has no JobService/CreateNothing; ",
        ),
        (
            "google.cloud.aiplatform.v1.NotebookService/ListNotebookRuntimes",
            "this server has no NotebookService/",
        ),
        ("google.cloud.unknown.v1.Service/Do", "Method not found"),
    ],
)
def test_an_unknown_method_is_unimplemented(edge, rpc, says):
    call = edge.channel.unary_unary(f"/{rpc}")
    with pytest.raises(grpc.RpcError) as error:
        call(b"", timeout=60, metadata=[("authorization", "Bearer demo")])
    assert error.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert error.value.details().startswith(says)


def test_it_is_tls_that_is_spoken(tmp_path):
    """No answer without it, and the certificate is the authority's own."""
    with grpc_client(ROWS, surroundings(ROWS), tmp_path) as edge:
        trusted = ssl.create_default_context(cafile=tmp_path / "tls/ca.pem")
        trusted.set_alpn_protocols(["h2"])
        address = ("127.0.0.1", edge.port)
        with (
            socket.create_connection(address, timeout=60) as plain,
            trusted.wrap_socket(plain, server_hostname="localhost") as secure,
        ):
            assert secure.selected_alpn_protocol() == "h2"
        with (
            grpc.insecure_channel(f"127.0.0.1:{edge.port}") as channel,
            pytest.raises(grpc.RpcError),
        ):
            channel.unary_unary(f"/{JOBS}/GetCustomJob")(b"", timeout=60)
