"""Hooks give the numbers of steps that the framework restores after a restart, and no others."""
# ruff: noqa: INP001, PT009  # unittest on a bare Python: no pytest, no package

from __future__ import annotations

from typing import Any

from hooked_program import HookedProgram


class HookNumbers(HookedProgram):
    """A Python of its own for each test."""

    #: An optimizer that counts its steps, as Adam; checkpoints restore the count.
    ADAM = (
        "import torch.optim.optimizer as o\n"
        "class Adam(o.SGD):\n"
        "    def __init__(self, done):\n"
        "        self.counts = [{'step': done}]\n"
        "        self.state = {self.param_groups[0]['params'][1]: self.counts[0]}\n"
        "    def step(self):\n"
        "        for one in self.counts: one['step'] += 1\n"
        "        super().step()\n"
    )

    def numbers(self, program: str, attempt: int = 1) -> tuple[Any, ...]:
        self.run_program(program, TRAINSHED_STEPS="hooks", TRAINSHED_ATTEMPT=str(attempt))
        report = self.written()
        return tuple(report[name] for name in ("first_step", "last_step", "counted"))

    def test_an_optimizer_s_count_is_the_number_of_a_step(self) -> None:
        for attempt, done, expected in (
            (1, 0, (1, 5, True)),
            (2, 40, (41, 45, True)),
            (2, 0, (None, None, False)),  # the checkpoint may lack the optimizer
        ):
            with self.subTest(attempt=attempt, done=done):
                program = f"adam = Adam({done})\nfor _ in range(5): adam.step()\n"
                self.assertEqual(self.numbers(self.ADAM + program, attempt), expected)

    def test_numbers_are_unknown_where_an_optimizer_has_none_or_several_take_turns(self) -> None:
        unknown = (None, None, False)
        for program in (
            "sgd = o.SGD()\nfor _ in range(5): sgd.step()\n",
            "for _ in range(2):\n    adam = Adam(40)\n    adam.step()\n    adam.step()\n",
            "adam = Adam(40)\nadam.step()\nadam.counts[0]['step'] = 3\nadam.step()\n",
        ):
            with self.subTest(program=program):
                self.assertEqual(self.numbers(self.ADAM + program), unknown)

    def test_the_numbers_of_the_program_replace_those_of_its_optimizer(self) -> None:
        program = (
            "from trainshed_trainer import progress\nadam = Adam(40)\n"
            "for step in range(7, 10):\n    adam.step()\n    progress(step)\n"
        )
        self.assertEqual(self.numbers(self.ADAM + program), (7, 9, False))

    def test_iterations_of_keras_are_the_numbers_of_steps(self) -> None:
        for attempt, done, expected in ((2, 30, (31, 37, True)), (2, 0, (None, None, False))):
            with self.subTest(done=done):
                program = (
                    "from keras.src.callbacks.callback_list import CallbackList, Optimizer\n"
                    "class Iterations:\n"
                    "    def __init__(self, done): self.done = done\n"
                    "    def numpy(self): return self.done\n"
                    f"for done, batches in (({done}, 4), ({done} + 4, 3)):\n"
                    "    lists = CallbackList()\n"
                    "    Optimizer.iterations = Iterations(done)\n"
                    "    lists.on_train_begin()\n"
                    "    for batch in range(batches): lists.on_train_batch_end(batch)\n"
                )
                self.assertEqual(self.numbers(program, attempt), expected)
