"""The store's contract: leases, what holds places, and the fleet."""

from dataclasses import replace

from store.builders import (
    DEMAND,
    LEASE_S,
    PROJECT,
    SEATS,
    SERVER,
    HandClock,
    add,
    fill_queue,
    go,
    place,
    read,
)
from trainshed.model.explanation import Explanation, Reason
from trainshed.model.job import Scheduling
from trainshed.model.resources import ANY_GPU, FleetPolicy, Node, NodeState
from trainshed.model.status import JobState
from trainshed.store.front import BEHIND_FRONT, FRONT_MAX
from trainshed.store.listed_jobs import JobListQuery
from trainshed.store.opening import Store
from trainshed.store.records.jobs import JobKind

OTHER = "server-b"
WHY = Explanation(reason=Reason.CAPACITY, message="full")


class TestWork:
    """What the controller relies on."""

    def test_one_scheduler_leads_until_its_lease_runs_out(
        self, store: Store, clock: HandClock
    ) -> None:
        assert store.join(SERVER, LEASE_S, lead=True)
        assert not store.join(OTHER, LEASE_S, lead=True)
        clock.forward(LEASE_S - 1)
        assert store.join(SERVER, LEASE_S, lead=True), "renewed"
        clock.forward(LEASE_S - 1)
        assert not store.join(OTHER, LEASE_S, lead=True)
        clock.forward(1)
        assert store.join(OTHER, LEASE_S, lead=True)
        assert not store.join(SERVER, LEASE_S, lead=True)
        store.leave(OTHER)
        assert store.join(SERVER, LEASE_S, lead=True)

    def test_servers_are_those_with_a_valid_lease(self, store: Store, clock: HandClock) -> None:
        store.join(OTHER, LEASE_S)
        clock.forward(1)
        store.join(SERVER, LEASE_S, lead=True)
        assert list(store.servers()) == [SERVER, OTHER]
        clock.forward(LEASE_S - 1)
        assert list(store.servers()) == [SERVER]

    def test_the_jobs_of_a_dead_server_are_taken_over_once(
        self, store: Store, clock: HandClock
    ) -> None:
        waits, runs, ended = (add(store).uid for _ in range(3))
        store.join(SERVER, LEASE_S)
        store.join(OTHER, 3 * LEASE_S)
        for uid in (runs, ended):
            place(store, uid)
        go(store, ended, JobState.FAILED)
        before = read(store, runs)
        mark, *_ = store.holding_changed(0)
        assert list(store.take_over(OTHER)) == []
        assert store.holding_changed(0)[0] == mark, "nothing to take over, and nothing written"
        clock.forward(LEASE_S)
        assert list(store.take_over(OTHER)) == [runs]
        assert list(store.take_over(OTHER)) == []
        after = read(store, runs)
        assert after.owner == OTHER
        assert after.version > before.version, "what the dead one thought about does not fit now"
        assert [a.uid for a in store.active(OTHER)] == [runs]
        assert not store.active(SERVER)
        assert {c.uid for c in store.commands(OTHER)} == {runs}
        assert read(store, waits).owner is None

    def test_without_a_lease_nothing_is_taken_over(self, store: Store) -> None:
        place(store, add(store).uid)
        assert list(store.take_over(OTHER)) == []

    def test_who_leaves_lets_go_at_once(self, store: Store) -> None:
        uid = add(store).uid
        store.join(SERVER, LEASE_S)
        store.join(OTHER, LEASE_S)
        place(store, uid)
        store.leave(SERVER)
        assert list(store.take_over(OTHER)) == [uid]

    def test_holding_is_what_has_places_now(self, store: Store, clock: HandClock) -> None:
        record = add(store, kind=JobKind.ML_JOB, job_id="j")
        uid = record.uid
        waiting = store.waiting(limit=1)[0]
        assert (waiting.name, waiting.kind) == (f"projects/{PROJECT}/jobs/j", JobKind.ML_JOB)
        clock.forward(1)
        placed = place(store, uid)
        [held] = store.holding()
        assert (held.uid, held.attempt, held.seats) == (uid, 1, SEATS)
        assert (held.demand, held.project, held.name) == (DEMAND, PROJECT, waiting.name)
        assert held.since == placed.job.status.update_time
        for state in (JobState.RUNNING, JobState.RESTARTING, JobState.CANCELLING):
            go(store, uid, state)
            assert list(store.holding()) == [held]
        [active] = store.active(SERVER)
        assert (active.state, active.version) == (JobState.CANCELLING, read(store, uid).version)

    def test_changes_of_holding_are_reported_from_a_mark_on(self, store: Store) -> None:
        uids = [add(store).uid for _ in range(4)]
        start, came, gone = store.holding_changed(0)
        assert (list(came), list(gone)) == ([], [])
        for uid in uids[:3]:
            place(store, uid)
        mark, came, gone = store.holding_changed(start)
        assert {h.uid for h in came} == set(uids[:3])
        assert list(gone) == []
        go(store, uids[0], JobState.RUNNING)
        go(store, uids[1], JobState.QUEUED)
        go(store, uids[2], JobState.FAILED)
        place(store, uids[3])
        place(store, uids[1])
        last, came, gone = store.holding_changed(mark)
        assert {(h.uid, h.attempt) for h in came} == {(uids[3], 1), (uids[1], 2)}
        assert list(gone) == [uids[2]]
        assert store.holding_changed(last) == (last, (), ())

    def test_unexplained_jobs_come_in_line(self, store: Store, clock: HandClock) -> None:
        uids = []
        for _ in range(3):
            uids.append(add(store).uid)
            clock.forward(1)
        assert [uid for _, _, uid in store.unexplained(limit=2)] == uids[:2]
        place(store, uids[0])
        go(store, uids[0], JobState.QUEUED)
        assert [uid for _, _, uid in store.unexplained(limit=9)] == uids
        urgent = add(store, scheduling=Scheduling(priority=9)).uid
        assert [uid for _, _, uid in store.unexplained(limit=9)] == [urgent, *uids]

    def test_a_job_behind_the_front_is_explained_when_it_is_read(
        self, store: Store, clock: HandClock
    ) -> None:
        first = add(store)
        fill_queue(store, first.uid, jobs=FRONT_MAX - 2)
        clock.forward(1)
        last_of_front = add(store)
        clock.forward(1)
        behind = add(store)
        assert read(store, last_of_front.uid).job.explanation is None
        assert read(store, behind.uid).job.explanation == BEHIND_FRONT
        newest, before = store.job_rows(JobListQuery(project=PROJECT, page_size=2))
        assert (newest.reason, before.reason) == ("BEHIND_QUEUE", None)
        store.explain({behind.uid: WHY})
        assert read(store, behind.uid).job.explanation == WHY
        store.explain({behind.uid: None})
        place(store, first.uid)
        assert read(store, behind.uid).job.explanation is None, "it is in the front now"

    def test_a_fleet_is_what_was_last_reported(self, store: Store, clock: HandClock) -> None:
        n1 = Node(
            name="n1",
            region="us-central1",
            vcpus=8,
            memory_gb=30.5,
            gpus={"H200": 4},
            gpu_alias={"NVIDIA_TESLA_T4": ANY_GPU},
            policy=FleetPolicy.EXACT,
        )
        n2 = Node(name="n2")
        store.see_nodes("local", [n1, n2])
        store.see_nodes("other", [Node(name="n3")])
        uid = add(store).uid
        place(store, uid)
        rows = {row.node.name: row for row in store.nodes()}
        assert (rows["n1"].node, rows["n1"].engine, rows["n1"].replicas) == (
            replace(n1, engine="local"),
            "local",
            2,
        )
        clock.forward(1)
        bigger = replace(n1, vcpus=16)
        store.see_nodes("local", [bigger])
        rows = {row.node.name: row for row in store.nodes()}
        assert set(rows) == {"n1", "n3"}
        assert rows["n1"].node == replace(bigger, engine="local")
        assert rows["n1"].seen_time > rows["n3"].seen_time
        go(store, uid, JobState.FAILED)
        assert {row.replicas for row in store.nodes()} == {0}
        assert store.fleet() == [row.node for row in store.nodes()]

    def test_an_administrators_state_outlives_reports(self, store: Store) -> None:
        assert not store.set_node_state("local", "n1", NodeState.DRAINED)
        store.see_nodes("local", [Node(name="n1")])
        assert store.set_node_state("local", "n1", NodeState.DRAINED)
        store.see_nodes("local", [Node(name="n1", vcpus=2)])
        assert [row.node.state for row in store.nodes()] == [NodeState.DRAINED]
        assert [node.state for node in store.fleet()] == [NodeState.DRAINED]
        assert store.set_node_state("local", "n1", NodeState.READY)
        assert [row.node.state for row in store.nodes()] == [NodeState.READY]

    def test_orders_about_nodes_stand_until_they_are_taken_back(self, store: Store) -> None:
        store.see_nodes("local", [Node(name=f"n{number}") for number in (1, 2, 3)])
        assert not store.node_orders()
        store.set_node_state("local", "n2", NodeState.DRAINED, notice_s=5.0)
        store.set_node_state("local", "n1", NodeState.MAINTENANCE, notice_s=120.0)
        assert [(o.name, o.state, o.notice_s) for o in store.node_orders()] == [
            ("n1", NodeState.MAINTENANCE, 120.0),
            ("n2", NodeState.DRAINED, None),
        ]
        assert [row.notice_s for row in store.nodes()] == [120.0, None, None]
        assert store.fleet()[0].state is NodeState.MAINTENANCE
        store.see_nodes("local", [])
        assert len(store.node_orders()) == 2, "a node that is away comes back under its orders"
        store.see_nodes("local", [Node(name="n1"), Node(name="n2")])
        for name in ("n1", "n2"):
            assert store.set_node_state("local", name, NodeState.READY)
        assert not store.node_orders()
