"""The rows of a run, and what they decide."""

import json
import textwrap

# A row of these states does not make the run fail.
HARMLESS = {"ok", "not on Moto", "not judged"}
WIDTHS = (34, 40, 44)


class Report:
    """The rows, each with what was expected, what was seen, and a state."""

    def __init__(self, name="on-aws"):
        self.name = name
        self.rows = []
        self.counts = {}
        self.usd = 0.0

    def add(self, name, expected, seen, state):
        state = {True: "ok", False: "wrong"}.get(state, state)
        self.rows.append((name, str(expected), str(seen), state))
        print(f"{self.name}: {state}: {name}: {seen}", flush=True)

    def read(self, lines):
        """The lines of JSON of `on_aws`."""
        for line in lines:
            if not line.startswith("{"):
                print(f"{self.name}: {line.rstrip()}", flush=True)
                continue
            value = json.loads(line)
            if "row" in value:
                self.add(value["row"], value["expected"], value["seen"], value["state"])
            else:
                self.counts, self.usd = value["counts"], value["usd"]

    def exit_code(self):
        """0 only if there are rows, and each row that applies is as expected."""
        return 0 if self.rows and all(row[3] in HARMLESS for row in self.rows) else 1

    def table(self):
        """The rows as a table."""
        lines = []
        for row in [("row", "expected", "seen", "state"), *self.rows]:
            cells = [textwrap.wrap(text, width) or [""] for text, width in zip(row, WIDTHS)] + [[row[3]]]
            for at in range(max(len(cell) for cell in cells)):
                parts = [cell[at] if at < len(cell) else "" for cell in cells]
                columns = (part.ljust(width) for part, width in zip(parts, (*WIDTHS, 0)))
                lines.append(" | ".join(columns).rstrip())
            if row[0] == "row":
                lines.append("-|-".join("-" * width for width in (*WIDTHS, 11)))
        return "\n".join(lines)
