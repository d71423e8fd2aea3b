"""The table in the docs is the one that the hostile trainer was held against."""

from isolation.expected import MODES, ROWS, outcome_of
from isolation.hostile import ATTEMPTS
from isolation.table import PAGE, page


def test_the_docs_have_the_table():
    text = PAGE.read_text()
    assert text == page(text), "python tests/isolation/table.py --write"


def test_no_row_of_the_table_is_idle():
    for row in ROWS:
        for names in row.names.split():
            fits = [name for name in ATTEMPTS if any(row.fits(name, mode) for mode in row.modes)]
            assert fits, names


def test_every_attempt_succeeds_where_there_are_no_walls_or_says_why_not():
    """What is denied without walls proves nothing of them."""
    none = MODES[-1]
    denied = {name for name in ATTEMPTS if outcome_of(name, none) != "done"}
    assert denied == {
        "connect_to_docker", "use_api_without_token", "order_supervisor",
        "order_foreign_supervisor", "forge_log_of_foreign_job",
        "find_foreign_attempt_in_command_lines", "find_secrets_in_environment", "read_disk",
        "tunnel_to_loopback", "tunnel_to_link_local", "tunnel_to_mapped_addresses",
        "tunnel_to_other_spellings", "tunnel_to_addresses_of_machine", "slip_lines_to_proxy",
        "send_two_hosts", "hold_all_tunnels", "use_up_descriptors_of_server", "lose_log_entries",
        "connect_to_grpc_of_gateway", "lead_bucket_elsewhere", "lead_backup_elsewhere",
        "swell_backup", "lead_restore_elsewhere", "take_ports_from_holder",
        "break_server_by_shrinking_file", "join_foreign_job_unnoticed",
    }  # fmt: skip
