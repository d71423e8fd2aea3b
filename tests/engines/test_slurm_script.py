"""What Slurm is given, byte for byte; what a person would compare is written out."""

import os
import shlex
import subprocess
import zipfile
from dataclasses import replace

import pytest

from trainshed.engines.slurm import script
from trainshed.engines.slurm.attempt_files import read_nodes
from trainshed.engines.slurm.holding import hash_request
from trainshed.engines.slurm.script import Submission
from trainshed.engines.slurm.shape import ShapeRules, roles_of, shape_of
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.engines.warden.archive_words import CODE
from trainshed.model.attempt import AttemptKey
from trainshed.model.resources import Demand, FleetPolicy, GroupDemand, JobDemand
from trainshed.model.roles import Role

KEY = AttemptKey(4611686018427387904, 2)
T4 = "NVIDIA_TESLA_T4"
COMMON = (
    "--parsable --no-requeue --open-mode=append --export=ALL --output=/s/j/2/runner.txt "
    "--chdir=/s/j/2"
)
SRUN = "srun --kill-on-bad-exit=0 --wait=0 --mpi=none --input=none"
WARDEN = f"py -I -S -c {shlex.quote(CODE)} w.pyz task --first 0 --rank-variable SLURM_PROCID"


def demand(*groups):
    return JobDemand(
        region=None,
        groups=tuple(
            GroupDemand(
                role=role,
                count=count,
                each=Demand(
                    vcpus=cpus, memory_gb=gb, gpu_type=T4 if gpus else None, gpu_count=gpus
                ),
            )
            for role, count, cpus, gb, gpus in groups
        ),
    )


def submission_of(*groups, nodes=100, rules=ShapeRules(), **more):  # noqa: B008 - a constant
    job_demand = demand(*groups)
    shape = shape_of(roles_of(job_demand), job_demand, rules, lambda _: nodes)
    words = tuple("t4" if part.need.gpus else "" for part in shape.parts)
    return Submission(
        key=KEY,
        installation="abc",
        shape=shape,
        folder="/s/j/2",
        script="b.sh",
        python="py",
        archive="w.pyz",
        gres_of=words,
        **more,
    )


def sbatch(submission):
    return shlex.join(script.sbatch_words(submission))


def steps(submission):
    return [(shlex.join(step.argv), step.first, step.tasks) for step in script.steps(submission)]


def test_one_replica():
    submission = submission_of((Role.PRIMARY, 1, 4, 15.0, 0), minutes=66)
    assert sbatch(submission) == (
        f"{COMMON} --job-name=ts-abc-{KEY.uid} --comment={KEY} --dependency=singleton --time=66 "
        "--ntasks=1 --cpus-per-task=4 --mem-per-cpu=3840M b.sh /s/j/2 py w.pyz"
    )
    assert steps(submission) == [(f"{SRUN} --ntasks=1 --cpus-per-task=4 --mem=0 {WARDEN}", 0, 1)]


def test_equal_shapes_are_one_plain_job():
    submission = submission_of(
        (Role.PRIMARY, 1, 4, 16.0, 2), (Role.WORKER, 3, 4, 16.0, 2), partition="gpu"
    )
    assert sbatch(submission) == (
        f"{COMMON} --job-name=ts-abc-{KEY.uid} --comment={KEY} --dependency=singleton "
        "--partition=gpu --ntasks=4 --cpus-per-task=4 --mem-per-cpu=4096M --gpus-per-task=t4:2 "
        "b.sh /s/j/2 py w.pyz"
    )
    gpus = "--gpus-per-task=t4:2 --gpu-bind=per_task:2"
    command = f"{SRUN} --ntasks=4 --cpus-per-task=4 --mem=0 {gpus} {WARDEN}"
    assert steps(submission) == [(command, 0, 4)]


def test_replicas_share_a_node_where_there_are_too_few():
    submission = submission_of(
        (Role.PRIMARY, 1, 1, 0, 1),
        (Role.WORKER, 7, 1, 0, 1),
        nodes=6,
        rules=ShapeRules(spread=True),
    )
    assert "--ntasks=8 --cpus-per-task=1 --nodes=4 --ntasks-per-node=2 --gres=gpu:t4:2" in sbatch(
        submission
    )
    assert "--ntasks-per-node=2 --gpu-bind=per_task:1" in steps(submission)[0][0]


def test_replicas_of_a_measurement_are_spread_without_gpus_too():
    groups = [(Role.PRIMARY, 1, 4, 15.0, 0), (Role.WORKER, 1, 4, 15.0, 0)]
    submission = submission_of(*groups, rules=ShapeRules(spread_all=True))
    assert "--mem-per-cpu=3840M --nodes=2 --ntasks-per-node=1 b.sh" in sbatch(submission)
    assert steps(submission) == [(f"{SRUN} --ntasks=2 --cpus-per-task=4 --mem=0 {WARDEN}", 0, 2)]


