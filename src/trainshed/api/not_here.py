"""Rows of the table that have a fixed answer: clients know the method, and there is no such thing.

An answer in Google's form is shown as it is; a bare 404 is not.
"""

from typing import NoReturn

from trainshed.api.call import Call, Json
from trainshed.model.refusals import Code, Refusal
from trainshed.model.resource_names import resource_name
from trainshed.service.refusing import not_found


def no_policies(call: Call) -> NoReturn:
    """There are no IAM policies: access is by project and role of the token."""
    del call
    message = "jobs have no IAM policies here; access is by the token's project and role"
    raise Refusal(Code.UNIMPLEMENTED, message)


def no_tensorboards(call: Call) -> NoReturn:
    """There are no TensorBoard instances."""
    del call
    message = (
        "there are no TensorBoard resources here; point TensorBoard at the job's log directory"
    )
    raise Refusal(Code.UNIMPLEMENTED, message)


def no_model(call: Call) -> NoReturn:
    """There is no model registry; pipelines leave the model's name empty and say so."""
    raise _unknown(call, "models", call.params["model"])


def no_operation(call: Call) -> NoReturn:
    """Resources of training have no operations of their own."""
    raise _unknown(call, "operations", call.params["operation"])


def no_operations(call: Call) -> Json:
    """None is under way: what answers with an operation is over by then."""
    del call
    return {}


def _unknown(call: Call, collection: str, name: str) -> Refusal:
    params = call.params
    return not_found(resource_name(collection, params["project"], params["location"], name))
