"""The mistakes of the Slurm engine and its wardens that ``mutate_engines.py`` makes."""

from typing import Final

_ATTEMPT: Final = "engines/slurm/attempt.py"
_ENGINE: Final = "engines/slurm/engine.py"
_POLL: Final = "engines/slurm/poll.py"
_QUEUE: Final = "engines/slurm/queue.py"
_SCRIPT: Final = "engines/slurm/script.py"
_SPOOL: Final = "engines/slurm/spool.py"
_STATES: Final = "engines/slurm/states.py"
_FOLDER: Final = "engines/supervise/record/folder.py"
_DIALING: Final = "engines/warden/dialing.py"
_FORWARD: Final = "engines/warden/forward.py"
_GANG: Final = "engines/warden/gang.py"
_LISTENING: Final = "engines/warden/listening.py"
_MARKS: Final = "engines/warden/marks.py"
_PORTS: Final = "engines/warden/ports.py"
_WARDEN: Final = "engines/warden/warden.py"

#: File, what it says, what it says then; those of the engine first.
SLURM: Final = (
    # one attempt is submitted once and begins once
    (_SCRIPT, "{ echo $SLURM_JOB_ID $nodes > claim; } 2>/dev/null || exit 0\n", ""),
    (_SCRIPT, "set -Cf\n", "set -f\n"),
    (_SCRIPT, '    yield "--dependency=singleton"\n', ""),
    (_SCRIPT, '    yield "--no-requeue"\n', ""),
    (_SCRIPT, '    yield f"--comment={submission.key}"\n', ""),
    (_SCRIPT, "if submission.exclude:", "if False:"),
    (_SCRIPT, "if submission.minutes is not None:", "if False:"),
    # these two survive: each looks before it submits, once before and once with the lock held
    (
        _ENGINE,
        "if before is not None and before.job:\n            return\n        if attempt",
        "if attempt",
    ),
    (
        _ENGINE,
        "if before is not None and before.job:\n            return\n        if self._poller",
        "if self._poller",
    ),
    (
        _ENGINE,
        "job_id = self._find_job(attempt.key) if attempt.submitted is not None else",
        "job_id =",
    ),
    (_ENGINE, "        spool.keep_submitted(attempt.folder, record)\n", ""),
    (_ENGINE, "if not job_id and not spool.is_claimed(attempt.folder):", "if not job_id:"),
    (_ENGINE, "self._refuse_planted(attempt)", "pass"),
    (_ENGINE, "if attempt.folder.stop_order() is not None or attempt.final is not None:", "if 0:"),
    (
        _ENGINE,
        "record._replace(job=self._queue.submit(words, lock))",
        "record._replace(job=self._queue.submit(words))",
    ),
    (_ENGINE, "fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)", "pass"),
    # orders
    (_ENGINE, "attempt.folder.give_order(", "(lambda _: None)("),
    (
        _ENGINE,
        "with self._lock:\n            self._orders.add(key)\n        self._poller",
        "self._poller",
    ),
    (_ENGINE, "or attempt.records.began is None or attempt.overdue()", "or attempt.overdue()"),
    (_ENGINE, "or attempt.overdue() or", "or"),
    (_ENGINE, "or attempt.is_requeued:\n            self._cancel", ":\n            self._cancel"),
    (_ENGINE, "self._queue.look_now(attempt.job)", "pass"),
    (_ENGINE, "            self._sweep(answer.rows)", "            pass"),
    (_ENGINE, "lost_nodes.update(end.nodes if end else ())", "pass"),
    (_ENGINE, "if any(self._is_alive(row) for row in ours):", "if False:"),
    (_ENGINE, "if any(self._lives(key) for key in keys):", "if False:"),
    (_ENGINE, "if key is not None and self._is_alive(row):", "if key is not None:"),
    (_ENGINE, "self._tell([attempt.key for attempt in running if _has_grown(attempt)])", "pass"),
    (
        _ENGINE,
        "if phase is not Phase.UNKNOWN:\n            raise",
        "if False:\n            raise",
    ),
    # what is believed
    (_ATTEMPT, "_MISSES: Final = 2", "_MISSES: Final = 1"),
    (_ATTEMPT, "return row.comment == str(self.key)", "return True"),
    (
        _ATTEMPT,
        "if answer.is_away or not answer.is_up or not answer.number:",
        "if not answer.number:",
    ),
    (_ATTEMPT, "        if answer.is_away:\n            return self._unknown()\n", ""),
    (
        _ATTEMPT,
        "return is_open and spool.take_claim(self.folder)",
        "return is_open and not spool.is_claimed(self.folder)",
    ),
    (_ATTEMPT, "or not _is_doubtful(ended.outcome):", "or True:"),
    (
        _ATTEMPT,
        'preempted its job {job}", Loss.MAINTENANCE',
        'preempted its job {job}", Loss.INFRA',
    ),
    (_ATTEMPT, 'limit of Slurm", Loss.LIMIT', 'limit of Slurm", Loss.INFRA'),
    (_ATTEMPT, "Loss.INFRA, nodes)", "Loss.INFRA)"),
    (_ATTEMPT, "        spool.keep_end(self.folder, end)\n", ""),
    (_ATTEMPT, "self.is_requeued = self.is_requeued or answer.number > self._began_at + 1", "pass"),
    (_ATTEMPT, "if why is not None and spool.take_claim(self.folder):", "if False:"),
    (_ATTEMPT, "        if silent:\n", "        if False:\n"),
    (_ATTEMPT, "if state is SlurmState.SUSPENDED else None", "if False else None"),
    (
        _ATTEMPT,
        "return observation._replace(placed=self._list_seats(nodes), placed_how=how)",
        "return observation",
    ),
    (
        _ATTEMPT,
        "if not self._has_waited():\n            return self._report_running(rows)",
        "if False:\n            return self._report_running(rows)",
    ),
    (_POLL, "self.last_answer = self.last_answer._replace(is_away=True)", "pass"),
    (
        _POLL,
        "pause_s = FAST_S if now_s < self._follow_until_s else self._rest_s",
        "pause_s = FAST_S",
    ),
    (_QUEUE, "if row.name.startswith(self.prefix)]", "]"),
    (
        _QUEUE,
        "return LaunchRefused(Explanation(reason=Reason.ENGINE_FULL, message=text))",
        "return EngineFault(text)",
    ),
    (_STATES, '"PREEMPTED": SlurmState.PREEMPTED', '"PREEMPTED": SlurmState.NODE_LOST'),
    (_STATES, '"COMPLETING": SlurmState.ENDING', '"COMPLETING": SlurmState.DONE'),
    (_STATES, "    SlurmState.UNKNOWN,\n    SlurmState.REQUEUED,", "    SlurmState.REQUEUED,"),
    (
        _SPOOL,
        "flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW",
        "flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW",
    ),
    (_SPOOL, "        return _is_ours(folder)\n", "        return True\n"),
    (_SPOOL, "if os.path.lexists(path) and (strange := _strange(path)):", "if False:"),
    (_SPOOL, "value, durably=True)\n\n\ndef end_in_slurm", "value)\n\n\ndef end_in_slurm"),
    (_SPOOL, "value, durably=True)\n\n\ndef take_claim", "value)\n\n\ndef take_claim"),
    # wardens and their launcher
    (_LISTENING, "if not is_same(warden_proof, ", "if False and ("),
    (
        _LISTENING,
        "timer = self._loop.after(PROVE_S, partial(self._hang_up, caller))",
        "timer = self._loop.after(600, partial(self._hang_up, caller))",
    ),
    (_DIALING, "if not is_same(answer, ", "if False and ("),
    (_DIALING, "env.pop(name, None)", "pass"),
    (_GANG, "return all(warden.prepared for", "return any(warden.prepared for"),
    (_GANG, "argv=tuple(filled(word, replacements) for word in replica.argv)", "argv=replica.argv"),
    (
        _GANG,
        "env={name: filled(text, replacements) for name, text in replica.env.items()}",
        "env=replica.env",
    ),
    (
        _GANG,
        "hosts=tuple((filled(address, replacements), name) for address, name in replica.hosts)",
        "hosts=replica.hosts",
    ),
    (
        _GANG,
        "self.wardens[index].channel is not None:\n            channel.say",
        "False:\n            channel.say",
    ),
    (_GANG, "        self._read_exit(warden)\n", ""),
    (
        _GANG,
        "if warden.index not in self.exits:\n            self.living",
        "if False:\n            self.living",
    ),
    (_GANG, "        self._context.obey(order, text)\n", ""),
    (
        _GANG,
        "        if self._order is not None:\n            warden.say",
        "        if False:\n            warden.say",
    ),
    (_GANG, "if not all(warden.is_empty or", "if False and not all(warden.is_empty or"),
    (_GANG, "                warden.channel.pause(on)", "                pass"),
    (_WARDEN, "        self._write_exit(record)\n", ""),
    (_WARDEN, "write_json(path, record, durably=True)", "write_json(path, record)"),
    (_WARDEN, "        self._forward.drain()\n", ""),
    (
        _WARDEN,
        'the launcher is gone: {why}\\n")\n        self._kill()',
        'the launcher is gone: {why}\\n")\n        self._is_over = True',
    ),
    (_WARDEN, "if not name.startswith(_OF_CLUSTER) and name not in unset", "if name not in unset"),
    (
        _WARDEN,
        "if self._replicas is None or self._order is not None:\n            return",
        "if self._replicas is None:\n            return",
    ),
    (
        _WARDEN,
        "return {**inherited, **replica_env, **devices_of(inherited)}",
        "return {**inherited, **replica_env}",
    ),
    (_FORWARD, "if self._channel.waiting > _WAITING_BYTES_MAX and", "if False and"),
    (
        _PORTS,
        "            if run:\n                self._held += run",
        "            if run:\n                [sock.close() for sock in run]",
    ),
    (_MARKS, "(?<![0-9])4[0-9]{9}(?![0-9])", "4[0-9]{9}"),
)
