"""Converts a caller's JSON value to its normal form, and collects all violations.

The JSON parser of protobuf stops at the first fault and cannot name the caller's field.  This
parser continues, so that a refusal has all violations.  It accepts all forms that Google's clients
send (docs/sources/vertex.md 9.3): both key cases, enums as names or numbers, numbers as strings or
doubles, nulls, empty messages.
"""

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trainshed.model.faults import Violation
from trainshed.model.spelling import letters_of
from trainshed.wire.corrections import (
    YAML_WORDS,
    accepted_value,
    are_elements,
    list_of_named,
    list_of_words,
    object_of,
)
from trainshed.wire.fields import EnumInfo, FieldInfo, MessageInfo, Table
from trainshed.wire.misplaced import (
    PLACES_MAX,
    MessageFields,
    Move,
    dotted,
    is_guessed,
    move_fields,
    steps_of,
)
from trainshed.wire.parsed import Note, hint, nearest_field
from trainshed.wire.scalars import READERS, WANTED, WRONG, whole
from trainshed.wire.split_text import (
    has_shell_words,
    is_comma_list,
    is_command_line,
    is_whole_line,
    split_text,
)
from trainshed.wire.synonyms import PHRASES, VALUES, find_field

#: The most levels of nesting, as in protobuf's parsers; deeper documents are refused.
DEPTH_MAX: Final = 100

#: The most characters of a caller's text that a message repeats.
SHOWN_MAX: Final = 80

#: How often a document is parsed again after misplaced fields were moved.
ROUNDS_MAX: Final = 4

#: How many unknown fields get a hint; each costs a comparison with all names.
HINTS_MAX: Final = 100

#: Oneofs whose violation has a special rule.
RULE_OF_ONEOF: Final = {"task": "container-xor-python"}


@dataclass(frozen=True, slots=True, kw_only=True)
class NormalForm:
    """The normal form of a document, and its violations.  Faulty values are left out."""

    value: dict[str, Any]
    violations: tuple[Violation, ...]
    notes: tuple[Note, ...] = ()


def read(
    table: Table, message: str, document: Mapping[Any, Any], at: str = "", root: str = ""
) -> NormalForm:
    """Parse a document as a message.

    ``at`` is the dotted path of the document in a larger document of the message ``root``.

    The normal form has camelCase keys, names for enums, strings for 64-bit numbers, and neither
    nulls nor fields that only the server writes.  A faulty element of a list becomes an empty
    message, because the positions of elements have a meaning.  Misplaced and misspelled fields are
    reported, and parsed at their probable place.
    """
    info, root = table.messages[message], root or message
    reader = _MessageReader(table, root, document, at)
    value = reader.message(info, document, at, 0)
    violations, moves = list(reader.violations), list(reader.moves)
    for _ in range(ROUNDS_MAX):
        if not reader.moves:
            break
        document = move_fields(document, reader.moves)
        reader = _MessageReader(table, root, document, at)
        value = reader.message(info, document, at, 0)
        violations += _only_new(reader.violations, violations, moves, at)
        moves += reader.moves
    return NormalForm(value=value, violations=tuple(violations), notes=tuple(reader.notes))


def _only_new(
    violations: Iterable[Violation], reported: Sequence[Violation], moves: Sequence[Move], at: str
) -> list[Violation]:
    """Return the new violations of the corrected document, except those of guessed fields."""
    return [
        violation
        for violation in violations
        if violation not in reported
        and not is_guessed(str(violation.field).removeprefix(f"{at}." if at else ""), moves)
    ]


