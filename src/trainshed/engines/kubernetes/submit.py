"""Submits an attempt to the cluster exactly once, even if the server is killed in between.

``kubernetes.json`` in the attempt's folder is written before the first object is created, and again
with the JobSet's uid after the last step.  A server that reads the record without a uid first reads
the JobSet by its name, and continues after the last step of the earlier server.  The API accepts a
name only once.  So an answer that refuses a JobSet proves that no JobSet of the attempt exists.
"""

import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NoReturn

from trainshed.engines.base import LaunchRefused
from trainshed.engines.kubernetes import (
    attempt_files,
    bucket_folders,
    manifest,
    mounts,
    names,
    paths,
)
from trainshed.engines.kubernetes.api.client import Client
from trainshed.engines.kubernetes.api.errors import ApiAway, ApiRefused
from trainshed.engines.kubernetes.attempt import KubernetesAttempt
from trainshed.engines.kubernetes.attempt_files import ReplicaTask, SubmissionRecord
from trainshed.engines.kubernetes.deletions import delete_jobset, try_to_delete_secret
from trainshed.engines.kubernetes.gpus import GpuRow
from trainshed.engines.kubernetes.images import ContainerStarts
from trainshed.engines.kubernetes.options import KubernetesOptions, choose_scheduling
from trainshed.engines.kubernetes.read_back import list_missing_fields
from trainshed.engines.kubernetes.request import (
    LAUNCHER_PORT,
    ManifestRequest,
    PodRuntime,
    choose_deadline_s,
    list_roles,
)
from trainshed.engines.kubernetes.state import objects
from trainshed.engines.kubernetes.state.refusals import judge_refusal
from trainshed.engines.processes.secret import new_secret
from trainshed.engines.spool import Spool, is_claimed, take_claim
from trainshed.engines.supervise.record import sent
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.engines.supervise.record.job_file import write_job_file
from trainshed.engines.supervise.record.spec import AttemptSpec, HangRule, LogRule
from trainshed.engines.warden import compose
from trainshed.model.attempt import AttemptKey
from trainshed.model.codec import encode
from trainshed.model.explanation import Explanation, Reason
from trainshed.model.faults import EngineFault, UsageFault
from trainshed.model.launch_plan import ContainerPlan, LaunchPlan, ReplicaPlan
from trainshed.model.resources import Claim

_LOG = logging.getLogger(__name__)

_MANIFEST: Final = "jobset.json"
_CONFLICT, _FORBIDDEN, _NOT_FOUND = 409, 403, 404
#: Statuses with which the API refuses a manifest for ever.
_REFUSALS: Final = frozenset({400, 413, 422})
_SUSPEND: Final = "suspend"
_QUOTA: Final = "exceeded quota"
#: Seconds between the deadline of a launcher and the limit of the running time.
_SPARE_S: Final = 240.0
_FIELDS_NAMED_MAX: Final = 5
_STRICT: Final = {"fieldValidation": "Strict"}


