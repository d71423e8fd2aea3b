"""What each replica of a job gets to know: from a JobSpec to a LaunchPlan, by pure functions.

``compose.compose`` is the way in.  One module answers one question: ``tf_config``,
``cluster_spec``, ``torch_env``, ``jax_env`` and ``directories`` each give a replica some of its
variables, ``arguments`` gives it its command line, ``user_env`` adds what the user asked for.
"""
