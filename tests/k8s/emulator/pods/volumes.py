"""Volumes of pods as folders of this machine, and the folders behind claims."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from k8s.emulator.controllers.objects import parse_quantity
from k8s.emulator.pods.environment import decode_data
from k8s.emulator.pods.pod_run import VolumeRefused

SUB_PATH_MODE = 0o750
SHM_BYTES = 64 * 1024 * 1024
SECRET_MODE = 0o644


@dataclass(frozen=True, slots=True)
class ClaimFolder:
    folder: Path
    is_noexec: bool = False
    is_read_only: bool = False


class ClaimFolders:
    """The folder behind each persistent volume claim, by namespace and name."""

    def __init__(self):
        self._rows = {}

    def add(self, namespace, name, folder, *, is_noexec=False):
        self._rows[namespace, name] = ClaimFolder(folder, is_noexec)

    def find(self, namespace, name):
        try:
            return self._rows[namespace, name]
        except KeyError:
            raise VolumeRefused(f'persistentvolumeclaim "{name}" not found') from None


@dataclass(frozen=True, slots=True)
class PodVolume:
    """A volume of one pod; ``tmpfs`` are mount options where the pod's sandbox mounts one."""

    source: Path
    tmpfs: str = ""
    files: tuple = ()
    """Files that the sandbox writes: rows of path, text and mode."""
    is_read_only: bool = False
    is_noexec: bool = False


def plan_volumes(pod, folder, claims, read):
    """The volumes of a pod under a folder of its own; VolumeRefused where one cannot be had."""
    volumes = {}
    for row in pod["spec"].get("volumes") or ():
        source = folder / "volumes" / row["name"]
        volumes[row["name"]] = _plan_volume(pod, row, source, claims, read)
    return volumes


def find_source(volume, mount, container):
    """The folder or file behind a mount; the kubelet makes a sub-path that is absent."""
    if not mount.sub_path:
        return volume.source
    source = volume.source / mount.sub_path
    try:
        _make_folders(volume.source, mount.sub_path)
    except OSError as error:
        words = f'failed to prepare subPath for volumeMount "{mount.volume}"'
        raise VolumeRefused(f'{words} of container "{container}": {error.strerror}') from error
    return source


def _make_folders(root, sub_path):
    folder = root
    for part in Path(sub_path).parts:
        folder /= part
        with suppress(FileExistsError):
            folder.mkdir(SUB_PATH_MODE)


def _plan_volume(pod, row, source, claims, read):
    if claim := row.get("persistentVolumeClaim"):
        place = claims.find(pod["metadata"]["namespace"], claim["claimName"])
        is_read_only = claim.get("readOnly", False) or place.is_read_only
        return PodVolume(place.folder, is_read_only=is_read_only, is_noexec=place.is_noexec)
    if "emptyDir" in row:
        return PodVolume(source, _tmpfs_options(row["emptyDir"] or {}))
    for field, kind, key in (
        ("secret", "Secret", "secretName"),
        ("configMap", "ConfigMap", "name"),
    ):
        if wanted := row.get(field):
            obj = read(kind, wanted[key])
            if obj is None and not wanted.get("optional"):
                words = f'MountVolume.SetUp failed for volume "{row["name"]}"'
                raise VolumeRefused(f'{words} : {kind.lower()} "{wanted[key]}" not found')
            group = (pod["spec"].get("securityContext") or {}).get("fsGroup", -1)
            files = _plan_files(obj, wanted, source, group) if obj else ()
            return PodVolume(source, "mode=0755", files, is_read_only=True)
    kinds = ", ".join(sorted(set(row) - {"name"}))
    raise VolumeRefused(f'the emulator has no volumes of kind "{kinds}"')


def _tmpfs_options(source):
    """Options of a volume in memory; a volume on disk has none."""
    if source.get("medium") != "Memory":
        return ""
    limit = source.get("sizeLimit")
    return f"mode=1777,size={int(parse_quantity(limit))}" if limit else "mode=1777"


def _plan_files(obj, wanted, source, group):
    data, mode = decode_data(obj), wanted.get("defaultMode", SECRET_MODE)
    items = wanted.get("items") or [{"key": key, "path": key} for key in data]
    return tuple(
        {
            "path": str(source / row["path"]),
            "text": data[row["key"]],
            "mode": row.get("mode", mode),
            "group": group,
        }
        for row in items
    )
