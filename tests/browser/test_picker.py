"""The front page in a real browser: what is picked decides the commands, by mouse, by keys and by address."""

from __future__ import annotations

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from metawheel.people.setups import PLACEHOLDER
from tests.browser.chromium import WAIT, Browser
from tests.browser.conftest import TRAP, World

pytestmark = pytest.mark.clients


@pytest.fixture
def front(browser: Browser, world: World) -> Browser:
    browser.open(f"{world.site.url}index.html", picker=True)
    return browser


def test_picking_changes_the_commands(front: Browser, world: World) -> None:
    front.pick(wrapper="torch-cu128", python="cp312", platform="linux x86_64", client="uv")
    lines, command = front.steps()
    assert 'dependencies = ["torch-cu128==2.10.0"]' in lines
    assert f'url = "{world.site.url}simple/"' in lines
    assert 'requires-python = ">=3.12,<3.13"' in lines
    assert command == "uv sync --python 3.12"
    assert "installs torch 2.10.0+cu128 on Linux x86_64 with Python 3.12" in front.state()
    front.pick(client="pdm", platform="win32 AMD64", extra="vision")
    lines, command = front.steps()
    assert f'url = "{world.site.url}cu128/simple/"' in lines
    assert 'dependencies = ["torch-cu128[vision]==2.10.0"]' in lines
    assert 'include_packages = ["torch-cu128", "torch", "torchaudio", "torchvision"]' in lines
    assert "pdm lock --platform windows -L pdm.windows_amd64.lock" in command
    front.pick(client="poetry")
    lines, command = front.steps()
    assert 'dependencies = ["torch-cu128[vision] (==2.10.0)"]' in lines
    assert 'torch-cu128 = { source = "metawheel" }' in lines
    front.pick(client="pip")
    requirements, commands = front.steps()
    assert requirements == "torch-cu128[vision]==2.10.0"
    assert "py -3.12 -m pip install --require-hashes" in commands
    front.pick(project="jaxlib", platform="linux x86_64")
    assert front.steps()[0] == "jaxlib-cpu==0.5.3"
    front.pick(wrapper="jaxlib-cuda12")
    assert front.steps()[0] == "jaxlib-cuda12==0.5.3"
    assert not front.shown('input[name="extra"] + span')


def test_the_version_is_the_newest_that_covers_what_is_picked_unless_one_is_picked(front: Browser) -> None:
    front.pick(wrapper="torch-cpu", python="cp310", platform="linux x86_64", client="pip")
    assert front.steps()[0] == "torch-cpu==2.9.1"
    Select(front.find("#version")).select_by_value("1.13.1")
    assert front.steps()[0] == "torch-cpu==1.13.1"
    front.pick(platform="win32 AMD64")
    assert front.steps()[0] == "torch-cpu==1.13.1"
    front.pick(python="cp313")
    assert front.steps()[0] == "torch-cpu==2.9.1"
    front.pick(platform="darwin x86_64", python="cp310")
    assert front.steps()[0] == "torch-cpu==1.13.1"
    options = {option.text: option.is_enabled() for option in Select(front.find("#version")).options}
    assert options == {"2.9.1": False, "1.13.1": True}


def test_where_nothing_is_covered_the_page_says_so_and_shows_no_command(front: Browser) -> None:
    front.pick(wrapper="torch-cu116", python="cp313", platform="linux x86_64")
    assert front.steps() == []
    assert "torch-cu116 has no version for Python 3.13 on Linux x86_64." in front.state()
    assert "There it is for Python 3.7, 3.8, 3.9, 3.10" in front.state()
    front.pick(python="cp310")
    assert "torch-cu116==1.13.1" in front.steps()[0]


def test_what_is_picked_is_in_the_address_and_comes_back_from_it(front: Browser) -> None:
    front.pick(wrapper="torch-cu128", python="cp311", platform="linux aarch64", client="poetry", extra="vision")
    texts, address = front.steps(), front.driver.current_url
    assert "wrapper=torch-cu128" in address
    front.open(address, picker=True)
    assert front.steps() == texts


