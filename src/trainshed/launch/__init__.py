"""Builds a LaunchPlan from a JobSpec: the environment and command of each replica.

``compose.compose`` is the entry point.  Each module has one task: ``tf_config``, ``cluster_spec``,
``torch_env``, ``jax_env`` and ``directories`` each give a replica some of its variables,
``arguments`` gives it its command line, ``user_env`` adds the user's variables.
"""
