from hypothesis import given, settings
from hypothesis import strategies as st

from placement.support import EU, T4, US, demand
from trainshed.placement.jobs import QuotaRule
from trainshed.placement.quota import Quotas


def limit_of(rules, project, region=US):
    claims = Quotas(rules).claims(project, demand(1, region=region))
    return claims[0].limit if claims else None


def test_a_rule_for_all_is_counted_for_each_project_and_region_apart():
    quotas = Quotas([QuotaRule(accelerator=T4, limit=4)])
    quotas.take(1, "p", demand(4))
    assert quotas.exceeded("p", demand(1))
    assert not quotas.exceeded("q", demand(4))
    assert not quotas.exceeded("p", demand(4, region=EU))
    assert not quotas.exceeded("p", demand(4, gpu_type="other"))


def test_the_most_special_rule_counts():
    rules = [
        QuotaRule(accelerator=T4, limit=4),
        QuotaRule(accelerator=T4, limit=2, region=EU),
        QuotaRule(accelerator=T4, limit=16, project="p"),
        QuotaRule(accelerator=T4, limit=8, project="p", region=EU),
    ]
    assert [limit_of(rules, "q"), limit_of(rules, "q", EU)] == [4, 2]
    assert [limit_of(rules, "p"), limit_of(rules, "p", EU)] == [16, 8]


def test_all_replicas_count():
    quotas = Quotas([QuotaRule(accelerator=T4, limit=8)])
    exceeded = quotas.exceeded("p", demand(2, workers=4))
    assert [(one.claim.amount, one.in_use, one.claim.limit) for one in exceeded] == [(10, 0, 8)]
    assert quotas.too_large("p", demand(2, workers=4))


def test_what_no_rule_counts_is_never_over():
    assert not Quotas().exceeded("p", demand(1000))


@settings(deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.integers(1, 4), st.sampled_from("pq"), st.integers(0, 5), st.booleans())
    )
)
def test_what_is_in_use_is_what_was_taken_and_not_released(steps):
    quotas = Quotas([QuotaRule(accelerator=T4, limit=0)])
    claims = {}
    for uid, project, gpus, take in steps:
        if take:
            quotas.take(uid, project, demand(gpus))
            claims[uid] = (project, gpus)
        else:
            quotas.release(uid)
            claims.pop(uid, None)
    for project in "pq":
        exceeded = quotas.exceeded(project, demand(1))[0]
        assert exceeded.in_use == sum(n for p, n in claims.values() if p == project)
        assert set(quotas.users(exceeded.claim.bucket)) == {
            uid for uid, (p, n) in claims.items() if p == project and n
        }