class _MessageReader:
    __slots__ = ("_places", "at", "document", "moves", "notes", "root", "table", "violations")

    def __init__(self, table: Table, root: str, document: Mapping[Any, Any], at: str) -> None:
        self.table = table
        self.root = root
        self.document = document
        self.at = at
        self.violations: list[Violation] = []
        self.moves: list[Move] = []
        self.notes: list[Note] = []
        self._places: MessageFields | None = None

    def message(
        self, info: MessageInfo, document: Mapping[Any, Any], path: str, depth: int
    ) -> dict[str, Any]:
        """Parse the fields of a message; collect violations, moves and notes."""
        value: dict[str, Any] = {}
        key_of_field: dict[str, str] = {}
        for key, item in document.items():
            field_path = f"{path}.{key}" if path else str(key)
            field = info.by_key.get(key)
            if field is None:
                self._unknown_field(info, document, key, path)
            elif item is None or field.is_output:
                continue
            elif field.json_name in key_of_field:
                self._duplicate(field, field_path, key_of_field[field.json_name])
            elif field.refused:
                self._add(field_path, "unsupported-field", field.refused, "leave it out")
            else:
                key_of_field[field.json_name] = key
                read = self._field(field, item, field_path, depth)
                if read is not WRONG:
                    value[field.json_name] = read
        for oneof, members in info.oneofs.items():
            self._one_of(oneof, members, key_of_field, path)
        return value

    def _field(self, field: FieldInfo, item: Any, field_path: str, depth: int) -> Any:
        """Parse the value of a field, or the elements of its list."""
        if not field.is_repeated:
            return self._one(field, item, field_path, depth)
        if isinstance(item, list):
            if text := split_text(field.json_name, item):
                return self._split(field, text, field_path)
            if is_command_line(field.json_name, item):
                line = "a list of the words of its command line"
                return self._wrong(field, item[0], f"{field_path}[0]", line, _as_list(item[0]))
            places = [(f"{field_path}[{index}]", entry) for index, entry in enumerate(item)]
        elif expected := _expect_list(field, item):
            return self._wrong(field, item, field_path, *expected)
        else:
            places = [
                (field_path, item)
            ]  # one element instead of a list, as gcloud sends it (decision 0044)
        elements = [self._one(field, entry, place, depth) for place, entry in places]
        if field.kind == "message":
            return [{} if element is WRONG else element for element in elements]
        return [element for element in elements if element is not WRONG]

    def _one(self, field: FieldInfo, item: Any, field_path: str, depth: int) -> Any:
        """Parse one value by the kind of its field; return WRONG for a faulty value."""
        reader = READERS.get(field.kind)
        if reader:
            value = reader(item)
            if field.kind == "loose text" and isinstance(item, bool):
                self._note_flag(item, field_path)
            return self._wrong(field, item, field_path) if value is WRONG else value
        if field.kind in ("enum", "open enum"):
            return self._enum(field, item, field_path)
        if not isinstance(item, dict) and not isinstance(
            item, Mapping
        ):  # testing for dict is faster
            return self._wrong(field, item, field_path, "", object_of(field, item))
        if depth >= DEPTH_MAX:
            limit = f"nested at most {DEPTH_MAX} deep"
            return self._wrong(field, item, field_path, limit, limit)
        if field.value:
            return self._map(field.value, item, field_path, depth + 1)
        return self.message(self.table.messages[field.type], item, field_path, depth + 1)

    def _note_flag(self, item: bool, field_path: str) -> None:  # noqa: FBT001 - a value of the document
        word = describe_value(item)
        message = f"read as the string {word!r}; YAML reads {YAML_WORDS[item]} without quotes so"
        self.notes.append(Note(field=field_path, message=message))

    def _map(self, values: FieldInfo, item: Mapping[Any, Any], path: str, depth: int) -> Any:
        """Parse a map, whose keys must be strings."""
        entries = {}
        for key, entry in item.items():
            field_path = f"{path}.{key}"
            if not isinstance(key, str):
                accepted = f'a string: "{key}", in quotes'
                self._add(
                    field_path,
                    "wrong-type",
                    f"a key must be a string, not {describe_value(key)}",
                    accepted,
                )
            else:
                value = self._one(values, entry, field_path, depth)
                if value is not WRONG:
                    entries[key] = value
        return entries

    def _enum(self, field: FieldInfo, item: Any, field_path: str) -> Any:
        """Parse an enum's name or number; return WRONG for an unknown value."""
        info = self.table.enums[field.type]
        is_open = field.kind == "open enum"
        if isinstance(item, str):
            name = self._known_name(info, item, field_path)
            if is_open or name in info.names:
                return name
        elif info.by_number and (number := whole(item, bits=32)) is not WRONG:
            if is_open or number in info.by_number:
                return info.by_number.get(number, str(number))
        else:
            return self._wrong(field, item, field_path, "", ", ".join(_usable_names(info)))
        names = _usable_names(info)
        message = f"{describe_value(item)} is not a value of {field.json_name}"
        if isinstance(item, str) and len(self.violations) < HINTS_MAX:
            synonym = VALUES.get(letters_of(item[:SHOWN_MAX]), "")
            message += hint(synonym if synonym in info.names else item[:SHOWN_MAX], names)
        self._add(field_path, "unknown-value", message, ", ".join(names))
        return WRONG

    def _one_of(
        self, oneof: str, members: tuple[str, ...], key_of_field: Mapping[str, str], path: str
    ) -> None:
        """Report fields that exclude each other."""
        spellings = [key_of_field[name] for name in members if name in key_of_field]
        if len(spellings) > 1:
            rule = RULE_OF_ONEOF.get(oneof, "exactly-one-of")
            message = f"{' and '.join(spellings)} exclude each other"
            self._add(path or spellings[1], rule, message, f"exactly one of {', '.join(members)}")

    def _known_name(self, info: EnumInfo, item: str, field_path: str) -> str:
        """Return an enum's name in its own case, if Google accepts the enum in any case."""
        name = item.upper().replace("-", "_")
        if not info.is_any_case or item in info.names or name not in info.names:
            return item
        self.notes.append(Note(field=field_path, message=f"{item!r} was read as {name}"))
        return name

    def _unknown_field(
        self, info: MessageInfo, document: Mapping[Any, Any], key: Any, path: str
    ) -> None:
        """Report an unknown key, with the field that it probably means."""
        field_path, word = f"{path}.{key}" if path else str(key), str(key)
        message = f"{info.name} has no field {word}"
        usable = [f for f in info.fields if not f.refused and not f.is_output]
        names = [f.name if "_" in word else f.json_name for f in usable]
        fitting_names = [name for name in names if _can_hold(info.by_key[name], document[key])]
        nearest = nearest_field(word, fitting_names) if len(self.violations) < HINTS_MAX else None
        is_same = nearest is not None and letters_of(nearest) == letters_of(word)
        if (
            not is_same
            and len(self.violations) < HINTS_MAX
            and (
                self._is_needless_level(info, document[key], key, path, message)
                or self._has_synonym(info, document[key], key, path, message)
                or self._belongs(word, key, path, message)
            )
        ):
            return
        if nearest and nearest not in document:
            at = steps_of(self._relative_path(path))
            item = document[key]
            self.moves.append(
                Move(source=(*at, key), target=(*at, nearest), item=item, is_guess=not is_same)
            )
        message += f"; did you mean {nearest}?" if nearest else ""
        self._add(field_path, "unknown-field", message, nearest or ", ".join(names))

    def _is_needless_level(
        self, info: MessageInfo, item: Any, key: Any, path: str, message: str
    ) -> bool:
        """Report an object whose fields belong one level up, and move the fields there."""
        if not isinstance(item, Mapping) or not item:
            return False
        field_names = {letters_of(name) for name in info.by_key}
        fields = [inner for inner in item if letters_of(str(inner)) in field_names]
        if not fields or 2 * len(fields) < len(item):
            return False
        at = steps_of(self._relative_path(path))
        for inner, value in item.items():
            source, target = (*at, key, inner), (*at, inner)
            self.moves.append(Move(source=source, target=target, item=value, is_guess=False))
        if letters_of(str(key)) == letters_of(_last_word(path)):
            message += f"; the line {key} is there twice: take one of them out"
        else:
            place = path or "the top level"
            message += f"; what is below {key} belongs in {place}: take the line {key} out"
        accepted = ", ".join([dotted((*steps_of(path), inner)) for inner in fields][:PLACES_MAX])
        self._add(f"{path}.{key}" if path else str(key), "unknown-field", message, accepted)
        return True

    def _has_synonym(self, info: MessageInfo, item: Any, key: Any, path: str, message: str) -> bool:
        """Report a known synonym of a field, such as a flag's name; return False if it is none."""
        field_path = f"{path}.{key}" if path else str(key)
        if clause := PHRASES.get((info.name, letters_of(str(key)))):
            sentence, accepted = clause
            self._add(field_path, "unknown-field", f"{message}; {sentence}", accepted)
            return True
        field = find_field(info, str(key))
        if not field:
            return False
        at = steps_of(self._relative_path(path))
        self.moves.append(Move(source=(*at, key), target=(*at, *field), item=item, is_guess=True))
        meant = dotted(field)
        full = dotted((*steps_of(path), *field))
        self._add(field_path, "unknown-field", f"{message}; did you mean {meant}?", full)
        return True

    def _belongs(self, word: str, key: Any, path: str, message: str) -> bool:
        """Report a field of another level; return False if no level has the field."""
        self._places = self._places or MessageFields(self.table, self.root)
        at = steps_of(path)
        destination = self._places.find(word, at, self.document, steps_of(self.at))
        if destination is None:
            return False
        field_path = f"{path}.{word}" if path else word
        self._add(
            field_path, "unknown-field", f"{message}; {destination.sentence}", destination.accepted
        )
        target, above = destination.target, steps_of(self.at)
        if target and len(target) > len(above) and target[: len(above)] == above:
            source = (*steps_of(self._relative_path(path)), key)
            self.moves.append(Move(source=source, target=target[len(above) :], is_guess=False))
        return True

    def _relative_path(self, path: str) -> str:
        """Return a path relative to the parsed document."""
        return path.removeprefix(self.at).removeprefix(".") if self.at else path

    def _split(self, field: FieldInfo, text: str, field_path: str) -> Any:
        """Report a list of single letters; return WRONG."""
        message = (
            f"{field.json_name} is a list of single letters: the string {text[:SHOWN_MAX]!r} was "
            "given where a list is wanted"
        )
        self._add(field_path, "wrong-type", message, _as_list(text))
        return WRONG

    def _duplicate(self, field: FieldInfo, field_path: str, first: str) -> None:
        key = _last_word(field_path)
        message = f"{field.json_name} is given twice, as {first} and as {key}"
        self._add(field_path, "duplicate-field", message, f"{first} or {key}, not both")

    def _wrong(
        self, field: FieldInfo, item: Any, field_path: str, noun: str = "", accepted: str = ""
    ) -> Any:
        """Report a value of the wrong type; return WRONG."""
        expected = WANTED[field.kind]
        message = (
            f"{_last_word(field_path)} must be {noun or expected[0]}, not {describe_value(item)}"
        )
        if field.kind == "string" and isinstance(item, bool):
            message += f"; YAML reads {YAML_WORDS[item]} without quotes as {describe_value(item)}"
        self._add(field_path, "wrong-type", message, accepted or accepted_value(field.kind, item))
        return WRONG

    def _add(self, field_path: str, rule: str, message: str, accepted: str) -> None:
        violation = Violation(field=field_path, rule=rule, message=message, accepted=accepted)
        self.violations.append(violation)


