from dataclasses import replace

from engines.support import cluster, plan_of
from trainshed.engines.environments.job_python import JobPython
from trainshed.engines.local.attempts.plan_file import ReplicaSite, replicas_of
from trainshed.engines.local.devices.gpus import Share
from trainshed.engines.supervise.compose import contract_of
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.model.attempt import AttemptKey

PREPARED = JobPython(python="/bin/py", python_path_entries=("/cache/1",))


def command_of(replica, launcher_env, share=Share(), prepared=PREPARED, **more):  # noqa: B008 - frozen
    plan = plan_of([replica], **more)
    site = ReplicaSite(AttemptKey(1, 1), AttemptFolder("/attempts/1/1"), env=launcher_env)
    (spec,) = replicas_of(site, plan, prepared, [share])
    contract = contract_of(site.key, site.folder, plan, replica)
    return spec._replace(env=dict(spec.env.items() - contract.items()))


def test_the_word_python_becomes_the_job_s_interpreter_and_no_other_word_does():
    (replica,) = cluster("pass")
    assert command_of(replica, {}).argv == ("/bin/py", "-c", "pass")
    other = replace(replica, argv=("sh", "python"))
    assert command_of(other, {}).argv == ("sh", "python")


def test_the_plan_wins_over_the_launcher_and_what_must_not_leak_does_not():
    replica = replace(cluster("")[0], env={"TF_CONFIG": "new", "A": "plan"})
    base = {"TF_CONFIG": "old", "A": "launcher", "RANK": "5", "HOME": "/h"}
    env = command_of(replica, base, unset_env=("TF_CONFIG", "RANK")).env
    assert env == {
        "TF_CONFIG": "new",
        "A": "plan",
        "HOME": "/h",
        "PYTHONUNBUFFERED": "1",
        "PYTHONPATH": "/cache/1",
    }


def test_packages_come_before_the_import_path_that_is_there_already():
    (replica,) = cluster("")
    assert command_of(replica, {"PYTHONPATH": "/mine"}).env["PYTHONPATH"] == "/cache/1:/mine"
    with_path = replace(replica, env={"PYTHONPATH": "/theirs"})
    assert command_of(with_path, {"PYTHONPATH": "/mine"}).env["PYTHONPATH"] == "/cache/1:/theirs"
    bare = command_of(replica, {}, prepared=JobPython(python="/bin/py"))
    assert "PYTHONPATH" not in bare.env


def test_devices_are_not_the_plan_s_to_say():
    replica = replace(cluster("")[0], env={"CUDA_VISIBLE_DEVICES": "7"})
    share = Share(uuids=("GPU-1",), env={"CUDA_VISIBLE_DEVICES": "GPU-1"})
    assert command_of(replica, {}, share).env["CUDA_VISIBLE_DEVICES"] == "GPU-1"
