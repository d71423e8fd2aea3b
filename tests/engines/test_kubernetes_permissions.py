"""The list of the API's verbs that the engine uses, in the words of a Role."""

from trainshed.engines.kubernetes.permissions import PERMISSIONS, compose_rules


def test_each_resource_is_in_the_list_once_and_with_sorted_verbs():
    names = [(row.group, row.resource) for row in PERMISSIONS]
    assert len(names) == len(set(names))
    assert all(list(row.verbs) == sorted(row.verbs) for row in PERMISSIONS)


def test_only_nodes_need_a_cluster_role_and_no_job_depends_on_them():
    (rule,) = compose_rules(is_of_cluster=True)
    assert rule == {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]}
    assert not any(row.is_needed for row in PERMISSIONS if row.is_of_cluster)
    assert len(compose_rules()) == len(PERMISSIONS) - 1


def test_the_engine_may_neither_read_secrets_nor_enter_pods():
    verbs = {row.resource: set(row.verbs) for row in PERMISSIONS}
    assert not verbs["secrets"] & {"get", "list", "watch"}
    assert not verbs.keys() & {"pods/log", "pods/exec", "pods/eviction"}


def test_a_rule_is_one_line_of_a_role():
    pods = next(row for row in PERMISSIONS if row.resource == "pods")
    assert pods.describe_rule(["watch"]) == (
        '- {apiGroups: [""], resources: ["pods"], verbs: ["watch"]}'
    )
    assert pods.role_kind == "Role"