def _usable_names(info: EnumInfo) -> list[str]:
    return [name for name in info.names if not name.endswith("UNSPECIFIED")]


def _can_hold(field: FieldInfo, item: Any) -> bool:
    """Whether a value has the shape of the field: an object, a list or a single value."""
    is_object = field.kind in ("message", "map", "struct", "value")
    if isinstance(item, Mapping):
        return is_object
    return field.is_repeated if isinstance(item, list) else True


def _expect_list(field: FieldInfo, item: Any) -> tuple[str, str] | None:
    """Return (noun, example) of the list that a field expects instead of ``item``.

    None if ``item`` is accepted as the only element of the list.
    """
    if is_whole_line(field.json_name, item):
        return "a list of strings", _as_list(item)
    if is_comma_list(field.json_name, item):
        return "a list", list_of_words(item, is_number=field.kind == "double")
    if isinstance(item, Mapping) and (example := list_of_named(field.type, item)):
        return "a list", example
    if isinstance(item, Mapping) and are_elements(field.type, item):
        return "a list", "a list: a dash before each element, in place of its name"
    if isinstance(item, Mapping) is (field.kind == "message"):
        return None
    return "a list", "a list, in brackets or with dashes"


def _as_list(text: str) -> str:
    """Return an example of a list of the words of a command line."""
    if has_shell_words(text):
        return f'a list of strings, such as ["bash", "-c", {json.dumps(text[:SHOWN_MAX])}]'
    try:
        parts = shlex.split(text[:SHOWN_MAX])
    except ValueError:  # an unclosed quote
        parts = text[:SHOWN_MAX].split()
    words = [json.dumps(part, ensure_ascii=False) for part in parts]
    return f"a list of strings, such as [{', '.join(words)}]"


def _last_word(path: str) -> str:
    return path.rpartition(".")[2]


def describe_value(item: Any) -> str:
    """Return the description of a value for a message."""
    if isinstance(item, str):
        return f"the string {item[:SHOWN_MAX]!r}" + ("..." if len(item) > SHOWN_MAX else "")
    if isinstance(item, bool):
        return "true" if item else "false"
    if item is None:
        return "null"
    if isinstance(item, int | float):
        return f"the number {item!r}"
    return "a list" if isinstance(item, list) else "an object"