class ClusterSubmitter:
    """Submits the attempts of one engine."""

    def __init__(  # noqa: PLR0913 - keyword arguments of one caller
        self,
        options: KubernetesOptions,
        spool_: Spool,
        *,
        client: Client,
        namespace: str,
        installation: str,
        name: str,
        starts: ContainerStarts,
        runtime: PodRuntime,
        list_gpus: Callable[[], Mapping[str, GpuRow]],
        server_buckets: Path,
    ) -> None:
        """``list_gpus`` returns the rows of GPUs of the settings and of the cluster's nodes.

        ``server_buckets`` is the folder of all buckets by the path that the server uses.
        """
        self._options = options
        self._spool = spool_
        self._client = client
        self._namespace = namespace
        self._installation = installation
        self._name = name
        self._starts = starts
        self._runtime = runtime
        self._list_gpus = list_gpus
        self._server_buckets = server_buckets
        self._claim_buckets = Path(options.spool) / mounts.buckets_path(installation, options)

    def manifest(self, key: AttemptKey, plan: LaunchPlan, claim: Claim) -> Mapping[str, str]:
        """Compose the plan and the JobSet of a submission, without secrets.

        May ask registries for the entry points of images.  Raises EngineFault.
        """
        plan = self._complete(plan)
        jobset = manifest.compose_jobset(self._compose_request(key, plan, claim))
        return {
            sent.PLAN: json.dumps(encode(self._compose_spec(key, plan, claim)), indent=2),
            **_compose_sent_files(jobset),
        }

    def launch(self, attempt: KubernetesAttempt, plan: LaunchPlan, claim: Claim) -> None:
        """Submit an attempt, unless it was submitted before or has an order to stop.

        Raises EngineFault for an attempt that the cluster will never accept, LaunchRefused for one
        that it does not accept now, and OSError if the API does not answer.
        """
        self._spool.check(attempt.key)
        attempt.submitted = earlier = attempt_files.read_submission(attempt.folder)
        if earlier is not None and earlier.uid:
            return
        if attempt.folder.stop_order() is not None or attempt.final is not None:
            return
        plan = self._complete(plan)
        request = self._compose_request(attempt.key, plan, claim)
        jobset = manifest.compose_jobset(request)
        if earlier is None:
            self._prepare(attempt, plan, claim, jobset)
            answer = None
        else:
            answer = self._find_own(attempt.key, jobset["metadata"]["name"])
        if answer is None:
            answer = self._create(request, jobset)
        self._accept(attempt, jobset, answer)

    def read_sent(self, key: AttemptKey) -> Mapping[str, str]:
        """Read the texts that were sent for an attempt.  Raises OSError."""
        try:
            self._spool.check(key)
        except EngineFault as fault:
            raise OSError(str(fault)) from fault
        return sent.sent(self._spool.folder(key))

    def _prepare(
        self, attempt: KubernetesAttempt, plan: LaunchPlan, claim: Claim, jobset: Mapping[str, Any]
    ) -> None:
        """Write the attempt's folder, and the record of the submission last."""
        if is_claimed(attempt.folder):
            path = f"{attempt.folder.path}/claim"
            raise EngineFault(f"cannot start the attempt: {path} exists already; remove this file")
        buckets = bucket_folders.list_buckets(plan)
        bucket_folders.share_buckets(buckets, self._server_buckets, self._claim_buckets)
        self._spool.make(attempt.key)
        compose.write(attempt.folder, self._compose_spec(attempt.key, plan, claim))
        write_job_file(attempt.folder, attempt.key, plan)
        sent.save(attempt.folder, _compose_sent_files(jobset))
        name, tasks = jobset["metadata"]["name"], _list_tasks(plan)
        self._keep(attempt, SubmissionRecord(time.time(), name, tasks=tasks))

    def _create(self, request: ManifestRequest, jobset: Mapping[str, Any]) -> Mapping[str, Any]:
        """Create the Secret and the JobSet; return the JobSet as the API answered."""
        self._create_secret(request)
        try:
            return self._client.post(paths.jobsets(self._namespace), jobset, _STRICT)
        except ApiRefused as refusal:
            name = jobset["metadata"]["name"]
            if refusal.status != _CONFLICT:
                self._refuse(name, "JobSet", refusal)
            try:
                existing = self._find_own(request.key, name)
            except EngineFault:
                try_to_delete_secret(self._client, self._namespace, name)
                raise
            if existing is None:
                raise ApiAway(f"the JobSet {name} was deleted by others just now") from refusal
            return existing

    def _accept(
        self, attempt: KubernetesAttempt, jobset: Mapping[str, Any], answer: Mapping[str, Any]
    ) -> None:
        """Check the JobSet that the API has, give it the Secret, and store its uid last."""
        if attempt.submitted is None:
            raise AssertionError(f"the attempt {attempt.key} has no record of its submission")
        self._check_answer(attempt.folder, jobset, answer)
        self._adopt_secret(answer)
        self._keep(attempt, attempt.submitted._replace(uid=answer["metadata"]["uid"]))

    def _keep(self, attempt: KubernetesAttempt, submission: SubmissionRecord) -> None:
        attempt_files.keep_submission(attempt.folder, submission)
        attempt.submitted = submission

    def _create_secret(self, request: ManifestRequest) -> None:
        """Create the Secret; one of an earlier try stays: pods and launcher read the same."""
        secret = manifest.compose_secret(request, new_secret())
        try:
            self._client.post(paths.secrets(self._namespace), secret, _STRICT)
        except ApiRefused as refusal:
            if refusal.status != _CONFLICT:
                self._refuse(secret["metadata"]["name"], "Secret", refusal)

    def _refuse(self, name: str, kind: str, refusal: ApiRefused) -> NoReturn:
        """Delete the Secret, which no JobSet will own, and raise the error for a refused object."""
        error = _explain(refusal, kind)
        if not isinstance(error, ApiAway):
            try_to_delete_secret(self._client, self._namespace, name)
        raise error from refusal

    def _find_own(self, key: AttemptKey, name: str) -> Mapping[str, Any] | None:
        """Return the JobSet that has the name, if it is that of the attempt; None: there is none.

        Raises EngineFault if it is another one's, or is being deleted.
        """
        try:
            jobset = self._client.get(paths.jobset(self._namespace, name))
        except ApiRefused as refusal:
            if objects.proves_absence(refusal.status, refusal.reason, refusal.details, name):
                return None
            raise ApiAway(f"the cluster does not show the JobSet {name}: {refusal}") from refusal
        metadata = jobset["metadata"]
        if names.key_of(metadata.get("labels") or {}, self._installation) != key:
            raise EngineFault(
                f"cannot start the attempt {key}: the namespace {self._namespace} has a JobSet "
                f"{name} that is not of this server; rename or delete that JobSet"
            )
        if metadata.get("deletionTimestamp"):
            raise EngineFault(f"cannot start the attempt {key}: its JobSet {name} is being deleted")
        return jobset

    def _check_answer(
        self, folder: AttemptFolder, jobset: Mapping[str, Any], answer: Mapping[str, Any]
    ) -> None:
        """Take the JobSet back if the API has dropped or changed a field of it.

        Whether it is suspended is not compared: Kueue may have admitted a JobSet that an earlier
        server has created.
        """
        spec = {name: value for name, value in jobset["spec"].items() if name != _SUSPEND}
        missing = list_missing_fields({"metadata": jobset["metadata"], "spec": spec}, answer)
        if not missing:
            return
        take_claim(folder)
        name, uid = answer["metadata"]["name"], answer["metadata"]["uid"]
        delete_jobset(self._client, self._namespace, name, uid)
        try_to_delete_secret(self._client, self._namespace, name)
        texts = "; ".join(row.text for row in missing[:_FIELDS_NAMED_MAX])
        raise EngineFault(
            f"the cluster has changed the JobSet ({texts}); update JobSet on the cluster, or let "
            "its webhooks leave these fields"
        )

    def _adopt_secret(self, jobset: Mapping[str, Any]) -> None:
        """Let the cluster delete the Secret with its JobSet, also if a user deletes the JobSet.

        The JobSet runs: a refusal is logged, and the server deletes the Secret with the JobSet.
        """
        name = jobset["metadata"]["name"]
        path = paths.secret(self._namespace, name)
        try:
            self._client.patch(path, manifest.compose_owner_patch(jobset))
        except ApiRefused as refusal:
            if refusal.status != _NOT_FOUND:  # deleted with a JobSet that is gone already
                _LOG.warning("cannot make the JobSet %s the owner of its Secret: %s", name, refusal)

    def _complete(self, plan: LaunchPlan) -> LaunchPlan:
        """Return the plan with the image and the command of every container."""
        return replace(plan, replicas=tuple(self._complete_replica(row) for row in plan.replicas))

    def _complete_replica(self, replica: ReplicaPlan) -> ReplicaPlan:
        if replica.container is None:
            raise EngineFault(
                f"{replica.task_name} has no image, and a Kubernetes cluster runs images alone; "
                "have the administrator add `run` to an [[image]] table for the runtime version, "
                "or submit the job with an image"
            )
        start = self._starts.find(replica.container)
        container = ContainerPlan(image=start.image, command=start.words, args=())
        return replace(replica, container=container)

    def _compose_request(self, key: AttemptKey, plan: LaunchPlan, claim: Claim) -> ManifestRequest:
        options, runtime = self._options, self._runtime
        try:
            scheduling = choose_scheduling(claim.wants, claim.project, options)
        except UsageFault as fault:
            raise EngineFault(str(fault)) from fault
        return ManifestRequest(
            key=key,
            installation=self._installation,
            roles=list_roles(plan.replicas, claim.demand, _image_of),
            start=runtime.start,
            archive=runtime.archive,
            options=options,
            user=runtime.user,
            group=runtime.group,
            architecture=runtime.architecture,
            scheduling=scheduling,
            job_id=plan.job_id,
            project=claim.project,
            gpus=self._list_gpus(),
            buckets=bucket_folders.list_buckets(plan),
            deadline_s=choose_deadline_s(claim.running_s_max, options),
        )

    def _compose_spec(self, key: AttemptKey, plan: LaunchPlan, claim: Claim) -> AttemptSpec:
        options, limit = self._options, claim.running_s_max
        return compose.spec_of(
            plan,
            key,
            AttemptFolder(mounts.ATTEMPT),
            port=LAUNCHER_PORT,
            has_shared_folder=False,
            drops=(),
            keeps=("*",),
            grace_s=options.grace_s,
            usage_s=options.usage_s,
            hang=HangRule(after_s=options.hang_s, stacks=options.hang_stacks),
            log=LogRule(options.log_bytes_per_s_max, options.log_bytes_max),
            ends_s=None if limit is None else limit + options.grace_s + _SPARE_S,
            start_timeout_s=options.start_timeout_s,
            package_bytes_max=options.package_bytes_max,
            relax_pins=options.relax_pins,
        )


