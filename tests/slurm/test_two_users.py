"""Jobs of two users of a real cluster: what SECURITY.md says of a server a project, and of one."""

import json
import os
import pwd
import shutil
import subprocess
from pathlib import Path

import pytest

from slurm.cluster import program

pytestmark = [pytest.mark.slow, pytest.mark.full, pytest.mark.timeout(300)]
#: Users that every Debian has; Slurm asks for the name of who submits.
OWNER, OTHER = "games", "news"
VICTIM = """\
#!/bin/sh
echo secret > {folder}/file
echo $$ > {folder}/pid
exec sleep 600
"""
#: Says of each attempt whether it was done.
ATTACKER = """\
#!{python}
import json, os, sys
folder, out = {folder!r}, {out!r}
def done(act):
    try:
        act()
    except OSError:
        return False
    return True
pid = {pid}
found = {{
    "reads its files": done(lambda: open(folder + "/file").close()),
    "writes its files": done(lambda: open(folder + "/planted", "w").close()),
    "signals it": done(lambda: os.kill(pid, 0)),
    "reads its variables": done(lambda: open(f"/proc/{{pid}}/environ").read(1)),
    "sees its command": done(lambda: open(f"/proc/{{pid}}/cmdline").read(1)),
}}
open(out + ".new", "w").write(json.dumps(found))
os.rename(out + ".new", out)
"""


@pytest.fixture
def spools(cluster):
    """A folder that server and nodes share for each user, closed to others."""
    folders = {}
    for name in (OWNER, OTHER):
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            pytest.skip(f"this machine has no user {name}: make one with adduser")
        folders[name] = Path(cluster.shared, f"spool-{name}")
        folders[name].mkdir(mode=0o700)
        os.chown(folders[name], user.pw_uid, user.pw_gid)
    yield folders
    for name in (OWNER, OTHER):
        cluster.run("scancel", f"--user={name}", check=False)
    cluster.wait_for(lambda: not cluster.jobs())
    for folder in folders.values():
        shutil.rmtree(folder)


def as_user(cluster, name, *words):
    """A command of Slurm's by a user: its exit status and what it says."""
    user = pwd.getpwnam(name)
    ids = (f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups")
    done = subprocess.run(
        [*cluster.inside(), program("setpriv"), *ids, program(words[0]), *map(str, words[1:])],
        env={"PATH": os.environ["PATH"], "SLURM_CONF": str(cluster.folder / "slurm.conf")},
        check=False,
        capture_output=True,
        text=True,
        cwd="/",
    )
    return done.returncode, f"{done.stdout}{done.stderr}".strip()


def submitted(cluster, name, spool, script, *options):
    path = spool / "script"
    path.write_text(script)
    path.chmod(0o644)
    words = ("--parsable", "--output=/dev/null", f"--chdir={spool}", *options)
    code, output = as_user(cluster, name, "sbatch", *words, f"--nodelist={cluster.nodes[0]}", path)
    assert code == 0, output
    return output


def victim(cluster, spool):
    number = submitted(cluster, OWNER, spool, VICTIM.format(folder=spool))
    cluster.wait_for(lambda: (spool / "pid").exists() and (spool / "pid").read_text())
    return number, int((spool / "pid").read_text())


def attacked(cluster, name, spool, target, pid):
    """What a job of a user could do to a job of OWNER on the same node."""
    out = spool / "out"
    words = {"python": "/usr/bin/python3", "folder": str(target), "out": str(out), "pid": pid}
    submitted(cluster, name, spool, ATTACKER.format(**words))
    cluster.wait_for(out.exists)
    return json.loads(out.read_text())


def test_a_server_a_project_keeps_their_jobs_apart(cluster, spools):
    number, pid = victim(cluster, spools[OWNER])
    attacks = attacked(cluster, OTHER, spools[OTHER], spools[OWNER], pid)
    assert attacks == {
        "reads its files": False,
        "writes its files": False,
        "signals it": False,
        "reads its variables": False,
        "sees its command": True,
    }
    for words in (
        ("scancel", number),
        ("scontrol", "hold", number),
        ("scontrol", "write", "batch_script", number, "-"),
        ("srun", f"--jobid={number}", "--overlap", "true"),
    ):
        code, output = as_user(cluster, OTHER, *words)
        assert code != 0 or "failed" in output, (words, output)
    assert number in as_user(cluster, OTHER, "squeue", "-h", "-o", "%A")[1].split()
    assert cluster.run("squeue", "-h", "-j", number, "-o", "%T").strip() == "RUNNING"


def test_jobs_of_one_server_reach_each_other(cluster, spools):
    _, pid = victim(cluster, spools[OWNER])
    assert set(attacked(cluster, OWNER, spools[OWNER], spools[OWNER], pid).values()) == {True}


@pytest.mark.usefixtures("spools")
def test_only_root_submits_as_another_user(cluster):
    code, output = as_user(cluster, OWNER, "sbatch", f"--uid={OTHER}", "--wrap", "true")
    assert code != 0
    assert "only permitted by root" in output
