"""Runs gcloud commands in one process of the SDK's own Python (docs/sources/gcloud.md 11).

Started by the fixture ``gcloud`` with the bundled interpreter.  Reads one JSON object a line,
``{"argv": [...], "env": {...}, "cwd": "..."}``, and answers with ``{"code", "stdout", "stderr"}``.
Nothing of Trainshed is imported here.
"""

import io
import json
import os
import sys
import traceback
from pathlib import Path

LIB = Path(sys.argv[1]) / "lib"
sys.path[:0] = [str(LIB), str(LIB / "third_party")]

from googlecloudsdk import gcloud_main  # noqa: E402  # the paths come first
from googlecloudsdk.core import log, properties  # noqa: E402  # the same
from googlecloudsdk.core.credentials import store  # noqa: E402  # the same


def main():
    answers = sys.stdout
    cli = gcloud_main.CreateCLI([])
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(_run(cli, json.loads(line))), file=answers, flush=True)


def _run(cli, request):
    out, err = io.StringIO(), io.StringIO()
    before = dict(os.environ)
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    sys.stdout, sys.stderr = out, err
    log.Reset(out, err)
    properties.VALUES.core.interactive_ux_style.Set("OFF")
    code = 0
    try:
        cli.Execute(request["argv"])
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else int(bool(leaving.code))
    except BaseException:  # noqa: BLE001  # gcloud's crash, which a user would see
        traceback.print_exc(file=err)
        code = 70
    finally:
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
        os.environ.clear()
        os.environ.update(before)
    return {"code": code, "stdout": out.getvalue(), "stderr": err.getvalue()}


assert store  # imported early: its first import costs a second
main()
