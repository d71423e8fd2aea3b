"""Makes the ranks of a host one worker: they sum, their leader reduces, all get the result.

The leader has two threads, one that sends sums to the reducers and one that distributes results, so
that the host sums the next tensor while the last one is at the reducers.  A news message precedes
each result: it reports an error of the leader, so that the other ranks do not wait for a result.
"""

from __future__ import annotations

import abc
import contextlib
import json
import queue
import threading
from typing import Any, ContextManager

import torch
from torch._C._distributed_c10d import ReduceOptions, Work

from trainshed_trainer.reduction.client import Done
from trainshed_trainer.reduction.errors import Culprit, Kind, ReductionError
from trainshed_trainer.reduction.torch_exchange import Exchange, MemoryOf
from trainshed_trainer.reduction.torch_hosts import Layout, LocalGroups
from trainshed_trainer.reduction.torch_inner import as_reduction_error
from trainshed_trainer.reduction.torch_memory import Mark, memory_of

#: Bytes of the news message before each result: an error as JSON, padded with blanks.
NEWS_SIZE = 2048
#: Longest text of an error in a news message; JSON may need six bytes for a character.
TEXT_MAX = 300
#: Seconds that closing waits for each of the threads.
JOIN_S = 5.0


class Turn:
    """One all-reduce of a tensor, from the host's sum to the result."""

    def __init__(self, tensor: torch.Tensor, done: Done, *, average: bool) -> None:
        """``done`` is called by the thread that delivers results."""
        self.tensor = tensor
        self.done = done
        self.average = average
        self.summed: Work | None = None
        self.error: ReductionError | None = None
        self.mark: Mark | None = None
        self.over = threading.Event()

    def end(self, error: ReductionError | None, mark: Mark | None = None) -> None:
        """Record the end of the reducers' work; at ``mark`` the sums are on the device."""
        self.error, self.mark = error, mark
        self.over.set()


class Relay(abc.ABC):
    """The common part of :class:`Leader` and :class:`Member`, the exchanges of a host's ranks."""

    def __init__(self, groups: LocalGroups, memory: MemoryOf) -> None:
        """Serve one rank."""
        self._groups = groups
        self._memory = memory
        self._error: ReductionError | None = None
        self._to_ranks: queue.SimpleQueue[Turn | None] = queue.SimpleQueue()
        self._reported = False
        self._threads = [threading.Thread(target=self._deliver_results, daemon=True)]

    def allreduce(self, tensor: torch.Tensor, *, average: bool, done: Done) -> None:
        """Begin; see :class:`trainshed_trainer.reduction.torch_exchange.Exchange`."""
        turn = Turn(tensor, done, average=average)
        try:
            with as_reduction_error():
                turn.summed = self._groups.sums.reduce([tensor], ReduceOptions())
        except ReductionError as error:
            turn.end(error)
        self._begin(turn)

    def failed(self) -> ReductionError | None:
        """Return the error of the first round that failed."""
        return self._error

    def close(self) -> None:
        """Leave the group; running all-reduces fail."""
        self._to_ranks.put(None)
        for thread in self._threads:
            thread.join(JOIN_S)
        self._groups.close()

    def _begin(self, turn: Turn) -> None:
        self._to_ranks.put(turn)

    def _deliver_results(self) -> None:
        """Deliver results to this rank in the order of rounds; after an error, only the error."""
        for turn in iter(self._to_ranks.get, None):
            error = self._error if self._reported else self._deliver(turn)
            if error:
                self._error, self._reported = error, True
                turn.done(error)

    def _deliver(self, turn: Turn) -> ReductionError | None:
        """Deliver one result, or return the error."""
        memory = self._memory(turn.tensor.device)
        try:
            self._await_sums(turn)
            with memory.outward() if memory else _no_stream():
                self._receive(turn)
                turn.done(None)
        except ReductionError as error:
            return error
        return None

    @abc.abstractmethod
    def _await_sums(self, turn: Turn) -> None:
        """Wait for the sums of this round; raise its error."""

    def _receive(self, turn: Turn) -> None:
        """Broadcast the leader's sums, after the host's own sum has read the tensor."""
        with as_reduction_error():
            if turn.summed:
                turn.summed.wait()
            if turn.mark:
                turn.mark.wait()
            self._groups.results.broadcast(turn.tensor, 0).wait()


