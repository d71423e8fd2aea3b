"""``trainshed quotas list`` prints limits beside what is in use."""

from cli.standin import StandIn

ROWS = [
    {"project": "p", "region": "*", "accelerator": "NVIDIA_TESLA_T4", "limit": 4, "inUse": 0,
     "jobs": 0},
    {"project": "p", "region": "us-central1", "accelerator": "NVIDIA_L4", "inUse": 3, "jobs": 2},
    {"project": "p", "region": "us-central1", "accelerator": "NVIDIA_TESLA_T4", "limit": 4,
     "inUse": 3, "jobs": 1},
]  # fmt: skip


def list_quotas(trainshed, home, rows, *flags):
    paths = []

    def answer(_verb, path, _document):
        paths.append(path)
        return 200, {"quotas": rows}

    with StandIn(answer) as server:
        server.note(home / "data")
        run = trainshed("quotas", "list", "--project", "p", *flags)
    assert run.code == 0, run.err
    return run, paths[-1]


def test_a_table_has_limit_use_and_what_is_free(trainshed, home):
    run, path = list_quotas(trainshed, home, ROWS)
    assert path == "/trainshed/v1/projects/p/quotas"
    cells = [line.split() for line in run.out.splitlines()[2:]]
    assert cells == [
        ["p", "each", "NVIDIA_TESLA_T4", "4", "0", "4", "0"],
        ["p", "us-central1", "NVIDIA_L4", "none", "3", "2"],
        ["p", "us-central1", "NVIDIA_TESLA_T4", "4", "3", "1", "1"],
    ]
    assert max(map(len, run.out.splitlines())) <= 80


def test_json_is_what_the_server_said_of_all_projects(trainshed, home):
    run, path = list_quotas(trainshed, home, ROWS, "--all-projects", "--format", "json")
    assert path == "/trainshed/v1/projects/-/quotas"
    assert run.json == ROWS


def test_no_quota_says_where_to_set_one(trainshed, home):
    run, _ = list_quotas(trainshed, home, [])
    assert "[[quota]] in config.toml sets one" in run.err
