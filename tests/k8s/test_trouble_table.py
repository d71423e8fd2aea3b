"""Bad input and trouble of a cluster: for every row of the table, what is said, and how soon.

Each class is one row.  The engine is a real one on an emulated API with all controllers; containers
run nothing.  Times are not asserted: every step waits for the words with a deadline.
"""

from dataclasses import replace
from functools import partial

import pytest

from k8s.emulator.admission import Webhook
from k8s.emulator.faults import FOREVER, TOO_MANY
from k8s.emulator.pods.pod_run import StartRefused
from k8s.idle_cluster import running_idle_cluster
from k8s.live_cluster import MACHINE
from k8s.permitted import TOKEN, USER, permitting
from k8s.queues import create_queue
from k8s.world import KubernetesWorld, connect_to
from trainshed.engines.base import JobNeeds
from trainshed.engines.kubernetes import (
    attempt_files,
    factory,
    options,
    paths,
    repeated_check,
    watched_cluster,
)
from trainshed.engines.kubernetes.permissions import PERMISSIONS
from trainshed.engines.kubernetes.runtime import Bundle
from trainshed.engines.kubernetes.watched_cluster import WatchedCluster
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.model.attempt import Loss, Phase
from trainshed.model.explanation import Reason
from trainshed.model.faults import EngineFault
from trainshed.model.resources import Demand, GroupDemand, JobDemand
from trainshed.model.roles import Role
from trainshed.testing.engine_steps import (
    FINAL,
    claim_of,
    eventually,
    launch,
    new_key,
    order,
    until,
)
from trainshed.testing.engine_world import WAITS

SPACE = "default"
JOBSET, KUEUE = paths.JOBSET, paths.KUEUE
POD = {"restartPolicy": "Never", "containers": [{"name": "main", "image": MACHINE}]}
NEEDED = [row for row in PERMISSIONS if row.is_needed]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with running_idle_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module", autouse=True)
def _no_waits():
    """Containers run nothing here, so they need no interpreter; and checks come sooner."""
    with pytest.MonkeyPatch.context() as patch:
        bundle = Bundle("runtime-0", {"ld.so": b""})
        patch.setattr(factory.runtime, "bundle", lambda _archive: bundle)
        patch.setattr(repeated_check, "_TROUBLE_S", 0.2)
        patch.setattr(repeated_check, "_LOOK_S", 0.1)
        patch.setattr(watched_cluster, "_DENIED_S", 0.2)
        yield


@pytest.fixture
def world(cluster, tmp_path):
    world = KubernetesWorld(cluster, tmp_path)
    yield world
    world.close()


@pytest.fixture
def permit(cluster):
    """Gives the account of the server exactly the rules of some permissions."""
    with permitting(cluster) as give:
        yield give


@pytest.fixture
def watched(cluster, permit):
    """Clusters as the server watches them, by their settings."""
    permit(*PERMISSIONS)
    opened = []
    if not cluster.is_there("PersistentVolumeClaim", "table"):
        cluster.add_claim("table")

    def watch(namespace=SPACE, **settings):
        values = {"spool": "/srv", "claim": "table", **settings}
        watched = WatchedCluster(
            connect_to(cluster.api, TOKEN), options.read(values), namespace, "abc"
        )
        opened.append(watched)
        watched.start()
        return watched

    yield watch
    for watched in opened:
        watched.close()


def words_of(watched, *words):
    """The health once it has these words."""

    def look():
        why = watched.health()
        return why if why and all(word in why.message for word in words) else None

    return eventually(look, f"the health says {words}")


def heals(watched):
    eventually(lambda: watched.is_synced and watched.health() is None, "the cluster heals")


def waits_with(engine, key, *words, reason=None):
    """What an attempt waits for, once its reason has these words."""

    def look():
        (observation,) = engine.observe([key])
        assert observation.phase not in FINAL, observation
        why = observation.waits
        is_it = why and all(word in why.message for word in words)
        return why if is_it and reason in (None, why.reason) else None

    return eventually(look, f"{key} waits: {words}")


def ended(engine, key):
    return until(engine, key, Phase.ENDED, Phase.LOST)