class Member(Relay):
    """A rank whose leader reduces for it; ``leader`` is the leader's rank among all."""

    def __init__(self, groups: LocalGroups, leader: int, memory: MemoryOf = memory_of) -> None:
        """Serve one rank."""
        super().__init__(groups, memory)
        self._leader = Culprit(Kind.WORKER, leader)
        self._threads[0].start()

    def _await_sums(self, turn: Turn) -> None:
        if turn.error:
            raise turn.error
        news = torch.empty(NEWS_SIZE, dtype=torch.uint8)
        with as_reduction_error(self._leader):
            self._groups.news.broadcast(news, 0).wait()
        words = json.loads(bytes(news.tolist()))
        if words:
            text, blame, number = words
            culprit = Culprit(Kind(blame[0]), blame[1]) if blame else None
            raise ReductionError(text, blame=culprit, round_=number)


class Leader(Relay):
    """The rank of a host that reduces with the other hosts' leaders."""

    def __init__(
        self,
        groups: LocalGroups,
        upstream: Exchange,
        layout: Layout,
        memory: MemoryOf = memory_of,
    ) -> None:
        """Reduce by ``upstream``, whose workers are the hosts of ``layout``."""
        super().__init__(groups, memory)
        self._upstream = upstream
        self._layout = layout
        self._world = sum(len(ranks) for ranks in layout.hosts)
        self._to_reducers: queue.SimpleQueue[Turn | None] = queue.SimpleQueue()
        self._threads.insert(0, threading.Thread(target=self._send_sums, daemon=True))
        for thread in self._threads:
            thread.start()

    def failed(self) -> ReductionError | None:
        """Return the error of a round, or of the connections to the reducers between rounds.

        An error between rounds is sent to the host's ranks at once: no round would carry it.
        """
        error = self._upstream.failed()
        if error and not self._error:
            self._error = error = self._by_rank(error)
            turn = Turn(torch.empty(0), _ignore_end, average=False)
            turn.end(error)
            self._to_ranks.put(turn)
        return self._error

    def close(self) -> None:
        """Leave the group; running all-reduces fail."""
        self._upstream.close()
        self._to_reducers.put(None)
        super().close()

    def _begin(self, turn: Turn) -> None:
        self._to_reducers.put(turn)

    def _send_sums(self) -> None:
        """Send the host's sums to the reducers in the order of rounds."""
        for turn in iter(self._to_reducers.get, None):
            self._to_ranks.put(turn)
            error = turn.error or self._send_sum(turn)
            if error:
                turn.end(error)
                self._upstream.close()  # the other hosts wait for this round

    def _send_sum(self, turn: Turn) -> ReductionError | None:
        """Send one sum to the reducers, or return the error."""
        memory = self._memory(turn.tensor.device)

        def over(error: ReductionError | None) -> None:
            mark = memory.mark() if memory and not error else None
            turn.end(self._by_rank(error) if error else None, mark)

        try:
            with as_reduction_error(), memory.inward() if memory else _no_stream():
                if turn.summed:
                    turn.summed.wait()
                if turn.average:
                    turn.tensor.detach().div_(self._world)
                self._upstream.allreduce(turn.tensor, average=False, done=over)
        except ReductionError as error:
            return error
        return None

    def _by_rank(self, error: ReductionError) -> ReductionError:
        """Replace a host at fault with the rank of its leader."""
        blame = error.blame
        if blame is None or blame.kind is not Kind.WORKER:
            return error
        leader = self._layout.hosts[blame.index][0]
        text = f"{error} (worker {blame.index} is the host of rank {leader})"
        return ReductionError(text, blame=Culprit(Kind.WORKER, leader), round_=error.round)

    def _await_sums(self, turn: Turn) -> None:
        turn.over.wait()
        error = turn.error
        words: list[Any] = [str(error)[:TEXT_MAX], error.blame, error.round] if error else []
        text = json.dumps(words).encode().ljust(NEWS_SIZE)
        with as_reduction_error():
            self._groups.news.broadcast(
                torch.frombuffer(bytearray(text), dtype=torch.uint8), 0
            ).wait()
        if error:
            raise error


def _no_stream() -> ContextManager[None]:
    return contextlib.nullcontext()


def _ignore_end(_: ReductionError | None) -> None:
    """Ignore the end of a round that no caller has started."""
