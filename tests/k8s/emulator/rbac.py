"""Users, and what their roles let them do: 401 and 403 in the API server's words."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .kinds import Resource
from .statuses import ApiError, Unauthorized

ANONYMOUS = "system:anonymous"
MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
_PUBLIC = ("/healthz", "/livez", "/readyz", "/version")
#: Every user may ask what it may do.
_REVIEWS = "selfsubjectaccessreviews"
_DISCOVERY = ("/api", "/apis", "/openapi")


@dataclass(frozen=True, slots=True)
class User:
    name: str
    groups: tuple[str, ...] = (AUTHENTICATED,)


NOBODY = User(ANONYMOUS, ())


@dataclass(frozen=True, slots=True)
class Action:
    """What a request does: a verb on a resource, or on a path that is no resource."""

    verb: str
    group: str = ""
    plural: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def resource(self) -> str:
        return f"{self.plural}/{self.subresource}" if self.subresource else self.plural


@dataclass(frozen=True, slots=True)
class _Binding:
    user: str
    rules: tuple[Mapping[str, Any], ...]
    namespace: str


class Access:
    """Tokens and role bindings; both may be changed while the server runs."""

    def __init__(self) -> None:
        self._tokens: dict[str, User] = {}
        self._bindings: list[_Binding] = []

    def add_user(self, name: str, token: str, groups: Collection[str] = ()) -> User:
        """A user with a token; the group ``system:masters`` may do everything."""
        user = User(name, (*groups, AUTHENTICATED))
        self._tokens[token] = user
        return user

    def revoke(self, token: str) -> None:
        """From now on requests with this token get 401."""
        self._tokens.pop(token, None)

    def bind(self, user: str, role: Mapping[str, Any], namespace: str = "") -> None:
        """Give a user the rules of a Role (in its namespace) or of a ClusterRole.

        A ClusterRole holds everywhere, or with ``namespace`` in that alone.
        """
        if role.get("kind") == "Role":
            namespace = namespace or role["metadata"]["namespace"]
        self._bindings.append(_Binding(user, tuple(role.get("rules") or ()), namespace))

    def unbind(self, user: str) -> None:
        """Take all rules of a user."""
        self._bindings = [row for row in self._bindings if row.user != user]

    def authenticate(
        self,
        header: str | None,
        impersonated: str | None = None,
        certificate: Mapping[str, Any] | None = None,
    ) -> User:
        """The user of an Authorization header, else of a client's certificate, else nobody.

        Unauthorized means a token that no user has.
        """
        if not header:
            return read_certificate(certificate) if certificate else NOBODY
        scheme, _, token = header.partition(" ")
        user = self._tokens.get(token.strip()) if scheme.lower() == "bearer" else None
        if user is None:
            raise Unauthorized
        if impersonated and MASTERS in user.groups:
            return User(impersonated)
        return user

    def allows(self, user: User, action: Action) -> bool:
        if MASTERS in user.groups:
            return True
        if action.path:
            return self._allows_path(user, action)
        if action.plural == _REVIEWS and user.name != ANONYMOUS:
            return True
        bindings = [row for row in self._bindings if row.user in (user.name, *user.groups)]
        return any(
            _holds(rule, action)
            for row in bindings
            if not row.namespace or row.namespace == action.namespace
            for rule in row.rules
        )

    def _allows_path(self, user: User, action: Action) -> bool:
        if action.path.startswith(_PUBLIC):
            return True
        return user.name != ANONYMOUS and action.path.startswith(_DISCOVERY)

    def require(self, user: User, action: Action) -> None:
        """Raise the API server's 403 where a user's roles do not allow an action."""
        if self.allows(user, action):
            return
        if action.path:
            message = f'forbidden: User "{user.name}" cannot {action.verb} path "{action.path}"'
            raise ApiError(403, "Forbidden", message, {})
        raise refuse(user, action)


def read_certificate(certificate: Mapping[str, Any]) -> User:
    """The user that a client's certificate names: its common name, its organizations as groups."""
    rows = [row for rdn in certificate.get("subject", ()) for row in rdn]
    names = [value for key, value in rows if key == "commonName"]
    groups = [value for key, value in rows if key == "organizationName"]
    return User(names[0], (*groups, AUTHENTICATED)) if names else NOBODY


def refuse(user: User, action: Action) -> ApiError:
    subject = f"{action.plural}.{action.group}" if action.group else action.plural
    named = f' "{action.name}"' if action.name else ""
    scope = f'in the namespace "{action.namespace}"' if action.namespace else "at the cluster scope"
    message = (
        f'{subject}{named} is forbidden: User "{user.name}" cannot {action.verb} resource '
        f'"{action.resource}" in API group "{action.group}" {scope}'
    )
    details = {"name": action.name, "group": action.group, "kind": action.plural}
    return ApiError(403, "Forbidden", message, {k: v for k, v in details.items() if v})


def _holds(rule: Mapping[str, Any], action: Action) -> bool:
    names = rule.get("resourceNames") or ()
    return (
        _has(rule.get("verbs", ()), action.verb)
        and _has(rule.get("apiGroups", ()), action.group)
        and _has(rule.get("resources", ()), action.resource)
        and (not names or action.name in names)
    )


def _has(values: Iterable[str], value: str) -> bool:
    return any(row in ("*", value) for row in values)


def make_action(resource: Resource, verb: str, **more: str) -> Action:
    return Action(verb, resource.group, resource.plural, **more)
