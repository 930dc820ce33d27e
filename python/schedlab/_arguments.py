"""Checks of arguments' types, with the one shape of message that every error of the package has."""

from __future__ import annotations

import difflib
import operator
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")


def bad_argument(argument: str, value: object, rule: str) -> ValueError:
    """The error for an argument that breaks a rule: names the argument, the value and the rule."""
    return ValueError(f"{argument} = {value!r}: {rule}")


def integer(argument: str, value: object, minimum: int | None = None, maximum: int | None = None) -> int:
    """The value as an int. Booleans and floats, whole ones too, are refused.

    Raises:
        ValueError: the value is not an integer or lies outside [minimum, maximum].
    """
    rule = "must be an integer"
    if minimum is not None and maximum is not None:
        rule += f" from {minimum} to {maximum}"
    elif minimum is not None:
        rule += f" of at least {minimum}"
    if isinstance(value, bool | np.bool_):
        raise bad_argument(argument, value, rule)
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise bad_argument(argument, value, rule) from None
    if (minimum is not None and number < minimum) or (maximum is not None and number > maximum):
        raise bad_argument(argument, number, rule)
    return number


def mapping(argument: str, value: object) -> Mapping[str, Any]:
    """The value if it is a mapping with names for keys.

    Raises:
        ValueError: it is not.
    """
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise bad_argument(argument, value, "must be a mapping with names for keys")
    return value


def choice(argument: str, value: object, allowed: Iterable[str]) -> str:
    """The value if it is one of the allowed strings.

    Raises:
        ValueError: it is not; near names are offered.
    """
    names = list(allowed)
    if isinstance(value, str) and value in names:
        return value
    raise bad_argument(argument, value, f"must be one of {', '.join(names)}{near(value, names)}")


def near(value: object, names: Iterable[str]) -> str:
    """`; did you mean ...?` when some of the names resemble the value, else an empty string."""
    close = difflib.get_close_matches(str(value), list(names), n=3, cutoff=0.5)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def instance(argument: str, value: T, *kinds: type[object]) -> T:
    """The value if it is an instance of one of the classes.

    Raises:
        ValueError: it is not.
    """
    if not isinstance(value, kinds):
        names = " or ".join(f"schedlab.{kind.__name__}" for kind in kinds)
        raise bad_argument(argument, value, f"must be a {names}")
    return value
