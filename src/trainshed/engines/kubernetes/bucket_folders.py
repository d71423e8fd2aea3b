"""The buckets of the server as folders of the claim, which pods mount.

Pods run images of any user.  All have the server's group in addition to their own groups, and a
bucket and its new files belong to this group.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from trainshed.engines.bucket_groups import share_bucket
from trainshed.engines.kubernetes import mounts
from trainshed.model.faults import EngineFault
from trainshed.model.launch_plan import LaunchPlan

#: The mode of the folder of all buckets: kubelets must pass it to mount a bucket.
_PASSABLE: Final = 0o711


def link_buckets(server_folder: Path, claim_folder: Path) -> None:
    """Make the server's folder of all buckets a link to that of the claim, if it has no bucket.

    A folder with buckets stays as it is; ``share_buckets`` refuses its buckets.  Raises OSError.
    """
    if not claim_folder.is_dir():
        claim_folder.mkdir(parents=True)
        claim_folder.chmod(_PASSABLE)
    if server_folder.is_symlink():
        return
    if server_folder.is_dir():
        if any(server_folder.iterdir()):
            return
        server_folder.rmdir()
    server_folder.parent.mkdir(parents=True, exist_ok=True)
    server_folder.symlink_to(claim_folder)


def list_buckets(plan: LaunchPlan) -> tuple[str, ...]:
    """List the buckets that the plan mounts below ``mounts.BUCKETS``."""
    prefix = f"{mounts.BUCKETS}/"
    targets = (target for _, target in plan.binds if target.startswith(prefix))
    return tuple(dict.fromkeys(target.removeprefix(prefix) for target in targets))


def share_buckets(names: Iterable[str], server_folder: Path, claim_folder: Path) -> None:
    """Give the server's group access to buckets.

    Raises EngineFault for a bucket that is no folder of the claim, OSError.
    """
    for name in names:
        if os.path.realpath(server_folder / name) != os.path.realpath(claim_folder / name):
            raise EngineFault(
                f"pods cannot mount the bucket {name}: it is in {server_folder}, and pods mount "
                f"folders of {claim_folder}; stop the server, move the content of {server_folder} "
                f"to {claim_folder}, and let {server_folder} be a link to {claim_folder}"
            )
        share_bucket(str(claim_folder / name), os.getegid())