def _compose_sent_files(jobset: Mapping[str, Any]) -> dict[str, str]:
    return {_MANIFEST: json.dumps(jobset, indent=2)}


def _image_of(replica: ReplicaPlan) -> str:
    if replica.container is None:
        raise AssertionError(f"{replica.task_name} has no image")
    return replica.container.image


def _list_tasks(plan: LaunchPlan) -> tuple[ReplicaTask, ...]:
    return tuple(
        ReplicaTask(names.JOB_NAMES[row.role], row.index, row.task_name) for row in plan.replicas
    )


def _explain(refusal: ApiRefused, kind: str) -> Exception:
    """Return the error for a refused object: for ever, for now, or as if the API were away."""
    meaning = judge_refusal(refusal.message)
    text = f"the cluster refuses the {kind}: {meaning.text}"
    if refusal.is_transient:
        return ApiAway(text)  # an API with an error may have stored the object
    if refusal.status in _REFUSALS or (refusal.status == _FORBIDDEN and not meaning.heals):
        return EngineFault(f"cannot start the attempt: {text}")
    if refusal.status == _FORBIDDEN and _QUOTA in refusal.message:
        return LaunchRefused(Explanation(reason=Reason.ENGINE_FULL, message=text))
    return LaunchRefused(Explanation(reason=Reason.NOT_STARTING, message=text))
