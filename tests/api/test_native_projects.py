"""The native routes name projects as Google's do: by id or by number, for those who may."""

import pytest

from api.support import application, build_native, client, project
from trainshed.api.native.app import native_app

STORY = {"events": []}


@pytest.fixture(scope="module")
def edge():
    native = build_native()
    native.store.project = project
    native.stories.events.return_value = STORY
    with client(application([], native=native_app(native, "1"))) as edge:
        edge.stories = native.stories
        yield edge


@pytest.mark.parametrize("name", ["demo", "1001"])
@pytest.mark.parametrize("token", ["demo", "reader", "admin"])
def test_a_number_is_the_project_of_its_id(edge, name, token):
    edge.stories.reset_mock()
    headers = {"Authorization": f"Bearer {token}"}
    answer = edge.get(f"/trainshed/v1/projects/{name}/jobs/j/events", headers=headers)
    assert (answer.status_code, answer.json()) == (200, STORY)
    assert edge.stories.events.call_args.args == ("demo", "j")


@pytest.mark.parametrize("name", ["other", "1002", "none"])
def test_a_foreign_project_is_closed_under_both_names(edge, name):
    edge.stories.reset_mock()
    answer = edge.get(f"/trainshed/v1/projects/{name}/jobs/j/events")
    assert answer.status_code == 403
    assert "(or it may not exist)" in answer.json()["error"]["message"]
    edge.stories.events.assert_not_called()