def test_different_shapes_are_components_with_names_of_their_own():
    submission = submission_of(
        (Role.PRIMARY, 1, 4, 0, 1),
        (Role.WORKER, 2, 4, 0, 4),
        (Role.PARAMETER_SERVER, 2, 2, 0, 0),
        account="a",
        qos="q",
        reservation="r",
        nice="5",
        exclude=("n1", "n2"),
    )
    flags = (
        f"--comment={KEY} --dependency=singleton --account=a --qos=q --reservation=r --nice=5 "
        "--exclude=n1,n2"
    )
    name = f"--job-name=ts-abc-{KEY.uid}"
    assert sbatch(submission) == (
        f"{COMMON} {name} {flags} --ntasks=1 --cpus-per-task=4 --gpus-per-task=t4:1 "
        f": {name}.1 {flags} --ntasks=2 --cpus-per-task=4 --gpus-per-task=t4:4 "
        f": {name}.2 {flags} --ntasks=2 --cpus-per-task=2 "
        "b.sh /s/j/2 py w.pyz"
    )
    more, gpus = SRUN.removeprefix("srun "), "--gpus-per-task=t4:{0} --gpu-bind=per_task:{0}"
    assert steps(submission) == [
        (
            " : ".join(
                f"{srun} {WARDEN}"
                for srun in (
                    f"{SRUN} --ntasks=1 --cpus-per-task=4 --mem=0 {gpus.format(1)}",
                    f"{more} --ntasks=2 --cpus-per-task=4 --mem=0 {gpus.format(4)}",
                    f"{more} --ntasks=2 --cpus-per-task=2 --mem=0",
                )
            ),
            0,
            5,
        )
    ]


def test_packing_puts_small_replicas_beside_large_ones():
    submission = submission_of(
        (Role.PRIMARY, 1, 2, 1.0, 0),
        (Role.WORKER, 2, 4, 8.0, 4),
        (Role.PARAMETER_SERVER, 3, 1, 1.0, 0),
        rules=ShapeRules(packing=True),
    )
    assert sbatch(submission).endswith(
        "--nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=8 --mem=11264M --gres=gpu:t4:4 "
        "b.sh /s/j/2 py w.pyz"
    )
    words = [command for command, _, _ in steps(submission)]
    assert [(first, tasks) for _, first, tasks in steps(submission)] == [(0, 1), (1, 2), (3, 3)]
    assert "--exact --ntasks=1 --ntasks-per-node=1 --nodes=1 --cpus-per-task=2" in words[0]
    assert "--mem=1024M --gres=none" in words[0]
    assert "--exact --ntasks=2 --ntasks-per-node=1 --nodes=2 --cpus-per-task=4" in words[1]
    assert "--mem=8192M --gres=gpu:t4:4" in words[1]
    assert (
        "--ntasks=3 --nodes=2 --cpus-per-task=1 --mem=2048M" in words[2]
    )  # does not come out even
    assert words[2].endswith("task --first 3 --rank-variable SLURM_PROCID")


@pytest.mark.parametrize("packing", [False, True])
def test_a_program_without_memory_ends_alone_where_the_cluster_kills_steps(packing):
    submission = submission_of(
        (Role.PRIMARY, 1, 2, 1.0, 0),
        (Role.WORKER, 2, 4, 8.0, 4),
        rules=ShapeRules(packing=packing),
        spares_steps=True,
    )
    components = 1 if packing else 2
    assert script.sbatch_words(submission).count("--oom-kill-step=0") == components
    commands = [" ".join(step.argv) for step in script.steps(submission)]
    assert sum(command.count("--oom-kill-step=0") for command in commands) == 2
    assert "--oom-kill-step" not in sbatch(replace(submission, spares_steps=False))


def test_one_replica_has_its_memory_to_the_mib():
    """n1-highcpu-16 has 14.4 GB: 922 MiB for each CPU would be 6 MiB more."""
    assert "--cpus-per-task=16 --mem=14746M b.sh" in sbatch(
        submission_of((Role.PRIMARY, 1, 16, 14.4, 0))
    )


def test_several_replicas_are_judged_by_the_memory_that_slurm_is_asked_for():
    submission = submission_of((Role.WORKER, 2, 16, 14.4, 0))
    assert "--ntasks=2 --cpus-per-task=16 --mem-per-cpu=922M b.sh" in sbatch(submission)
    assert submission.shape.parts[0].need.memory_mib == 16 * 922


def test_best_effort_asks_for_gpus_alone():
    command = sbatch(
        submission_of(
            (Role.PRIMARY, 1, 32, 120.0, 2), rules=ShapeRules(policy=FleetPolicy.BEST_EFFORT)
        )
    )
    assert "--cpus-per-task=1 --gpus-per-task=t4:2" in command
    assert "--mem" not in command


