"""The page's files as they lie there: nothing from elsewhere, nothing inline, libraries as published."""

import hashlib
import re
from pathlib import Path

from tests.architecture.tree import PACKAGE, ROOT

STATIC = PACKAGE / "frontends" / "console" / "static"
VENDOR = STATIC / "vendor"
SERVED = "/console/static/"
MAX_TOTAL_BYTES = 300_000
MAX_MODULE_LINES = 250


def _files(*suffixes: str) -> list[Path]:
    return sorted(path for path in STATIC.rglob("*") if path.suffix in suffixes)


def _own(*suffixes: str) -> list[Path]:
    return [path for path in _files(*suffixes) if path.parent != VENDOR]


def _named_by(module: Path) -> set[Path]:
    imports = re.compile(r'^(?:(?:import|export)\b[^"]*?from|import) "([^"]+)";', re.MULTILINE)
    return {(module.parent / str(name)).resolve() for name in imports.findall(module.read_text())}


def _linked_by_the_page() -> set[Path]:
    links = re.findall(r'(?:src|href)="([^"]+)"', (STATIC / "index.html").read_text())
    assert all(link.startswith(SERVED) for link in links)
    return {STATIC / link.removeprefix(SERVED) for link in links}


def test_libraries_are_what_their_makers_published() -> None:
    lines = [line.split("  ") for line in (VENDOR / "VERSIONS").read_text().splitlines()]
    sums = {line[1]: line[0] for line in lines}
    there = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in VENDOR.iterdir() if path.suffix}
    scripts = {name: digest for name, digest in there.items() if name.endswith((".js", ".css"))}
    assert scripts == sums


def test_every_library_comes_with_its_licence_and_is_in_the_notice() -> None:
    notice = (ROOT / "NOTICE").read_text()
    licences = {path.suffix[1:] for path in VENDOR.glob("LICENSE.*")}
    assert licences == {"dompurify", "htm", "marked", "preact", "uplot"}
    assert [name for name in licences if name not in notice.lower()] == []


def test_the_page_is_small() -> None:
    assert sum(path.stat().st_size for path in _files(".html", ".js", ".css", ".svg")) < MAX_TOTAL_BYTES


def test_whatever_a_file_names_is_there_and_all_that_is_there_is_named() -> None:
    linked = _linked_by_the_page()
    imported = set().union(*(_named_by(module) for module in _own(".js")))
    assert linked | imported == set(_files(".js", ".css", ".svg"))


def test_nothing_is_fetched_from_elsewhere() -> None:
    address = re.compile(r"""["'(]\s*(?:https?:)?//\w""")
    assert [path.name for path in _own(".html", ".js", ".css") if address.search(path.read_text())] == []


def test_the_page_has_nothing_inline_that_its_policy_forbids() -> None:
    page = (STATIC / "index.html").read_text()
    assert re.findall(r"<style|\bstyle=|\bon\w+=|<script(?![^>]*\bsrc=)", page) == []


def test_the_pictures_of_its_page_in_the_docs_are_there_and_small() -> None:
    docs = ROOT / "docs"
    shown = re.findall(r"!\[[^]]+\]\((images/\w+\.png)\)", (docs / "console.md").read_text())
    assert len(shown) == 4
    assert [name for name in shown if not 0 < (docs / name).stat().st_size < 150_000] == []


def test_modules_begin_with_what_they_are_for_and_are_read_in_one_sitting() -> None:
    texts = {path.relative_to(STATIC): path.read_text() for path in _own(".js")}
    assert [path for path, text in texts.items() if not text.startswith("// ")] == []
    assert [path for path, text in texts.items() if len(text.splitlines()) > MAX_MODULE_LINES] == []
