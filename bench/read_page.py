"""Read one page as one library does: `python read_page.py READER FILE URL TIMES`, on an interpreter that has it.

Prints as JSON the processor seconds of the median reading, the links found, and the most resident memory in bytes.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median


def metawheel(content: bytes, kind: str, url: str) -> int:
    """Parse, check and resolve each link; broken ones are told."""
    from metawheel.model import wheel_name
    from metawheel.upstream.http import Page
    from metawheel.upstream.pages import parse_page

    wheel_name.cache_clear()  # each reading parses each name
    return parse_page(Page(url=url, content=content, content_type=kind), "up").links


def pypi_simple(content: bytes, kind: str, url: str) -> int:
    """Its project page, or its page of any links: names and versions from the links' text."""
    from pypi_simple import ProjectPage, RepositoryPage

    if "json" in kind:
        return len(ProjectPage.from_json_data(json.loads(content), base_url=url).packages)
    from pypi_simple import DistributionPackage

    return len([DistributionPackage.from_link(link) for link in RepositoryPage.from_html(content, base_url=url).links])


def unearth(content: bytes, kind: str, url: str) -> int:
    """Its links, and of each the file name, as a finder asks for it."""
    from unearth.collector import IndexPage, parse_html_page, parse_json_response  # type: ignore[import-not-found]
    from unearth.link import Link  # type: ignore[import-not-found]

    page = IndexPage(Link(url), content, "utf-8", kind)
    links = list((parse_json_response if "json" in kind else parse_html_page)(page))
    return len([link.filename for link in links])


READERS: dict[str, Callable[[bytes, str, str], int]] = {
    "metawheel": metawheel,
    "pypi-simple": pypi_simple,
    "unearth": unearth,
}


def main() -> None:
    """Read it once to import, then as often as asked for."""
    reader, path, url, times = READERS[sys.argv[1]], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    kind = "application/vnd.pypi.simple.v1+json" if path.suffix == ".json" else "text/html"
    content = path.read_bytes()
    first = time.process_time()
    links = reader(content, kind, url)
    first = time.process_time() - first
    took = []
    for _ in range(times):
        start = time.process_time()
        reader(content, kind, url)
        took.append(time.process_time() - start)
    # Not ru_maxrss: that counts what the process was before exec, a copy of its parent.
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    memory = int(status.partition("VmHWM:")[2].split()[0]) * 1024
    json.dump({"links": links, "first": first, "again": median(took), "memory": memory}, sys.stdout)


if __name__ == "__main__":
    main()