@pytest.fixture
def refuse(cluster):
    """Lets pulls of the tests' image fail for a reason, until the end of a test."""
    image = cluster.images.find(MACHINE)
    yield partial(cluster.images.refuse, MACHINE)
    cluster.images.add(MACHINE, image)


@pytest.fixture
def removed(cluster):
    """Objects that go at the end of a test."""
    rows = []

    def create(kind, name, spec=None, *, namespace=SPACE, version="v1", **more):
        meta = {"name": name, **({"namespace": namespace} if namespace else {})}
        body = {"apiVersion": version, "kind": kind, "metadata": meta, **more}
        cluster.store.create({**body, "spec": spec} if spec else body)
        rows.append((kind, namespace, name))

    yield create
    for row in rows:
        cluster.store.delete(*row)


@pytest.fixture
def webhooks(cluster):
    """The webhooks of the cluster; a test may add some."""
    rows = cluster.api.admission.webhooks
    before = list(rows)
    yield rows
    rows[:] = before


class TestNoJobSetTooOldNoPermission:
    """Health names the kind, the version or the Role line."""

    @pytest.fixture(autouse=True)
    def _restored(self, cluster):
        yield
        cluster.api.server.discovery.hidden.clear()
        cluster.api.server.discovery.other_versions.clear()

    def test_a_cluster_without_jobset_is_told_from_one_that_is_away(self, cluster, watched):
        cluster.api.server.discovery.hidden.add(JOBSET)
        watch = watched()
        why = words_of(watch, "does not serve the kind JobSet (jobset.x-k8s.io)", "install JobSet")
        assert why.reason is Reason.ENGINE_AWAY
        assert why.message.startswith("the cluster cannot run jobs since 20")
        cluster.api.server.discovery.hidden.clear()
        heals(watch)

    def test_a_jobset_of_another_version_is_named(self, cluster, watched):
        cluster.api.server.discovery.other_versions[JOBSET] = ("v1alpha1",)
        words_of(watched(), "in the version v1alpha1", "needs jobset.x-k8s.io/v1alpha2")

    def test_a_jobset_without_a_field_is_named_by_health_and_by_a_job(
        self, world, watched, webhooks
    ):
        """The API server prunes nothing silently: requests ask for strict validation."""
        text = 'strict decoding error: unknown field "spec.network.publishNotReadyAddresses"'
        webhooks.append(Webhook("w", lambda *_: text, ("JobSet",)))
        words_of(watched(), "is too old", "the field spec.network.publishNotReadyAddresses")
        with pytest.raises(EngineFault, match=r"publishNotReadyAddresses.*update JobSet"):
            launch(world, world.engine(), new_key(), WAITS)

    @pytest.mark.parametrize(
        ("row", "verb"), [(row, verb) for row in NEEDED for verb in row.verbs], ids=str
    )
    def test_a_missing_verb_is_named_as_the_line_that_the_role_lacks(
        self, watched, permit, row, verb
    ):
        others = [other for other in PERMISSIONS if other is not row]
        permit(*others, replace(row, verbs=tuple(name for name in row.verbs if name != verb)))
        rule = row.describe_rule([verb])
        words_of(watched(), f"the Role of the namespace {SPACE} lacks the rule {rule}")

    def test_optional_permissions_are_no_trouble(self, watched, permit):
        permit(*NEEDED)
        watch = watched(queue="no-such-queue")
        eventually(lambda: watch.is_synced and watch.facts is not None, "the check is done")
        assert watch.health() is None
        assert watch.nodes is None

    def test_a_permission_that_is_taken_later_is_named_too(self, cluster, watched, permit):
        watch = watched()
        heals(watch)
        permit(*[row for row in PERMISSIONS if row.resource != "pods"])
        cluster.api.server.end_watches()
        cluster.api.server.expire_watches()
        words_of(watch, '["pods"], verbs: ["list", "watch"]')
        permit(*PERMISSIONS)
        heals(watch)


