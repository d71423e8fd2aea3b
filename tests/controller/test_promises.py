"""Whatever happens in whatever order, the promises about restarts hold."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from controller.world import World, go, nodes, runs
from trainshed.model.attempt import AttemptKey
from trainshed.model.job import Scheduling
from trainshed.model.restarts import Budgets, Cause
from trainshed.model.status import FINAL, JobState

BUDGETS = Budgets(maintenance=None, infra=2, user=1)
NODES = ("node-0", "node-1")
STEPS = ("schedule", "perform", "observe", "lease", "maintain", "deadlines")
WAITS = Scheduling(waiting_s_max=40.0, running_s_max=90.0)
SINGLE = Scheduling(disable_retries=True)
KINDS = st.sampled_from([None, None, WAITS, SINGLE])


class Jobs(RuleBasedStateMachine):
    """Jobs, two servers of which each may be killed between any two steps, and two nodes."""

    def __init__(self):
        super().__init__()
        self.folder = TemporaryDirectory()
        script = runs(ready_s=1.0, notice_s=3.0)
        self.world = World(Path(self.folder.name), nodes(2, slots=2), script=script)
        self.servers = [self.start(number) for number in (0, 1)]
        self.uids: list[int] = []
        self.ends: dict[int, JobState] = {}
        self.single: set[int] = set()

    def start(self, number):
        return self.world.controller(f"server-{number}", budgets=BUDGETS)

    def teardown(self):
        try:
            self.settle()
            self.promises()
        finally:
            self.world.close()
            self.folder.cleanup()

    # what happens

    @initialize()
    def begin(self):
        for kind in (SINGLE, None, WAITS):
            self.submit(1, kind)
        self.go_on(1.1)

    @precondition(lambda self: len(self.uids) < 5)
    @rule(replicas=st.integers(1, 3), kind=KINDS)
    def submit(self, replicas, kind):
        uid = self.world.submit(replicas=replicas, scheduling=kind)
        self.uids.append(uid)
        if kind is not None and kind.disable_retries:
            self.single.add(uid)

    @rule(step=st.sampled_from(STEPS), number=st.integers(0, 1))
    def take_a_step(self, step, number):
        getattr(self.servers[number], f"{step}_once")()

    @rule(seconds=st.sampled_from([0.0, 1.1, 4.0]))
    def go_on(self, seconds):
        """As it mostly goes: everybody does what there is to do."""
        for server in self.servers:
            go(server)
        self.world.clock.s += seconds
        for server in self.servers:
            go(server)

    @rule(number=st.integers(0, 1))
    def crash(self, number):
        self.servers[number] = self.start(number)

    @rule(seconds=st.sampled_from([0.5, 2.0, 15.0, 60.0]))
    def wait(self, seconds):
        self.world.clock.s += seconds

    @rule(node=st.sampled_from(NODES), notice_s=st.sampled_from([0.0, 2.0, 60.0]))
    def maintain(self, node, notice_s):
        self.world.maintain(node, notice_s)
        self.servers[0].maintain_once()

    @rule(node=st.sampled_from(NODES))
    def resume(self, node):
        self.world.resume(node)
        self.go_on(4.0)

    @precondition(lambda self: self.uids)
    @rule(number=st.integers(0, 4), what=st.sampled_from(["cancel", "lose", "lose", 0, 1, 139]))
    def happen(self, number, what):
        running = sorted(self.world.engine.running) or self.uids
        one = running[number % len(running)]
        if what == "cancel":
            self.world.cancel(one.uid if isinstance(one, AttemptKey) else one)
        elif isinstance(one, AttemptKey) and what == "lose":
            self.world.engine.lose(one)
        elif isinstance(one, AttemptKey):
            self.world.engine.end(one, what)

    # what must hold

    @invariant()
    def promises(self):
        assert self.world.engine.violations == []
        held = {holding.uid for holding in self.world.store.holding()}
        for uid in self.uids:
            record = self.world.job(uid)
            state = record.job.status.state
            assert self.ends.get(uid, state) is state, "a final state has changed"
            if state in FINAL:
                self.ends[uid] = state
                assert uid not in held, "it holds places after its end"
                assert self.world.key(uid) not in self.world.engine.running, "it lives on"
            self.counts_are_kept(uid, record)

    def counts_are_kept(self, uid, record):
        budgets = Budgets(maintenance=0, infra=0, user=0) if uid in self.single else BUDGETS
        for cause in Cause:
            budget = budgets.of(cause)
            assert budget is None or record.restarts.of(cause) <= budget
        restarts = sum(record.restarts.of(cause) for cause in Cause)
        assert record.attempt <= 1 + restarts, "an attempt that nobody has granted"

    def settle(self):
        """The nodes come back, nothing more happens: all that waited runs, and all ends well."""
        for node in NODES:
            self.world.resume(node)
        for _ in range(6 + 3 * len(self.uids)):
            self.world.clock.s += 4
            for server in self.servers:
                go(server, 2)
            for key in self.world.engine.running:
                if self.world.state(key.uid) is JobState.RUNNING:
                    self.world.engine.end(key)
            if self.world.states(self.uids) <= FINAL:
                break
        for uid in self.uids:
            assert self.world.state(uid) in FINAL, self.world.messages(uid)
        assert not self.world.engine.running
        assert not self.world.store.holding()
        assert all(not self.world.store.commands(f"server-{number}") for number in (0, 1))


TestPromises = Jobs.TestCase
TestPromises.settings = settings(max_examples=8, stateful_step_count=50, deadline=None)
