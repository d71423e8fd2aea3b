"""What a replica learns from its environment; written with unittest, to run on a bare Python."""
# ruff: noqa: INP001, PT009, PT027  # unittest on a bare Python: no pytest, no package

from __future__ import annotations

import json
import unittest
from typing import Any

from trainshed_trainer import ReplicaEnv

PEERS = {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1"]}
POOLS = {"workerpool0": ["a:1"], "workerpool1": ["b:1", "c:1"], "workerpool2": ["d:1"]}


def tf_config(task_type: str, index: Any = 0, cluster: Any = None, **task: Any) -> dict[str, str]:
    """Build the environment of a replica that has TF_CONFIG."""
    task = {"type": task_type, "index": index, **task}
    return {
        "TF_CONFIG": json.dumps({"cluster": PEERS if cluster is None else cluster, "task": task})
    }


def cluster_spec(task_type: str, index: int = 0, **more: Any) -> dict[str, str]:
    """Build the environment of a replica that has CLUSTER_SPEC."""
    document = {"cluster": POOLS, "task": {"type": task_type, "index": index}, **more}
    return {"CLUSTER_SPEC": json.dumps(document)}


def read(environ: dict[str, str], *argv: str) -> ReplicaEnv:
    """Read an environment with a command line of its own, not the test runner's."""
    return ReplicaEnv.from_environ(environ, argv)


class OutsideAJob(unittest.TestCase):
    """The sane values of a program that nobody launched."""

    def test_is_a_single_primary(self) -> None:
        self.assertEqual(read({}), ReplicaEnv())
        self.assertTrue(read({}).is_primary)
        self.assertEqual((read({}).rank, read({}).world_size), (0, 1))

    def test_an_empty_description_is_a_single_primary_too(self) -> None:
        for text in ("", "{}", '{"task": {}, "cluster": {}, "environment": "cloud"}'):
            self.assertEqual(read({"TF_CONFIG": text}), ReplicaEnv(), text)

    def test_torchrun_alone_gives_rank_and_size(self) -> None:
        environ = {"RANK": "2", "WORLD_SIZE": "4", "MASTER_ADDR": "h", "MASTER_PORT": "29500"}
        env = read(environ)
        self.assertEqual((env.role, env.index, env.rank, env.world_size), ("worker", 1, 2, 4))
        self.assertEqual(env.peers, {"primary": ["h:29500"]})


class TfConfig(unittest.TestCase):
    """The cluster as TensorFlow reads it."""

    def test_every_role_finds_itself(self) -> None:
        expected = {
            ("chief", 0): ("primary", 0, 0),
            ("worker", 1): ("worker", 1, 2),
            ("ps", 0): ("parameter_server", 0, None),
            ("evaluator", 0): ("evaluator", 0, None),
        }
        for (task_type, index), (role, number, rank) in expected.items():
            env = read(tf_config(task_type, index))
            self.assertEqual((env.role, env.index, env.rank), (role, number, rank))
            self.assertEqual(env.world_size, 3)

    def test_peers_are_listed_by_role(self) -> None:
        peers = {"primary": ["a:1"], "worker": ["b:1", "c:1"], "parameter_server": ["d:1"]}
        self.assertEqual(read(tf_config("ps")).peers, peers)

    def test_master_is_another_word_for_chief(self) -> None:
        self.assertTrue(read(tf_config("master", cluster={"master": ["a:1"]})).is_primary)

    def test_the_first_worker_leads_a_cluster_without_a_chief(self) -> None:
        cluster = {"worker": ["a:1", "b:1"]}
        first, second = (read(tf_config("worker", i, cluster)) for i in (0, 1))
        self.assertEqual((first.role, first.index, first.rank), ("primary", 0, 0))
        self.assertEqual((second.role, second.index, second.rank), ("worker", 0, 1))
        self.assertEqual(first.peers, {"primary": ["a:1"], "worker": ["b:1"]})
        outsider = read(tf_config("ps", 0, {"worker": ["a:1"], "ps": ["p:1"]}))
        self.assertEqual((outsider.role, outsider.rank), ("parameter_server", None))

    def test_rank_and_world_size_win_over_the_count(self) -> None:
        env = read({**tf_config("worker", 1), "RANK": "5", "WORLD_SIZE": "6"})
        self.assertEqual((env.index, env.rank, env.world_size), (1, 5, 6))


class ClusterSpec(unittest.TestCase):
    """The cluster as Vertex AI describes it."""

    def test_pools_are_roles(self) -> None:
        expected = ["primary", "worker", "parameter_server", "evaluator"]
        for pool, role in enumerate(expected):
            self.assertEqual(read(cluster_spec(f"workerpool{pool}")).role, role)

    def test_pool_2_is_reducers_when_its_image_says_so(self) -> None:
        image = {"imageUri": "eu-docker.pkg.dev/vertex-ai/reductionserver:latest"}
        job = {"workerPoolSpecs": [{}, {}, {"containerSpec": image}]}
        self.assertEqual(read(cluster_spec("workerpool2", job=job)).role, "reducer")
        self.assertIn("reducer", read(cluster_spec("workerpool0", job=job)).peers)

    def test_it_is_read_before_tf_config(self) -> None:
        environ = {**tf_config("worker", 1), **cluster_spec("workerpool0")}
        self.assertEqual(read(environ).role, "primary")


class JobAndDirectories(unittest.TestCase):
    """Which job and trial, and where results go."""

    def test_job_and_trial_are_named(self) -> None:
        env = read({"CLOUD_ML_JOB_ID": "j7", "CLOUD_ML_TRIAL_ID": "3"})
        self.assertEqual((env.job_id, env.trial), ("j7", "3"))
        self.assertEqual(read(tf_config("worker", trial="2")).trial, "2")

    def test_job_dir_is_the_last_one_given_and_has_folders_below(self) -> None:
        env = read({}, "task.py", "--job-dir=/mine", "--", "x", "--job-dir", "gs://b/out/")
        self.assertEqual(env.job_dir, "gs://b/out/")
        self.assertEqual(env.model_dir, "gs://b/out/model/")
        self.assertEqual(env.checkpoint_dir, "gs://b/out/checkpoints/")
        self.assertEqual(env.tensorboard_dir, "gs://b/out/logs/")

    def test_vertex_variables_name_the_folders_and_their_parent_is_the_job_dir(self) -> None:
        env = read({"AIP_MODEL_DIR": "/base/model/", "AIP_CHECKPOINT_DIR": "/elsewhere/"})
        self.assertEqual((env.job_dir, env.model_dir), ("/base", "/base/model/"))
        self.assertEqual(env.checkpoint_dir, "/elsewhere/")

    def test_a_flag_without_its_value_names_nothing(self) -> None:
        self.assertIsNone(read({}, "task.py", "--job-dir").job_dir)
        self.assertIsNone(read({}, "task.py", "--job-dirs", "x").job_dir)


class Attempts(unittest.TestCase):
    """Whether this is the job's first start."""

    def test_the_first_attempt_is_no_restart_and_so_is_none_named(self) -> None:
        for environ in ({}, {"TRAINSHED_ATTEMPT": ""}, {"TRAINSHED_ATTEMPT": "1"}):
            env = read(environ)
            self.assertEqual((env.attempt, env.is_restart), (1, False))

    def test_the_third_is_one(self) -> None:
        env = read({"TRAINSHED_ATTEMPT": "3"})
        self.assertEqual((env.attempt, env.is_restart), (3, True))


class MalformedVariables(unittest.TestCase):
    """The error for a malformed variable has the variable's name and the accepted values."""

    CASES = (
        ({"TF_CONFIG": "{"}, "TF_CONFIG must be JSON"),
        ({"TF_CONFIG": "[]"}, "TF_CONFIG: the value must be a dict"),
        ({"CLUSTER_SPEC": '{"cluster": 3}'}, "CLUSTER_SPEC: cluster must be a dict"),
        ({"CLUSTER_SPEC": '{"cluster": {"worker": "a"}}'}, "CLUSTER_SPEC: cluster.worker"),
        ({"CLUSTER_SPEC": '{"cluster": {"boss": ["a:1"]}}'}, "CLUSTER_SPEC: a task type must"),
        (tf_config("worker", "x"), "TF_CONFIG: task.index"),
        (tf_config("worker", -1), "TF_CONFIG: task.index"),
        (tf_config("worker", 2), "TF_CONFIG: task must be in the cluster, got worker 2"),
        ({"RANK": "one", "WORLD_SIZE": "2"}, "RANK must be a whole number"),
        ({"RANK": "1"}, "WORLD_SIZE must be a whole number"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "RANK must be from 0 to 1"),
        ({"TRAINSHED_ATTEMPT": "two"}, "TRAINSHED_ATTEMPT must be a whole number"),
        ({"TRAINSHED_ATTEMPT": "0"}, "TRAINSHED_ATTEMPT must be 1 or more"),
    )

    def test_the_variable_is_named(self) -> None:
        for environ, message in self.CASES:
            with self.subTest(environ), self.assertRaises(ValueError) as caught:
                read(environ)
            self.assertIn(message, str(caught.exception))


if __name__ == "__main__":
    unittest.main()