class TestNamespaceQueuePullSecretClaimGpuRow:
    """The start, the submission or the probe names what does not exist."""

    def test_a_namespace(self, cluster):
        client = connect_to(cluster.api)
        settings = options.read({"spool": "/srv", "claim": "table"})
        watch = WatchedCluster(client, settings, "nowhere", "abc")
        watch.start()
        try:
            words_of(watch, "the cluster has no namespace nowhere", "correct `namespace`")
        finally:
            watch.close()

    def test_a_claim(self, cluster, watched):
        watch = watched(claim="absent")
        words_of(watch, f"the namespace {SPACE} has no PersistentVolumeClaim absent")
        cluster.add_claim("absent")
        heals(watch)

    def test_a_claim_that_has_lost_its_volume(self, cluster, watched):
        cluster.add_claim("broken")
        claim = cluster.store.get("PersistentVolumeClaim", SPACE, "broken")
        cluster.store.update({**claim, "status": {"phase": "Lost"}}, subresource="status")
        words_of(watched(claim="broken"), "broken has lost its volume")

    def test_a_queue_of_the_settings_refuses_the_jobs_that_use_it(self, world, cluster):
        engine = world.open(queue={"risky": "late", "*": ""})
        demand = JobDemand(region=None, groups=())
        needs = JobNeeds(demand=demand, project="risky")
        why = eventually(lambda: engine.judge(needs), "the job is refused")
        assert why.reason is Reason.NO_SUCH_NODE
        assert "has no LocalQueue late; create it, or correct `queue`" in why.message
        assert engine.judge(replace(needs, project="other")) is None
        assert engine.health() is None
        create_queue(cluster, "late")
        eventually(lambda: engine.judge(needs) is None, "the job is accepted")

    def test_a_gpu_type_without_a_row_is_refused_at_submit(self, world):
        engine = world.open(gpus={"NVIDIA_L4": {}})
        replica = Demand(vcpus=1, gpu_type="NVIDIA_TESLA_T4", gpu_count=1)
        groups = (GroupDemand(role=Role.PRIMARY, count=1, each=replica),)
        why = engine.judge(JobNeeds(demand=JobDemand(region=None, groups=groups)))
        assert "the cluster has no NVIDIA_TESLA_T4; its GPUs are: NVIDIA_L4" in why.message
        assert why.change.accepted == "NVIDIA_L4"

    def test_a_pull_secret_that_is_not_there_is_named_by_the_job(self, world, refuse):
        engine, key = world.open(image_pull_secrets=["absent"]), new_key()
        refuse("pull access denied")
        launch(world, engine, key, WAITS)
        words = ("pull access denied", "has no image pull secret absent: create it")
        waits_with(engine, key, *words, reason=Reason.IMAGE)


class TestRefusedPods:
    """NOT_STARTING with the API's sentence; FAILED at once where it cannot heal."""

    def test_a_webhook_that_is_down_is_waited_for(self, world, webhooks):
        engine, key = world.engine(), new_key()
        text = 'failed calling webhook "m.example.com": connection refused'
        webhooks.append(Webhook("w", lambda *_: text, ("Pod",)))
        launch(world, engine, key, WAITS)
        why = waits_with(engine, key, text, reason=Reason.NOT_STARTING)
        assert "the cluster creates no pods for the primary" in why.message
        webhooks.pop()
        eventually(lambda: engine.observe([key])[0].waits is None, "the pod is created")

    @pytest.mark.parametrize(
        ("sentence", "advice"),
        [
            ("no root here", "a policy of the cluster refuses such pods"),
            ('violates PodSecurity "restricted:latest": runAsNonRoot', "set the security context"),
        ],
    )
    def test_a_policy_fails_the_job_at_once(self, world, webhooks, sentence, advice):
        engine, key = world.engine(), new_key()
        webhooks.append(Webhook("policy.example.com", lambda *_: sentence, ("Pod",)))
        launch(world, engine, key, WAITS)
        end = ended(engine, key)
        assert (end.phase, end.loss) == (Phase.ENDED, None)
        assert sentence in end.fault
        assert advice in end.fault

    def test_a_limit_range_fails_the_job_at_once(self, world, removed):
        limit = {"type": "Container", "max": {"cpu": "100m"}}
        removed("LimitRange", "small", {"limits": [limit]})
        engine, key = world.engine(), new_key()
        launch(world, engine, key, WAITS)
        end = ended(engine, key)
        assert "maximum cpu usage per Container is 100m" in end.fault
        assert "choose another machine type" in end.fault

    def test_a_quota_in_use_is_waited_for_and_a_quota_too_small_is_not(self, world, removed):
        engine, first, second = world.engine(), new_key(), new_key()
        launch(world, engine, first, WAITS)
        eventually(lambda: world.pods_of(first), "the first pod is there")
        removed("ResourceQuota", "q", {"hard": {"pods": "1"}})
        launch(world, engine, second, WAITS)
        waits_with(engine, second, "exceeded quota: q", "free the quota")
        third = new_key()
        removed("ResourceQuota", "none", {"hard": {"pods": "0"}})
        launch(world, engine, third, WAITS)
        assert "exceeded quota: " in ended(engine, third).fault

    def test_a_policy_against_jobsets_fails_the_job_and_leaves_no_secret(
        self, world, cluster, webhooks
    ):
        webhooks.append(Webhook("policy.example.com", lambda *_: "no gangs", ("JobSet",)))
        key = new_key()
        with pytest.raises(EngineFault, match="no gangs; a policy of the cluster refuses"):
            launch(world, world.engine(), key, WAITS)
        cluster.wait_for_removal("Secret", world.name_of(key))

    def test_a_quota_that_has_no_place_for_the_secret_fails_the_job(self, world, removed):
        removed("ResourceQuota", "q", {"hard": {"secrets": "0"}})
        with pytest.raises(EngineFault, match="exceeded quota: q"):
            launch(world, world.engine(), new_key(), WAITS)