def test_a_percent_sign_in_a_folder_is_no_pattern_of_slurms():
    submission = replace(submission_of((Role.PRIMARY, 1, 1, 0, 0)), folder="/s/100%x/2")
    assert "--output=/s/100%%x/2/runner.txt" in script.sbatch_words(submission)


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "an attempt's $HOME"
    path.mkdir()
    keep_archive(tmp_path, "import os, sys; print(sys.argv[1:], os.environ['SLURM_EXPORT_ENV'])")
    return path


def keep_archive(tmp_path, code):
    with zipfile.ZipFile(tmp_path / "w.pyz", "w") as archive:
        archive.writestr("__main__.py", code)


def run(tmp_path, folder, job="17", more=(), **variables):
    batch = tmp_path / "b.sh"
    batch.write_text(script.BATCH)
    words = ["/bin/sh", batch, folder, "python3", tmp_path / "w.pyz", *more]
    env = {"PATH": os.environ["PATH"], "SLURM_JOB_ID": job, **variables}
    return subprocess.run(words, env=env, capture_output=True, text=True, check=False)


def test_the_script_takes_the_claim_and_becomes_the_launcher(tmp_path, folder):
    done = run(tmp_path, folder)
    assert (done.stdout, done.stderr) == (f"{['attempt', str(folder)]} ALL\n", "")
    assert (folder / "claim").read_text() == "17 /\n"


@pytest.mark.parametrize("planted", ["17\n", "server", ""])
def test_a_second_start_goes_at_once(tmp_path, folder, planted):
    (folder / "claim").write_text(planted)
    done = run(tmp_path, folder, job="18")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (folder / "claim").read_text() == planted


def test_a_claim_that_is_a_link_is_not_followed(tmp_path, folder):
    (folder / "claim").symlink_to(tmp_path / "elsewhere")
    assert run(tmp_path, folder).stdout == ""
    assert not (tmp_path / "elsewhere").exists()


def test_the_launcher_has_no_variable_that_is_for_sbatch_alone(tmp_path, folder):
    keep_archive(tmp_path, "import os; print(sorted({'TOKEN', 'OTHER', 'KEPT'} & {*os.environ}))")
    env = {"TOKEN": "s3cr3t", "OTHER": "s3cr3t", "KEPT": "1"}
    done = run(tmp_path, folder, more=("TOKEN", "OTHER"), **env)
    assert done.stdout == "['KEPT']\n"


def test_the_claim_has_the_nodes_and_the_tasks_on_each(tmp_path, folder):
    env = {
        "SLURM_JOB_NODELIST_HET_GROUP_0": "n[1-2]",
        "SLURM_JOB_NODELIST_HET_GROUP_1": "n7",
        "SLURM_TASKS_PER_NODE_HET_GROUP_0": "4,2",
        "SLURM_TASKS_PER_NODE_HET_GROUP_1": "2",
        "SLURM_JOB_NODELIST": "n[1-2]",
        "SLURM_TASKS_PER_NODE": "4,2",
    }
    run(tmp_path, folder, **env)
    assert (folder / "claim").read_text() == "17 n[1-2] n7 / 4,2 2\n"
    assert read_nodes(AttemptFolder(str(folder))) == [
        ("n1", "n1", "n1", "n1", "n2", "n2"),
        ("n7", "n7"),
    ]


def test_a_claim_of_an_earlier_version_has_nodes_alone(folder):
    (folder / "claim").write_text("17 n[1-2] n7\n")
    assert read_nodes(AttemptFolder(str(folder))) == [("n1", "n2"), ("n7",)]


def test_options_of_a_site_are_given_to_every_component():
    submission = submission_of(
        (Role.PRIMARY, 1, 4, 0, 0),
        (Role.WORKER, 1, 4, 0, 1),
        constraint="ib",
        more=("--exclusive", "--licenses=a"),
        hidden=("SLURM_JWT",),
    )
    words = script.sbatch_words(submission)
    for option in ("--constraint=ib", "--exclusive", "--licenses=a"):
        assert words.count(option) == 2
    assert words[-4:] == ["/s/j/2", "py", "w.pyz", "SLURM_JWT"]


def test_an_allocation_suits_the_next_attempt_whatever_partitions_permit_its_shorter_time():
    shape = (Role.PRIMARY, 1, 4, 15.0, 0)
    first = submission_of(shape, minutes=1440, partition="main", owner="a")
    second = submission_of(shape, minutes=60, partition="short,main", exclude=("n1",), owner="b")
    assert hash_request(first) == hash_request(replace(second, key=AttemptKey(KEY.uid, 3)))
    assert hash_request(first) != hash_request(replace(first, constraint="ib"))
