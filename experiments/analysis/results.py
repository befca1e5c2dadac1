"""What analyses share: a folder with one table, ``NAME.csv``, and the ``config.yaml`` it was made with."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from experiments.config import Config, UserError
from experiments.run_folder import config_text, make_folder, replacing

Row = dict[str, str | int | float]


class ResultTable:
    """The table of an analysis on disk; it is a whole file at any time.

    Args:
        folder: where it goes; made if it is not there.
        name: the file's name, such as ``rules.csv``.
        config: what was asked for; written to ``config.yaml`` with the first rows.
        overwrite: whether a table that is there may be replaced.

    Raises:
        UserError: there is such a table already, or the folder can't be written to.
    """

    def __init__(self, folder: str | Path, name: str, config: Config, overwrite: bool) -> None:
        self.path = Path(folder) / name
        self._config = config
        if self.path.exists() and not overwrite:
            raise UserError(
                f"there is a {str(self.path)!r}; replace it with --overwrite, or choose another folder with --output"
            )
        make_folder(self.path.parent)

    def write(self, rows: Sequence[Row], columns: Sequence[str] | None = None) -> None:
        """Write the table, in place of what is there.

        Args:
            rows: all with the same keys, the columns.
            columns: needed where there may be no rows.

        Raises:
            UserError: it could not be written.
        """
        text = io.StringIO(newline="")
        table = csv.DictWriter(text, list(rows[0] if columns is None else columns), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
        config = self.path.with_name("config.yaml")
        try:
            for path, content in ((config, config_text(self._config)), (self.path, text.getvalue())):
                with replacing(path) as temporary:
                    temporary.write_text(content, encoding="utf-8")
        except OSError as error:
            raise UserError(f"can't write {str(self.path)!r}: {error.strerror or error}") from None