class TestImages:
    """IMAGE while it may heal, FAILED after ``image_timeout_s``; no program runs."""

    @pytest.mark.parametrize(
        "registry",
        [
            "docker.io/team/trainer:9: not found",
            "no match for platform in manifest: not found",
            "pull access denied, repository does not exist or may require authorization",
        ],
    )
    def test_an_image_that_may_come_is_waited_for(self, world, refuse, registry):
        engine, key = world.open(image_timeout_s=0.5), new_key()
        refuse(registry)
        launch(world, engine, key, WAITS, WAITS)
        waits_with(engine, key, registry, f"cannot pull the image {MACHINE}", reason=Reason.IMAGE)
        end = ended(engine, key)
        assert (end.phase, end.loss) == (Phase.ENDED, None)
        assert end.fault.endswith("(for 0.5 s)")
        assert registry in end.fault

    def test_an_image_that_comes_in_time_starts_the_replicas(self, world, cluster, refuse):
        engine, key = world.engine(), new_key()
        image = cluster.images.find(MACHINE)
        refuse("connection refused")
        launch(world, engine, key, WAITS)
        waits_with(engine, key, "connection refused", reason=Reason.IMAGE)
        cluster.images.add(MACHINE, image)
        eventually(lambda: engine.observe([key])[0].waits is None, "the image is pulled")

    @pytest.mark.parametrize(
        ("image", "words"),
        [("Team//Trainer:9", "is no name of an image; correct the image of the job")],
    )
    def test_a_bad_name_fails_the_job_at_once(self, world, image, words):
        engine, key = world.engine(), new_key()
        plan = world.plan(key, WAITS)
        container = replace(plan.replicas[0].container, image=image)
        replicas = (replace(plan.replicas[0], container=container),)
        engine.launch(key, replace(plan, replicas=replicas), claim_of(engine.name, plan))
        end = ended(engine, key)
        assert f"{image} {words}" in end.fault

    @pytest.mark.parametrize(
        ("refusal", "advice"),
        [
            ("exec /trainshed/lib/ld.so: exec format error", "another CPU architecture"),
            ("exec: /trainshed/lib/ld.so: permission denied", "not mounted with noexec"),
            ("stat /trainshed/lib/ld.so: no such file or directory", "mounts the same claim"),
        ],
    )
    def test_an_image_or_a_claim_that_cannot_run_the_runtime_fails_at_once(
        self, world, cluster, monkeypatch, refusal, advice
    ):
        def start(*_):
            raise StartRefused(refusal)

        monkeypatch.setattr(cluster.runtime, "start", start)
        engine, key = world.engine(), new_key()
        launch(world, engine, key, WAITS)
        end = ended(engine, key)
        assert refusal in end.fault
        assert advice in end.fault


