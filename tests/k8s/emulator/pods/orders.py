"""What a container's start needs, from the pod's manifest and the image; pure."""

from k8s.emulator.controllers.objects import parse_quantity
from k8s.emulator.pods.environment import build_argv, expand
from k8s.emulator.pods.hosts import host_name_of
from k8s.emulator.pods.images import DEFAULT_PATH
from k8s.emulator.pods.pod_run import ContainerOrder, VolumeMount


def compose_order(pod, container, image, values):
    """``values`` are the variables of the manifest; the image's own stand before them."""
    env = {"PATH": DEFAULT_PATH, **image.env, "HOSTNAME": host_name_of(pod), **values}
    user, group, groups = identity_of(pod, container, image)
    security = container.get("securityContext") or {}
    limits = (container.get("resources") or {}).get("limits") or {}
    return ContainerOrder(
        name=container["name"],
        image=image,
        argv=build_argv(container, image, values),
        env=env,
        working_dir=container.get("workingDir") or image.working_dir or "/",
        user=user,
        group=group,
        groups=groups,
        mounts=[_mount(row, values) for row in container.get("volumeMounts") or ()],
        memory_bytes=int(parse_quantity(limits["memory"])) if "memory" in limits else None,
        dropped=(security.get("capabilities") or {}).get("drop") or (),
        can_gain=security.get("allowPrivilegeEscalation", True),
        is_root_read_only=security.get("readOnlyRootFilesystem", False),
    )


def identity_of(pod, container, image):
    """User, group and further groups: the container's, the pod's, or the image's."""
    own = {
        **(pod["spec"].get("securityContext") or {}),
        **(container.get("securityContext") or {}),
    }
    image_user, _, image_group = image.user.partition(":")
    user = own.get("runAsUser", int(image_user or 0))
    group = own.get("runAsGroup", int(image_group or 0))
    groups = list(own.get("supplementalGroups") or ())
    if "fsGroup" in own:
        groups.append(own["fsGroup"])
    return user, group, groups


def _mount(row, values):
    sub_path = row.get("subPath") or expand(row.get("subPathExpr", ""), values)
    return VolumeMount(row["name"], row["mountPath"], sub_path, row.get("readOnly", False))
