"""HTML and SVG elements as text. Whatever is not an element already is escaped, so that no name can become markup."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import TypeAlias

_VOID = frozenset({"br", "hr", "meta", "wbr"})
_NO_CHILDREN = frozenset({"circle", "line", "path", "rect"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Child: TypeAlias = "str | Markup | Iterable[Child] | None"
"""What goes into an element: text, elements, nothing, or several of them."""


def element(tag: str, *children: Child, **attributes: str | int | float | None) -> Markup:
    """An element.

    Args:
        tag: its name.
        children: what is in it; text is escaped.
        attributes: None leaves one out. ``class_`` is class, and ``_`` elsewhere is ``-``: ``aria_label``, ``data_x``.
            Numbers are written with at most two decimals.
    """
    start = f"<{tag}"
    for name, value in attributes.items():
        if value is not None:
            start += f' {name.rstrip("_").replace("_", "-")}="{html.escape(_text(value))}"'
    if tag in _VOID:
        return Markup(f"{start}>")
    if tag in _NO_CHILDREN and not children:
        return Markup(f"{start}/>")
    return Markup(f"{start}>{join(children)}</{tag}>")


def join(children: Child) -> Markup:
    """Children, one after the other."""
    if children is None:
        return Markup()
    if isinstance(children, Markup):
        return children
    if isinstance(children, str):
        return Markup(html.escape(children, quote=False))
    return Markup("".join(map(join, children)))


def number(value: float) -> str:
    """A coordinate: at most two decimals, and no more characters than needed."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _text(value: str | int | float) -> str:
    return value if isinstance(value, str) else number(value)