class TestUnschedulable:
    """Who has no place and why, then ``start_timeout_s`` gives the places back."""

    def test_it_says_how_many_replicas_lack_what_and_gives_up(self, world, cluster):
        settings = {"gpus": {"any": {}}, "start_timeout_s": 1.0, "image_timeout_s": 0.5}
        engine, key = world.open(**settings), new_key()
        plan = world.plan(key, *[WAITS] * 4)
        claim = claim_of(engine.name, plan)
        groups = [replace(g, each=replace(g.each, gpu_count=1)) for g in claim.demand.groups]
        engine.launch(key, plan, replace(claim, demand=replace(claim.demand, groups=tuple(groups))))
        words = "the primary and 3 of 3 workers have no place: 1 node lacks nvidia.com/gpu"
        waits_with(engine, key, words, reason=Reason.CAPACITY)
        end = ended(engine, key)
        assert (end.phase, end.loss) == (Phase.LOST, Loss.MAINTENANCE)
        assert "did not start within 1 s: " in end.fault
        assert words in end.fault
        cluster.wait_for(lambda: not world.pods_of(key), "the places to be given back")


class TestChangedByOthers:
    """Lost, and told; a drain has the budget ``maintenance``; never started twice."""

    def test_a_deleted_jobset(self, world, cluster):
        engine, key = world.engine(), new_key()
        launch(world, engine, key, WAITS)
        eventually(lambda: world.pods_of(key), "its pods")
        cluster.store.delete("JobSet", SPACE, world.name_of(key))
        end = ended(engine, key)
        assert (end.phase, end.loss) == (Phase.LOST, Loss.INFRA)
        assert "another user or program has deleted the JobSet" in end.fault

    def test_a_drain_is_maintenance(self, world):
        engine, key = world.engine(), new_key()
        launch(world, engine, key, WAITS)
        eventually(lambda: world.pods_of(key), "its pods")
        world.evict(key)
        end = ended(engine, key)
        assert (end.phase, end.loss) == (Phase.LOST, Loss.MAINTENANCE), end
        assert "Eviction API: evicting" in end.fault

    def test_a_jobset_that_others_make_again_is_not_taken_for_the_attempt(self, world, cluster):
        engine, key = world.engine(), new_key()
        launch(world, engine, key, WAITS)
        cluster.wait_for(lambda: world.pods_of(key), "its pods")
        name = world.name_of(key)
        again = cluster.store.get("JobSet", SPACE, name)
        cluster.store.delete("JobSet", SPACE, name)
        cluster.wait_for_removal("JobSet", name)
        for field in ("uid", "resourceVersion", "creationTimestamp"):
            again["metadata"].pop(field)
        again.pop("status", None)
        cluster.store.create(again)
        end = ended(engine, key)
        assert (end.phase, end.loss) == (Phase.LOST, Loss.INFRA)
        cluster.wait_for_removal("JobSet", name)
        assert engine.observe([key])[0].phase is Phase.LOST


class TestApiAwayTokensCertificatesBusy:
    """Health says since when; nothing is restarted; it heals.  See also the client's tests."""

    def test_an_api_that_is_away_and_comes_back(self, world, cluster):
        engine, key = world.engine(), new_key()
        launch(world, engine, key, WAITS)
        eventually(lambda: world.pods_of(key), "its pods")
        uid = cluster.store.get("JobSet", SPACE, world.name_of(key))["metadata"]["uid"]
        cluster.api.server.stop()
        try:
            words_of(engine, "the cluster has not listed", "since 20")
            assert engine.observe([key])[0].phase is Phase.UNKNOWN
        finally:
            cluster.api.server.start()
        eventually(lambda: engine.health() is None, "the engine heals")
        until(engine, key, Phase.STARTING)
        assert cluster.store.get("JobSet", SPACE, world.name_of(key))["metadata"]["uid"] == uid

    def test_a_token_that_is_taken_away(self, cluster, watched):
        watch = watched()
        heals(watch)
        cluster.api.access.revoke(TOKEN)
        cluster.api.server.end_watches()
        cluster.api.server.expire_watches()
        words_of(watch, "Unauthorized")
        cluster.api.access.add_user(USER, TOKEN)
        heals(watch)

    def test_an_api_that_is_too_busy(self, cluster, watched):
        cluster.api.faults.order(TOO_MANY, FOREVER, path="/pods", retry_after_s=0)
        watch = watched()
        words_of(watch, "too busy (HTTP 429)")
        cluster.api.faults.clear()
        heals(watch)


