"""One table as aligned text, as Markdown and as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

Rows = Sequence[Sequence[str]]


def text_table(header: Sequence[str], rows: Rows, left: int = 1) -> str:
    """Columns aligned by spaces, a rule under the header; the first `left` columns are flush left."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        padded = (
            cell.ljust(width) if i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return "  ".join(padded).rstrip()

    return "\n".join([line(header), "  ".join("-" * width for width in widths), *map(line, rows)])


def markdown_table(header: Sequence[str], rows: Rows, left: int = 1) -> str:
    """The table in the pipe syntax of GitHub's Markdown."""
    marks = ["---" if i < left else "---:" for i in range(len(header))]
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in [header, *rows]]
    lines = [escaped[0], marks, *escaped[1:]]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def html_table(header: Sequence[str], rows: Rows, left: int = 1, caption: str = "") -> str:
    """The table as an HTML `<table>`, every cell escaped."""

    def cells(tag: str, row: Sequence[str]) -> str:
        align = ["left" if i < left else "right" for i in range(len(row))]
        return "".join(
            f'<{tag} style="text-align:{side}">{escape(cell)}</{tag}>'
            for cell, side in zip(row, align, strict=True)
        )

    head = f"<caption>{escape(caption)}</caption>" if caption else ""
    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<table>{head}<thead><tr>{cells('th', header)}</tr></thead><tbody>{body}</tbody></table>"


def paragraphs(lines: Sequence[str]) -> str:
    """Each line as an escaped HTML paragraph."""
    return "".join(f"<p>{escape(line)}</p>" for line in lines)
