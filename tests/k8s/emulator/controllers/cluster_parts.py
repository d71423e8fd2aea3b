"""What every controller gets: the store, copies to read, a clock, events, and times."""

from dataclasses import dataclass, field

from k8s.emulator.controllers.cache import ObjectCache
from k8s.emulator.controllers.loop import ControllerLoop
from k8s.emulator.controllers.recorder import EventRecorder
from k8s.emulator.controllers.times import ClusterTimes
from k8s.emulator.store import Store


@dataclass(frozen=True, slots=True)
class ClusterParts:
    store: Store
    loop: ControllerLoop
    times: ClusterTimes = field(default_factory=ClusterTimes)
    cache: ObjectCache = None
    recorder: EventRecorder = None

    @classmethod
    def over(cls, store, *, clock=None, times=None):
        """Subscribe the cache before the loop, so that controllers read what woke them."""
        cache = ObjectCache(store)
        loop = ControllerLoop(store, clock)
        recorder = EventRecorder(store, loop.clock)
        return cls(store, loop, times or ClusterTimes(), cache, recorder)

    @property
    def now_s(self):
        return self.loop.clock.now_s()