def test_the_skip_link_keeps_what_is_picked_and_a_link_to_other_picks_takes_them(front: Browser) -> None:
    front.pick(wrapper="torch-cu128", python="cp311", platform="linux aarch64", client="poetry", extra="vision")
    texts = front.steps()
    then = "; addEventListener('hashchange', () => arguments[0](), {once: true})"  # after the page's own listener
    front.driver.execute_async_script(f"document.querySelector('a.skip').click(){then}")
    assert front.driver.current_url.endswith("#main")
    assert front.steps() == texts
    front.driver.execute_async_script(f"location.hash = 'wrapper=torch-cu116&client=pip'{then}")
    assert front.steps()[0] == "torch-cu116==1.13.1"


def test_a_wrappers_page_leads_to_its_commands(browser: Browser, world: World) -> None:
    browser.open(f"{world.site.url}wrappers/torch-cu116.html")
    browser.find(".actions .button:not(.quiet)").click()
    WebDriverWait(browser.driver, WAIT).until(lambda _: browser.find("#picker").is_displayed())
    assert "torch-cu116 1.13.1 installs torch 1.13.1+cu116" in browser.state()


def test_a_link_to_a_version_opens_it_without_any_script(browser: Browser, world: World) -> None:
    browser.look(scripts=False)
    browser.open(f"{world.site.url}wrappers/torch-cpu.html#v1.13.1")
    assert [summary.text.split()[0] for summary in browser.shown("details[open] > summary b")] == ["2.9.1", "1.13.1"]


def test_the_keyboard_does_all_that_a_mouse_does(front: Browser) -> None:
    keys = ActionChains(front.driver)
    keys.send_keys(Keys.TAB).perform()
    assert front.driver.switch_to.active_element.text == "Skip to the content"
    keys.send_keys(Keys.ENTER).perform()
    seen = []
    for _ in range(12):
        keys.send_keys(Keys.TAB).perform()
        focused = front.driver.switch_to.active_element
        name = focused.get_attribute("name")
        if not name:  # past the picker
            break
        seen.append(name)
        # What is drawn in a radio button's stead shows the focus.
        style = "const e = arguments[0]; return getComputedStyle(e.matches('select') ? e : e.nextSibling).outlineStyle"
        assert front.run(style, focused) == "solid", name
        if name == "client":
            before = front.steps()
            keys.send_keys(Keys.ARROW_RIGHT).perform()
            assert front.steps() != before
    assert list(dict.fromkeys(seen)) == ["project", "wrapper", "python", "platform", "version", "extra", "client"]


@pytest.mark.parametrize("is_secure", [True, False], ids=["secure context", "plain http"])
def test_what_is_copied_is_what_is_shown(browser: Browser, world: World, is_secure: bool) -> None:
    browser.tell("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    source = "" if is_secure else "Object.defineProperty(navigator, 'clipboard', {value: undefined})"
    added = browser.tell("Page.addScriptToEvaluateOnNewDocument", source=source)
    browser.open(f"{world.site.url}index.html", picker=True)
    browser.tell("Page.removeScriptToEvaluateOnNewDocument", **added)
    button = browser.shown("button.copy")[0]
    button.click()
    WebDriverWait(browser.driver, WAIT).until(lambda _: button.text == "Copied")
    text = browser.steps()[0]
    browser.open(f"{world.site.url}index.html", picker=True)
    script = "const done = arguments[0]; navigator.clipboard.readText().then(done, (error) => done(String(error)))"
    assert browser.driver.execute_async_script(script) == text


def test_without_scripts_every_clients_set_up_is_there_to_read(browser: Browser, world: World) -> None:
    browser.look(scripts=False)
    browser.open(f"{world.site.url}index.html")
    assert [heading.text for heading in browser.shown(".client h3")] == ["uv", "pip", "Poetry", "PDM"]
    assert len(browser.steps()) == 8
    assert PLACEHOLDER in browser.steps()[0]
    assert not browser.shown("#picker, .copy, #state")
    assert browser.shown("#example")


def test_an_address_that_is_made_to_run_something_is_pasted_harmlessly(browser: Browser, world: World) -> None:
    browser.open(f"{world.site.url}{TRAP}/index.html", picker=True)
    browser.pick(client="pip")
    commands = browser.steps()[1]
    assert "%24%28touch%20trapped%29%3b%27%60touch%20trapped%60/simple/" in commands
    assert not set("$;'`()") & set(commands)


def test_a_hostile_fragment_picks_nothing(browser: Browser, world: World) -> None:
    browser.open(f"{world.site.url}index.html#wrapper=__proto__&version=%22;x&extra=x&client=%3Cimg%3E", picker=True)
    assert "torch-cpu==2.9.1" in browser.steps()[0]
