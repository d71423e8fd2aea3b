"""What holds for every shape of job, in both dialects."""

import json

from hypothesis import given
from hypothesis import strategies as st

from launch.builders import STUDY, TrialSpec, container, ml_spec, package, plan_of, vertex_spec
from trainshed.launch.names import TASK_WORD
from trainshed.model.launch_plan import Address
from trainshed.model.roles import Dialect, Role

#: Words as a shell could pass them: any text, flags and empty words among it.
WORDS = st.lists(
    st.one_of(st.sampled_from(["--", "", "--job-dir", "$(X)"]), st.text(max_size=8)), max_size=5
)
TRIALS = st.builds(
    TrialSpec,
    trial_id=st.integers(1, 99).map(str),
    parameters=st.lists(st.tuples(st.sampled_from(["lr", "batch"]), st.text(max_size=4))).map(
        tuple
    ),
)


@st.composite
def shapes(draw, *, reducers):
    third = draw(st.sampled_from([Role.PARAMETER_SERVER, *([Role.REDUCER] if reducers else [])]))
    counts = {role: draw(st.integers(0, 3)) for role in (Role.WORKER, third, Role.EVALUATOR)}
    return {Role.PRIMARY: 1, **counts}


@st.composite
def specs(draw):
    if draw(st.booleans()):
        args = draw(WORDS)
        program = draw(st.sampled_from([container(args=args), package(args=args)]))
        return vertex_spec(draw(shapes(reducers=True)), program, study=STUDY)
    args = draw(WORDS)
    program = draw(st.sampled_from([container(args=args), package("1.15", args=args)]))
    return ml_spec(draw(shapes(reducers=False)), program, study=STUDY)


@st.composite
def plans(draw):
    """Compose a spec with addresses of which no two are alike."""
    spec = draw(specs())
    addresses = {
        (group.role, index): Address(
            host=f"10.0.{list(Role).index(group.role)}.{index}",
            port=draw(st.integers(1, 65535)),
            rendezvous_port=draw(st.integers(1, 65535)),
        )
        for group in spec.groups
        for index in range(group.count)
    }
    trial = draw(st.none() | TRIALS)
    return spec, addresses, plan_of(spec, addresses=addresses, trial=trial)


def values_of(plan, name):
    return [replica.env[name] for replica in plan.replicas if name in replica.env]


@given(plans())
def test_ranks_are_a_permutation_of_the_world(drawn):
    spec, _, plan = drawn
    ranks = sorted(int(rank) for rank in values_of(plan, "RANK"))
    size = len(list(spec.world)) if spec.replica_count > 1 else 0
    assert ranks == list(range(size))
    assert set(values_of(plan, "WORLD_SIZE")) <= {str(size)}
    assert values_of(plan, "JAX_PROCESS_ID") == values_of(plan, "RANK")


@given(plans())
def test_the_cluster_is_the_same_on_all_replicas(drawn):
    _, _, plan = drawn
    for name in ("TF_CONFIG", "CLUSTER_SPEC"):
        clusters = [json.loads(value)["cluster"] for value in values_of(plan, name)]
        assert all(cluster == clusters[0] for cluster in clusters)


@given(plans())
def test_each_replica_finds_its_own_address_at_its_own_place(drawn):
    _, addresses, plan = drawn
    for replica in plan.replicas:
        for name in ("TF_CONFIG", "CLUSTER_SPEC"):
            described = json.loads(replica.env.get(name, "null"))
            if not described or (name, replica.role) == ("TF_CONFIG", Role.EVALUATOR):
                continue
            task = described["task"]
            own = addresses[replica.role, replica.index].text
            assert described["cluster"][task["type"]][task["index"]] == own


@given(plans())
def test_tf_config_never_lists_evaluators_or_reducers(drawn):
    _, _, plan = drawn
    for value in values_of(plan, "TF_CONFIG"):
        assert set(json.loads(value)["cluster"]) <= {"chief", "master", "worker", "ps"}


@given(plans())
def test_cluster_spec_lists_each_replica_once(drawn):
    spec, addresses, plan = drawn
    for value in values_of(plan, "CLUSTER_SPEC"):
        cluster = json.loads(value)["cluster"]
        assert set(cluster) <= set(TASK_WORD[spec.dialect].values())
        members_of_all = [address for members in cluster.values() for address in members]
        assert sorted(members_of_all) == sorted(address.text for address in addresses.values())


@given(plans())
def test_the_users_words_are_one_untouched_run_of_the_command_line(drawn):
    spec, _, plan = drawn
    for replica in plan.replicas:
        if replica.role is Role.REDUCER:
            continue
        args = spec.group(replica.role).program.args
        start = 3 if replica.argv[1] == "-m" else 2
        assert replica.argv[start : start + len(args)] == args


@given(plans())
def test_the_shape_alone_decides_who_has_tf_config(drawn):
    spec, _, plan = drawn
    expected = spec.dialect is Dialect.ML_V1 or spec.replica_count > 1
    for replica in plan.replicas:
        assert ("TF_CONFIG" in replica.env) == (expected and replica.role is not Role.REDUCER)


@given(plans())
def test_task_names_are_unique_and_the_environment_is_text(drawn):
    _, _, plan = drawn
    task_names = [replica.task_name for replica in plan.replicas]
    assert len(set(task_names)) == len(task_names)
    assert all(
        isinstance(value, str) for replica in plan.replicas for value in replica.env.values()
    )
