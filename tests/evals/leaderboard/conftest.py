"""A whole board, for all tests of the leaderboard."""

import board_world as world
import pytest

from dlmeval.evals import leaderboard as boards
from dlmeval.evals import storage


@pytest.fixture(scope="package", autouse=True)
def unsynced():
    """Leaves files to the page cache: hundreds are written, and no crash is tested here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage.os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="package")
def paths(unsynced, tmp_path_factory):
    """The inputs of a whole board; copy them before changing them."""
    return world.write_world(tmp_path_factory.mktemp("board"))


@pytest.fixture(scope="package")
def board(paths):
    return boards.build_board(world.settings(paths))
