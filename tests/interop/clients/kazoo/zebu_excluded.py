"""A pytest plug-in: skips the tests that a file names, so that the report tells them apart.

The file is named by ZEBU_KAZOO_EXCLUDED; ZEBU_KAZOO_SERVERS says for which ensemble, `one` or `three`. With ZEBU_KAZOO_ONLY, a comma-separated list of names in the same
form, everything else is left out.
"""

import os

import pytest


def _name(item):
    parts = [item.module.__name__.rsplit(".", 1)[-1]]
    if item.cls is not None:
        parts.append(item.cls.__name__)
    return ".".join(parts + [item.name])


def pytest_collection_modifyitems(config, items):
    with open(os.environ["ZEBU_KAZOO_EXCLUDED"], encoding="utf-8") as file:
        lines = [line.split(None, 2) for line in file if line.strip() and line[0] != "#"]
    here = ("always", os.environ["ZEBU_KAZOO_SERVERS"])
    excluded = {name: reason.strip() for name, where, reason in lines if where in here}
    only = os.environ.get("ZEBU_KAZOO_ONLY")
    if only:
        wanted = set(only.split(","))
        items[:] = [item for item in items if _name(item) in wanted]
        return
    for item in items:
        reason = excluded.get(_name(item))
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=reason))