class TestPriorityClassesAndKueue:
    """Said by name; a queue of MultiKueue is refused."""

    @pytest.fixture
    def _queues(self, cluster):
        create_queue(cluster, "q")

    def test_a_priority_class(self, world):
        engine, key = world.open(priority_class="gold"), new_key()
        launch(world, engine, key, WAITS)
        why = waits_with(engine, key, "no PriorityClass with name gold was found")
        assert why.reason is Reason.NOT_STARTING
        assert "create it, or correct the [[engine]] table" in why.message

    @pytest.mark.usefixtures("_queues")
    def test_a_workload_priority_class(self, world):
        engine, key = world.open(queue="q", workload_priority_class="gold"), new_key()
        launch(world, engine, key, WAITS)
        why = waits_with(engine, key, "Kueue does not know the priority class gold")
        assert why.reason is Reason.HELD
        engine.stop(key, order(0.0))
        ended(engine, key)

    @pytest.mark.usefixtures("_queues")
    def test_a_server_that_was_killed_finds_its_job_that_has_left_the_queue(self, world):
        engine, key = world.open(queue="q"), new_key()
        launch(world, engine, key, WAITS)
        eventually(lambda: world.pods_of(key), "the queue admits the job")
        folder = AttemptFolder(f"{world.jobs}/{key.uid}/{key.attempt}")
        submission = attempt_files.read_submission(folder)
        attempt_files.keep_submission(folder, submission._replace(uid=""))
        again = world.open(queue="q")
        launch(world, again, key, WAITS)
        assert attempt_files.read_submission(folder).uid == submission.uid
        until(again, key, Phase.STARTING)

    def test_a_queue_that_is_not_there(self, world):
        engine, key = world.open(queue="absent"), new_key()
        launch(world, engine, key, WAITS)
        why = waits_with(engine, key, "the queue absent, or its ClusterQueue, does not exist")
        assert why.reason is Reason.NO_SUCH_NODE

    def test_a_cluster_without_kueue(self, world, cluster):
        cluster.api.server.discovery.hidden.add(KUEUE)
        try:
            engine, key = world.open(queue="absent"), new_key()
            launch(world, engine, key, WAITS)
            waits_with(engine, key, "the cluster has no Kueue; install Kueue, or remove the queue")
        finally:
            cluster.api.server.discovery.hidden.clear()


class TestObjectsOfOthers:
    """A JobSet of our name that is not ours, and two installations: not touched."""

    def test_a_jobset_of_the_name_of_an_attempt_is_not_touched(self, world, cluster, removed):
        engine, key = world.engine(), new_key()
        name = world.name_of(key)
        job = {"template": {"spec": {"template": {"spec": POD}}}, "name": "other"}
        removed("JobSet", name, {"replicatedJobs": [job]}, version=f"{JOBSET}/v1alpha2")
        before = cluster.store.get("JobSet", SPACE, name)["metadata"]["uid"]
        with pytest.raises(EngineFault, match="that is not of this server; rename or delete"):
            launch(world, engine, key, WAITS)
        engine.stop(key, order(0.0))
        assert ended(engine, key).phase in FINAL
        assert cluster.store.get("JobSet", SPACE, name)["metadata"]["uid"] == before
        assert not cluster.store.get("JobSet", SPACE, name)["metadata"].get("deletionTimestamp")
        cluster.wait_for_removal("Secret", name)

    def test_two_installations_leave_each_other_alone(self, world, cluster):
        engine, other, key = world.engine(), world.elsewhere(), new_key()
        launch(world, engine, key, WAITS)
        eventually(lambda: world.pods_of(key), "its pods")
        other.stop(key, order(0.0))
        assert other.forget(key.uid)
        assert list(other.list_attempts()) == []
        assert cluster.is_there("JobSet", world.name_of(key))
