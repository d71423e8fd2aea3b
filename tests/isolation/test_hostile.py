"""A hostile trainer in each mode that the machine allows: what it could do is what the table says.

The modes without walls show that the attempts are real: there they succeed.
"""

import tempfile
from pathlib import Path

import pytest

from engines import docker_daemon, podman_store
from isolation import python_image
from isolation.expected import (
    ABSENT,
    DOCKER,
    LANDLOCK,
    NONE_ROOT,
    NONE_USER,
    OWN_NETWORK,
    PODMAN,
    PROCESSES,
    ROOTLESS,
    SANDBOX,
    USERS,
    WALLS,
    outcomes_of,
)  # fmt: skip
from isolation.hostile import ATTEMPTS
from isolation.scene import BUILD, GROUPS, TRIED, outlived, staged, tried

pytestmark = pytest.mark.slow
#: What only a job with packages can try.
PACKAGES = "write_own_environment"


def differences(outcomes_of_job, expected):
    """What is otherwise than the table says, with the reason that the kernel gave."""
    tried_names = [name for name in expected if ATTEMPTS[name][0] in TRIED]
    outcomes = {name: outcomes_of_job.get(name, ("not tried", "")) for name in tried_names}
    return {
        name: (f"{expected[name]} in the table", *outcome)
        for name, outcome in outcomes.items()
        if outcome[0] != expected[name]
    }


@pytest.mark.parametrize(
    "mode",
    [
        *OWN_NETWORK,
        LANDLOCK,
        NONE_ROOT,
        pytest.param(USERS, marks=pytest.mark.full),
        pytest.param(SANDBOX, marks=pytest.mark.full),
    ],
    ids=lambda mode: mode.name,
)
def test_a_hostile_trainer_can_do_what_the_table_says_and_no_more(mode):
    with staged(mode) as scene:
        outcomes, _ = tried(scene)
        left, log = outlived(scene)
    assert not differences(outcomes, {**outcomes_of(mode), PACKAGES: ABSENT})
    assert not left
    assert ("denied" in log.splitlines()) == (mode in WALLS), log


@pytest.mark.full
@pytest.mark.skipif(bool(docker_daemon.why_not()), reason=docker_daemon.why_not())
@pytest.mark.skipif(bool(python_image.why_not()), reason=python_image.why_not())
def test_the_same_in_a_container():
    with docker_daemon.docker_with_image() as environ:
        python_image.make(environ)
        with staged(DOCKER, environ=environ) as scene:
            outcomes, _ = tried(scene)
            left, log = outlived(scene)
    assert not differences(outcomes, {**outcomes_of(DOCKER), PACKAGES: ABSENT})
    assert not left
    assert "denied" in log.splitlines(), log


@pytest.mark.full
@pytest.mark.skipif(bool(python_image.why_not()), reason=python_image.why_not())
@pytest.mark.parametrize("mode", [PODMAN, ROOTLESS], ids=lambda mode: mode.name)
def test_the_same_with_podman(mode):
    if why := podman_store.why_not(mode.uid):
        pytest.skip(why)
    folder = Path(tempfile.mkdtemp(prefix="podman-", dir=BUILD))
    with (
        podman_store.podman_with_image(folder, mode.uid, mode.image, python_image.fill) as environ,
        podman_store.running(environ, mode.uid, mode.image),
        staged(mode, environ=environ) as scene,
    ):
        outcomes, _ = tried(scene)
        left, log = outlived(scene)
    assert not differences(outcomes, {**outcomes_of(mode), PACKAGES: ABSENT})
    assert not left
    assert "denied" in log.splitlines(), log


@pytest.mark.full
@pytest.mark.parametrize("mode", [*PROCESSES, NONE_USER, NONE_ROOT], ids=lambda mode: mode.name)
def test_the_same_holds_for_its_package_and_while_that_is_built(mode):
    with staged(mode) as scene:
        outcomes, built = tried(scene, build=True)
    expected = outcomes_of(mode)
    assert not differences(outcomes, expected)
    tells = {name: outcome for name, outcome in expected.items() if ATTEMPTS[name][0] in GROUPS}
    unknown = {name: ABSENT for name in tells if name.endswith("_supervisor") or name == PACKAGES}
    assert not differences(built, {**tells, **unknown})
