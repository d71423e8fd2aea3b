"""The command lines of ``trainshed tokens`` and ``trainshed keys``."""

import argparse
from pathlib import Path

from trainshed.cli import flags
from trainshed.cli.connecting import PROJECT_VARIABLES

TOKENS_EXAMPLE = """\
  trainshed tokens create --project demo --role submitter --name laptop
  trainshed tokens create --all-projects --role viewer --expires 30d --out viewer-token
  trainshed tokens list --format json"""
KEYS_EXAMPLE = """\
  trainshed keys create --name ci --project demo --out ci.json
  trainshed keys add --key-file service-account.json --project demo
  trainshed keys add --email ci@demo.iam.gserviceaccount.com --public-key ci.pem
  trainshed keys list"""


def credentials(prog: str) -> flags.Parser:
    """The command line of ``tokens`` or ``keys``."""
    noun = prog.rpartition(" ")[2]
    parser = _tokens(prog) if noun == "tokens" else _keys(prog)
    parser.set_defaults(noun=noun)
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--project", metavar="ID", help=f"The one project ({PROJECT_VARIABLES[0]} of the shell)"
    )
    which.add_argument("--all-projects", action="store_true", help="Every project, later ones too")
    parser.add_argument(
        "--role",
        choices=("viewer", "submitter", "admin"),
        help="viewer reads; submitter runs jobs too; admin gives out tokens too (submitter)",
    )
    flags.add_server_flags(parser)
    parser.add_argument(
        "--database",
        metavar="URL",
        help="The server's database, for when no server runs; default: as in config.toml",
    )
    flags.add_format(parser)
    return parser


def _tokens(prog: str) -> flags.Parser:
    parser = flags.Parser(
        prog,
        summary="Makes, lists and revokes tokens. A running server is asked; without one, its "
        "database is changed. A token's text is shown when it is made and never again.",
        example=TOKENS_EXAMPLE,
        usage=f"{prog} create | list | revoke ID [flags]",
    )
    parser.check = _check_tokens
    parser.add_argument("action", choices=("create", "list", "revoke"), metavar="ACTION")
    parser.add_argument("id", metavar="ID", nargs="?", help="which token to revoke")
    parser.add_argument("--name", help="What the token is called in logs and lists")
    parser.add_argument(
        "--expires", metavar="TIME", help="Its life, such as 30d; default: for ever"
    )
    parser.add_argument(
        "--out", metavar="FILE", type=Path, help="Write the token to a file of mode 600 instead"
    )
    return parser


def _check_tokens(parser: flags.Parser, args: argparse.Namespace) -> None:
    if (args.action == "revoke") != (args.id is not None):
        parser.error("revoke takes the ID of a token, and nothing else does")
    if args.expires and args.action != "create":
        parser.error("--expires is for create")


def _keys(prog: str) -> flags.Parser:
    parser = flags.Parser(
        prog,
        summary="Makes and registers keys of service accounts, whose clients then sign their own "
        "tokens: GOOGLE_APPLICATION_CREDENTIALS is all that they need. create makes a key that "
        "Google does not know; add registers one that exists. Private keys never leave this "
        "machine.",
        example=KEYS_EXAMPLE,
        usage=f"{prog} create | add | list | remove ID [flags]",
    )
    parser.check = _check_keys
    parser.add_argument("action", choices=("create", "add", "list", "remove"), metavar="ACTION")
    parser.add_argument("id", metavar="ID", nargs="?", help="which key to remove")
    parser.add_argument(
        "--key-file", metavar="FILE", type=Path, help="Key file of a service account (JSON)"
    )
    parser.add_argument("--name", help="What the account of create is called (account)")
    parser.add_argument(
        "--out", metavar="FILE", type=Path, help="Write the key file of create here, with mode 600"
    )
    parser.add_argument("--email", help="Address of the service account")
    parser.add_argument("--public-key", metavar="FILE", type=Path, help="Its public key (PEM)")
    return parser


def _check_keys(parser: flags.Parser, args: argparse.Namespace) -> None:
    if (args.action == "remove") != (args.id is not None):
        parser.error("remove takes the ID of a key, and nothing else does")
    if args.action != "create" and (args.name or args.out):
        parser.error("--name and --out are for create")
    if args.action == "create" and (args.key_file or args.email or args.public_key):
        parser.error("create makes the key and the address itself; add takes those that exist")
    if args.action == "add" and not args.key_file and not (args.email and args.public_key):
        parser.error("add takes --key-file FILE, or --email EMAIL with --public-key FILE")
    if args.key_file and (args.email or args.public_key):
        parser.error("--key-file has the e-mail address and the key in it")
