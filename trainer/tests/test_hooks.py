"""Hooks come with the environment alone, and whatever goes wrong in them is not the program's."""
# ruff: noqa: INP001, PT009  # unittest on a bare Python: no pytest, no package

from __future__ import annotations

from hooked_program import HookedProgram


class Hooks(HookedProgram):
    """A Python of its own for each test."""

    STEPS = "import torch.optim.optimizer as o\nfor _ in range(5): o.SGD().step()\n"

    def test_steps_of_an_optimizer_are_noted(self) -> None:
        one = "import torch.optim.optimizer as o\nsgd = o.SGD()\nfor _ in range(5): sgd.step()\n"
        self.run_program(one, TRAINSHED_STEPS="hooks")
        report = self.written()
        self.assertEqual(report["steps"], 4)
        model = {"parameters": 42, "largest": 30, "gradient_bytes": 168, "stack": "torch 2.9"}
        state = {"device": "cpu", "state_bytes": 3 * 168}
        self.assertEqual(report["model"], {**model, **state})
        self.assertGreater(report["host_bytes"], 1e6)
        self.assertEqual((report["device_bytes"], report["micro_batches"]), (0, 0))

    #: A step has three backward passes, and its loader returns so many batches.
    BACKWARD = (
        "import torch, torch.autograd as a, torch.optim.optimizer as o\n"
        "import torch.utils.data.dataloader as d, torch.nn.modules.module as m\n"
        "sgd, data = o.SGD(), d._BaseDataLoaderIter(m.Batch())\n"
        "for _ in range(5):\n"
        "    for number in range(3):\n"
        "        if number < {batches}: next(data)\n"
        "        a.backward()\n"
        "    sgd.step()\n"
    )

    def test_batches_whose_gradients_are_added_up_are_micro_batches_of_a_step(self) -> None:
        for batches, micro_batches in ((0, 3), (1, 1), (3, 3)):
            with self.subTest(batches=batches):
                program = self.BACKWARD.format(batches=batches)
                self.run_program(program, TRAINSHED_STEPS="hooks")
                report = self.written()
                self.assertEqual((report["steps"], report["micro_batches"]), (4, micro_batches))

    def test_a_checkpointed_layer_makes_no_micro_batch(self) -> None:
        self.run_program(
            "import torch.autograd as a, torch.optim.optimizer as o\n"
            "sgd = o.SGD()\n"
            "for _ in range(5): a.backward(a.backward); sgd.step()\n",
            TRAINSHED_STEPS="hooks",
        )
        self.assertEqual(self.written()["micro_batches"], 1)

    def test_memory_of_a_device_is_reported(self) -> None:
        self.run_program(
            "import torch, torch.optim.optimizer as o\n"
            "o.Size.is_cuda = True\n"
            "torch.cuda.max_memory_allocated = lambda device: 5e9\n"
            "sgd = o.SGD()\n"
            "for _ in range(5): sgd.step()\n",
            TRAINSHED_STEPS="hooks",
        )
        report = self.written()
        self.assertEqual((report["device_bytes"], report["model"]["device"]), (5e9, "cuda"))

    def test_nothing_is_hooked_where_nobody_asked(self) -> None:
        self.run_program(self.STEPS)
        self.assertFalse(self.file.exists())

    def test_a_framework_of_another_shape_is_left_alone(self) -> None:
        broken = self.folder / "torch" / "optim" / "optimizer.py"
        broken.write_text("register_optimizer_step_post_hook = 5\ndone = True\n")
        said = self.run_program(
            "import torch.optim.optimizer as o; print(o.done)", TRAINSHED_STEPS="hooks"
        )
        self.assertEqual(said, "True\n")

    def test_a_hook_that_fails_is_taken_off_and_the_training_goes_on(self) -> None:
        said = self.run_program(
            "import torch.optim.optimizer as o, torch.utils.data.dataloader as d\n"
            "from keras.src.callbacks.callback_list import CallbackList\n"
            "class Odd: param_groups = None\n"
            "for each in o.HOOKS: each(Odd(), (), {})\n"
            "sgd, data, lists = o.SGD(), d._BaseDataLoaderIter('batch'), CallbackList()\n"
            "del CallbackList.model\n"
            "for batch in range(5):\n"
            "    sgd.step(); lists.on_train_batch_end(batch)\n"
            "    print(next(data))\n",
            TRAINSHED_STEPS="hooks",
        )
        self.assertEqual(said, 5 * "batch\n")
        self.assertEqual(self.written()["steps"], 0)
        self.assertEqual(self.stderr.count("WARNING: cannot record steps by hooks"), 1)

    def test_progress_tells_steps_once_hooks_see_no_more(self) -> None:
        self.run_program(
            "import torch.optim.optimizer as o\n"
            "from trainshed_trainer import progress\n"
            "sgd = o.SGD()\n"
            "for step in range(3): sgd.step(); progress(step)\n"
            "sgd.param_groups = None\n"
            "for step in range(3, 8): sgd.step(); progress(step)\n",
            TRAINSHED_STEPS="hooks",
        )
        self.assertEqual(self.written()["steps"], 2 + 4)

    def test_a_batch_without_a_size_is_none_of_its_business(self) -> None:
        self.run_program(
            "import torch.optim.optimizer as o, torch.utils.data.dataloader as d\n"
            "class Odd: shape = None\n"
            "sgd, data = o.SGD(), d._BaseDataLoaderIter([Odd()])\n"
            "for _ in range(5): next(data); sgd.step()\n",
            TRAINSHED_STEPS="hooks",
        )
        report = self.written()
        self.assertEqual((report["steps"], report["samples"]), (4, 0))

    def test_the_programs_own_customization_is_imported_too(self) -> None:
        (self.folder / "sitecustomize.py").write_text("print('own')\n")
        self.assertEqual(self.run_program("pass", TRAINSHED_STEPS="hooks"), "own\n")

    def test_the_models_own_batch_counts_where_no_loader_tells_samples(self) -> None:
        self.run_program(
            "import torch.optim.optimizer as o, torch.nn.modules.module as m\n"
            "sgd, model = o.SGD(), m.Model()\n"
            "model.inner = m.Model()\n"
            "for _ in range(21):\n"
            "    model(m.Batch()); model(m.Batch()); sgd.step()\n"
            "assert not m.LOOKING\n",
            TRAINSHED_STEPS="hooks",
        )
        report = self.written()
        self.assertEqual((report["steps"], report["samples"]), (20, 20 * 32))

    #: Half of what it fetches is evaluated with.
    EVALUATES = (
        "import torch, torch.optim.optimizer as o\n"
        "import torch.utils.data.dataloader as d, torch.nn.modules.module as m\n"
        "sgd, data = o.SGD(), d._BaseDataLoaderIter(m.Batch())\n"
    )

    def test_batches_that_are_evaluated_with_are_not_trained_on(self) -> None:
        self.run_program(
            f"{self.EVALUATES}"
            "for _ in range(5):\n"
            "    next(data)\n"
            "    torch.GRAD.append(False); next(data); torch.GRAD.pop()\n"
            "    sgd.step()\n",
            TRAINSHED_STEPS="hooks",
        )
        self.assertEqual(self.written()["samples"], 4 * 16)

    def test_a_step_without_a_batch_of_its_own_is_not_guessed_where_loaders_tell(self) -> None:
        self.run_program(
            f"{self.EVALUATES}"
            "model = m.Model()\n"
            "for _ in range(3):\n"
            "    next(data); model(m.Batch()); sgd.step()\n"
            "    model(m.Batch()); sgd.step()\n"
            "assert not m.LOOKING\n",
            TRAINSHED_STEPS="hooks",
        )
        self.assertEqual(self.written()["samples"], 2 * 16)

    def test_a_model_that_trains_as_it_evaluates_is_not_looked_at_for_ever(self) -> None:
        self.run_program(
            "import torch.optim.optimizer as o, torch.nn.modules.module as m\n"
            "sgd, model = o.SGD(), m.Model()\n"
            "model.training = False\n"
            "for _ in range(7): model(m.Batch()); sgd.step()\n"
            "assert not m.LOOKING\n",
            TRAINSHED_STEPS="hooks",
        )
        self.assertEqual(self.written()["samples"], 0)

    def test_a_second_training_is_seen_when_the_optimizer_of_the_first_is_gone(self) -> None:
        self.run_program(
            "import torch.optim.optimizer as o\n"
            "for count in (30, 70):\n"
            "    sgd = None\n"
            "    sgd = o.SGD()\n"
            "    sgd.param_groups = [{'params': [o.Size(count)]}]\n"
            "    for _ in range(5): sgd.step()\n",
            TRAINSHED_STEPS="hooks",
        )
        report = self.written()
        self.assertEqual((report["steps"], report["model"]["parameters"]), (8, 70))

    def test_a_second_training_is_seen_when_the_first_optimizer_steps_no_more(self) -> None:
        self.run_program(
            "import torch.optim.optimizer as o\n"
            "kept = [o.SGD(), o.SGD()]\n"
            "for sgd in kept:\n"
            "    for _ in range(50): sgd.step()\n",
            TRAINSHED_STEPS="hooks",
        )
        self.assertEqual(self.written()["steps"], 49 + 30)

    def test_optimizers_that_step_beside_the_first_are_not_counted(self) -> None:
        self.run_program(
            "import torch.optim.optimizer as o\n"
            "every = [o.SGD() for _ in range(100)]\n"
            "for _ in range(10):\n"
            "    for each in every: each.step()\n"
            "    for _ in range(5): every[1].step()\n",
            TRAINSHED_STEPS="hooks",
        )
        self.assertEqual(self.written()["steps"], 9)

    #: One step takes 0.01 s of a clock that nobody else moves.
    DEVICE = (
        "import time, trainshed_trainer\n"
        "now = [100.0]\n"
        "time.monotonic = lambda: now[0]\n"
        "import torch, torch.optim.optimizer as o\n"
        "import torch.utils.data.dataloader as d, torch.nn.modules.module as m\n"
        "o.Size.is_cuda = True\n"
        "sgd, data = o.SGD(), d._BaseDataLoaderIter(m.Batch())\n"
    )

    def test_a_job_waits_for_its_device_at_its_first_steps_and_seldom_after_them(self) -> None:
        said = self.run_program(
            f"{self.DEVICE}"
            "for _ in range(1256):\n"
            "    now[0] += 0.01; next(data); sgd.step()\n"
            "print(len(torch.cuda.WAITS))\n",
            TRAINSHED_STEPS="hooks",
        )
        self.assertLess(int(said), 256 + 1000 // 20)
        report = self.written()
        self.assertGreater(report["steps"], 1200)
        self.assertEqual(report["samples"], 16 * report["steps"])
        for one, _ in report["recent"]:
            self.assertAlmostEqual(one, 0.01)

    def test_a_device_that_computes_while_a_batch_is_fetched_waits_for_nothing(self) -> None:
        self.run_program(
            f"{self.DEVICE}"
            "class Slow:\n"
            "    @property\n"
            "    def batch(self): now[0] += 0.01; return m.Batch()\n"
            "d._BaseDataLoaderIter.batch = Slow.batch\n"
            "data = object.__new__(d._BaseDataLoaderIter)\n"
            "for _ in range(600):\n"
            "    torch.cuda.busy_until = now[0] + 0.006; next(data); sgd.step()\n",
            TRAINSHED_STEPS="hooks",
        )
        for one, waited in self.written()["recent"]:
            self.assertAlmostEqual(one, 0.01)
            self.assertAlmostEqual(waited, 0.004)

    def test_a_step_that_is_captured_as_a_graph_is_not_waited_for(self) -> None:
        said = self.run_program(
            f"{self.DEVICE}"
            "from trainshed_trainer import progress\n"
            "for _ in range(3): sgd.step()\n"
            "torch.cuda.CAPTURES.append(1); sgd.step(); torch.cuda.CAPTURES.pop()\n"
            "for step in range(6): progress(step)\n"
            "print('trained')\n",
            TRAINSHED_STEPS="hooks",
        )
        self.assertEqual(said, "trained\n")
        self.assertEqual(self.written()["steps"], 2 + 5)

    def test_batches_of_keras_are_noted_over_epochs(self) -> None:
        self.run_program(
            "from keras.src.callbacks.callback_list import CallbackList\n"
            "from keras.src.trainers.epoch_iterator import EpochIterator\n"
            "EpochIterator()\n"
            "callbacks = CallbackList()\n"
            "for _ in range(2):\n"
            "    for batch in range(5): callbacks.on_train_batch_end(batch)\n",
            TRAINSHED_STEPS="hooks",
        )
        report = self.written()
        self.assertEqual((report["steps"], report["samples"]), (9, 72))
        self.assertEqual(report["model"]["parameters"], 20)
        self.assertEqual(report["model"]["state_bytes"], 4 * 4 * 20)

    def test_batches_that_keras_adds_up_are_one_step(self) -> None:
        self.run_program(
            f"{self.KERAS}CallbackList.model.optimizer.gradient_accumulation_steps = 4\n"
            "callbacks = CallbackList()\n"
            "for batch in range(42): callbacks.on_train_batch_end(batch)\n",
            TRAINSHED_STEPS="hooks",
        )
        report = self.written()
        self.assertEqual((report["steps"], report["samples"]), (9, 9 * 4 * 8))
        self.assertEqual(report["micro_batches"], 4)

    KERAS = (
        "from keras.src.callbacks.callback_list import CallbackList\n"
        "from keras.src.trainers.epoch_iterator import EpochIterator\n"
        "EpochIterator(8)\n"
    )

    def test_data_that_keras_evaluates_with_is_not_trained_on(self) -> None:
        self.run_program(
            f"{self.KERAS}callbacks = CallbackList()\n"
            "for batch in range(5): callbacks.on_train_batch_end(batch)\n"
            "EpochIterator(500)\n"
            "for batch in range(5): callbacks.on_train_batch_end(batch)\n",
            TRAINSHED_STEPS="hooks",
        )
        self.assertEqual(self.written()["samples"], 72)

    def test_batches_that_keras_tells_together_all_count(self) -> None:
        self.run_program(
            f"{self.KERAS}callbacks = CallbackList()\n"
            "for batch in (9, 19, 29): callbacks.on_train_batch_end(batch)\n",
            TRAINSHED_STEPS="hooks",
        )
        report = self.written()
        self.assertEqual((report["steps"], report["samples"]), (20, 160))

    def test_callbacks_of_keras_without_a_model_tell_steps(self) -> None:
        self.run_program(
            f"{self.KERAS}del CallbackList.model\n"
            "callbacks = CallbackList()\n"
            "for batch in range(5): callbacks.on_train_batch_end(batch)\n",
            TRAINSHED_STEPS="hooks",
        )
        self.assertEqual(self.written()["steps"], 4)

    def test_the_input_of_keras_runs_alone_and_ends_the_program(self) -> None:
        said = self.run_program(
            "import itertools, time\n"
            "import trainshed_trainer.hooks as hooks\n"
            "hooks.FILL_S, hooks.INPUT_S = 0.0, 0.2\n"
            "time.monotonic = itertools.count(0.0, 0.01).__next__\n"  # on any machine the same
            "from keras.src.trainers.epoch_iterator import EpochIterator\n"
            "EpochIterator()\n"
            "print('trained')\n",
            TRAINSHED_STEPS="hooks,input",
        )
        self.assertEqual(said, "")
        self.assertGreater(self.written()["samples"], 0)
