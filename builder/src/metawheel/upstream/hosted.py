"""Finding where PyPI has the files that ledgers keep without host."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from metawheel.errors import SourceError, UpstreamAlarm
from metawheel.model import UpstreamFile
from metawheel.parallel import threads
from metawheel.upstream.http import Fetcher
from metawheel.upstream.pages import parse_page
from metawheel.upstream.sources import pypi_page


def find_hosted(files: Iterable[UpstreamFile], fetcher: Fetcher) -> tuple[dict[str, str], SourceError | None]:
    """The URL of each file that PyPI's pages list, by file name, and the first failure to read one.

    Raises UpstreamAlarm where a page states another sha256 than the ledger.
    """
    wanted = {file.filename: file for file in files}
    projects = sorted({file.project for file in wanted.values()})
    urls: dict[str, str] = {}
    failure: SourceError | None = None
    with threads(len(projects)) as pool:
        for result in pool.map(lambda project: _try_page(project, fetcher), projects):
            if isinstance(result, SourceError):
                failure = failure or result
            else:
                urls |= _matching(result, wanted)
    return urls, failure


def _try_page(project: str, fetcher: Fetcher) -> tuple[UpstreamFile, ...] | SourceError:
    try:
        page = fetcher.page(pypi_page(project))
        # What a mirror links relatively lies on the mirror.
        return parse_page(page, "pypi", sha256_from="pypi", base=page.mirror).files
    except SourceError as error:
        return error


def _matching(listed: Iterable[UpstreamFile], wanted: Mapping[str, UpstreamFile]) -> dict[str, str]:
    urls = {}
    for file in listed:
        ours = wanted.get(file.filename)
        if ours is None or file.url is None:
            continue
        if ours.sha256 is not None and file.sha256 not in (None, ours.sha256):
            raise UpstreamAlarm(
                pypi_page(file.project),
                f"states sha256 {file.sha256} for {file.filename}, the ledger {ours.sha256}; nothing was changed",
            )
        urls[file.filename] = file.url
    return urls
