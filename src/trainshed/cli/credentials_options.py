"""The command lines of ``trainshed tokens`` and ``trainshed keys``."""

from collections.abc import Sequence
from pathlib import Path

from trainshed.cli import flags
from trainshed.cli.client_flags import add_database_flag, add_grant_flags, add_server_flags


def request(prog: str, argv: Sequence[str]) -> flags.Request:
    """Read a command line.  Raises UsageFault."""
    noun = prog.rpartition(" ")[2]
    found = {"tokens": _tokens_request, "keys": _keys_request}[noun](prog, argv)
    found.args.noun = noun
    return found


TOKENS_EXAMPLE = """\
  trainshed tokens create --project demo --role submitter --name laptop
  trainshed tokens create --role viewer --out viewer-token
  trainshed tokens list --format json"""


def _tokens_request(prog: str, argv: Sequence[str]) -> flags.Request:
    parser = _tokens_parser(prog)
    args = parser.read(argv)
    if (args.action == "revoke") != (args.id is not None):
        parser.error("revoke takes the ID of a token, and nothing else does")
    return flags.Request(args)


def _tokens_parser(prog: str) -> flags.Parser:
    parser = flags.Parser(
        prog,
        summary="Makes, lists and revokes tokens. A running server is asked; without one, its "
        "database is changed. A token's text is shown when it is made and never again.",
        example=TOKENS_EXAMPLE,
        usage=f"{prog} create | list | revoke ID [flags]",
    )
    parser.add_argument("action", choices=("create", "list", "revoke"), metavar="ACTION")
    parser.add_argument("id", metavar="ID", nargs="?", help="which token to revoke")
    parser.add_argument("--name", help="What the token is called in logs and lists")
    add_grant_flags(parser)
    parser.add_argument(
        "--out", metavar="FILE", type=Path, help="Write the token to a file of mode 600 instead"
    )
    add_server_flags(parser)
    add_database_flag(parser)
    flags.add_format(parser)
    return parser


KEYS_EXAMPLE = """\
  trainshed keys add --key-file service-account.json --project demo
  trainshed keys add --email ci@demo.iam.gserviceaccount.com --public-key ci.pem
  trainshed keys list"""


def _keys_request(prog: str, argv: Sequence[str]) -> flags.Request:
    parser = _keys_parser(prog)
    args = parser.read(argv)
    if (args.action == "remove") != (args.id is not None):
        parser.error("remove takes the ID of a key, and nothing else does")
    if args.action == "add" and not args.key_file and not (args.email and args.public_key):
        parser.error("add takes --key-file FILE, or --email EMAIL with --public-key FILE")
    if args.key_file and (args.email or args.public_key):
        parser.error("--key-file has the e-mail address and the key in it")
    return flags.Request(args)


def _keys_parser(prog: str) -> flags.Parser:
    parser = flags.Parser(
        prog,
        summary="Registers public keys of service accounts, whose clients then sign their own "
        "tokens: GOOGLE_APPLICATION_CREDENTIALS is all that they need. Private keys stay where "
        "they are.",
        example=KEYS_EXAMPLE,
        usage=f"{prog} add | list | remove ID [flags]",
    )
    parser.add_argument("action", choices=("add", "list", "remove"), metavar="ACTION")
    parser.add_argument("id", metavar="ID", nargs="?", help="which key to remove")
    parser.add_argument(
        "--key-file", metavar="FILE", type=Path, help="Key file of a service account (JSON)"
    )
    parser.add_argument("--email", help="Address of the service account")
    parser.add_argument("--public-key", metavar="FILE", type=Path, help="Its public key (PEM)")
    add_grant_flags(parser)
    add_server_flags(parser)
    add_database_flag(parser)
    flags.add_format(parser)
    return parser
