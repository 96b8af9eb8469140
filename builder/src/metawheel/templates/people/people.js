// The front page's picker: fills each client's set-up in for what is picked. Without it the page shows one choice.
"use strict";
(async () => {
  if (location.protocol === "file:") return; // no client can use such an index
  const form = document.getElementById("picker");
  const state = document.getElementById("state");
  const fields = form.elements;
  const answer = await fetch(form.dataset.static);
  if (!answer.ok) throw new Error(`${form.dataset.static}: ${answer.status}`);
  const data = await answer.json();
  const wrappers = new Map(Object.entries(data.wrappers));
  const pythons = new Map(data.pythons.map((python, number) => [python.key, { ...python, number }]));
  let wanted = ""; // the version that was picked by hand

  // Where the site is. What commands hold is pasted into a shell: only what an address needs stays as it is.
  function address() {
    const url = new URL(".", location.href);
    return url.origin + url.pathname.replace(/[^\w/.~%@+:-]/g, (one) => `%${one.charCodeAt(0).toString(16)}`);
  }

  const builds = (version, platform, python) =>
    Object.entries(version.builds[platform] ?? {}).find(([, numbers]) => numbers.includes(pythons.get(python).number));
  const radios = (name) => [...form.querySelectorAll(`input[name="${name}"]`)];
  const text = (name) => form.querySelector(`input[name="${name}"]:checked`).parentElement.textContent.trim();

  function pick(name, value) {
    const found = radios(name).find((input) => input.value === value);
    if (found) found.checked = true;
  }

  function restore() {
    const asked = new URLSearchParams(location.hash.slice(1));
    const wrapper = wrappers.get(asked.get("wrapper"));
    if (wrapper) {
      pick("project", wrapper.project);
      pick("wrapper", asked.get("wrapper"));
    }
    for (const name of ["python", "platform", "client"]) pick(name, asked.get(name));
    for (const box of radios("extra")) box.checked = asked.getAll("extra").includes(box.value);
    wanted = asked.get("version") ?? "";
    if (wrapper && !asked.has("python")) reach(wrapper);
  }

  // A link that names a wrapper only: take a platform and a Python that it covers.
  function reach(wrapper) {
    const version = wrapper.versions.find((one) => !wanted || one.version === wanted) ?? wrapper.versions[0];
    if (builds(version, fields.platform.value, fields.python.value)) return;
    const platform = version.builds[fields.platform.value] ? fields.platform.value : Object.keys(version.builds)[0];
    const numbers = Object.values(version.builds[platform]).flat();
    const there = data.pythons.filter((one, number) => numbers.includes(number));
    pick("platform", platform);
    pick("python", (there.findLast((one) => !one.key.endsWith("t")) ?? there[0]).key);
  }

  function guess() {
    const agent = navigator.userAgent;
    const likely = /Mac/.test(agent) ? "darwin arm64" : /Win/.test(agent) ? "win32 AMD64" : null;
    if (likely) pick("platform", likely);
  }

  function mark(name, isOn) {
    for (const input of radios(name)) {
      const label = input.parentElement;
      const off = !isOn(input.value);
      label.classList.toggle("off", off);
      if (off) input.setAttribute("aria-description", "not covered");
      else input.removeAttribute("aria-description");
    }
  }

  function update() {
    const project = fields.project.value;
    const chips = radios("wrapper").filter((input) => {
      input.parentElement.hidden = input.parentElement.dataset.project !== project;
      return !input.parentElement.hidden;
    });
    if (!chips.some((input) => input.checked)) chips[0].checked = true;
    const [name, platform, python] = [fields.wrapper.value, fields.platform.value, fields.python.value];
    const wrapper = wrappers.get(name);
    const covering = wrapper.versions.filter((version) => builds(version, platform, python));
    mark("python", (value) => wrapper.versions.some((version) => builds(version, platform, value)));
    mark("platform", (value) => wrapper.versions.some((version) => builds(version, value, python)));
    mark("wrapper", (value) => wrappers.get(value).versions.some((version) => builds(version, platform, python)));
    fields.version.replaceChildren(
      ...wrapper.versions.map((version) => {
        const option = new Option(version.version + ("yanked" in version ? " (yanked)" : ""), version.version);
        option.disabled = !covering.includes(version);
        return option;
      }),
    );
    const version =
      covering.find((one) => one.version === wanted) ?? covering.find((one) => !("yanked" in one)) ?? covering[0];
    fields.version.disabled = !version;
    const offered = version?.extras ?? [];
    for (const box of radios("extra")) {
      box.parentElement.hidden = !offered.includes(box.value);
      if (box.parentElement.hidden) box.checked = false;
    }
    document.getElementById("extras").hidden = offered.length === 0;
    for (const section of document.querySelectorAll("[data-client]"))
      section.hidden = !version || section.dataset.client !== fields.client.value;
    state.classList.toggle("bad", !version || "yanked" in version);
    if (!version) {
      state.textContent = `${name} has no version for Python ${text("python")} on ${text("platform")}. ${hint(wrapper, platform)}`;
      return;
    }
    fields.version.value = version.version;
    fillIn(name, wrapper, version, platform, python);
    const [build] = builds(version, platform, python);
    const yanked = "yanked" in version ? ` It is yanked: ${version.yanked || "upstream gives no reason"}.` : "";
    state.textContent = `${name} ${version.version} installs ${wrapper.project} ${build} on ${text("platform")} with Python ${text("python")}.${yanked}`;
  }

  function hint(wrapper, platform) {
    const there = data.pythons.filter((python) => wrapper.versions.some((one) => builds(one, platform, python.key)));
    if (there.length) return `There it is for Python ${there.map((python) => python.interpreter).join(", ")}.`;
    const others = Object.keys(data.platforms).filter((one) => wrapper.versions.some((version) => version.builds[one]));
    return `It is for ${others.map((one) => data.platforms[one].platform).join(", ")}.`;
  }

  function fillIn(name, wrapper, version, platform, python) {
    const extras = radios("extra").filter((box) => box.checked).map((box) => box.value);
    const full = extras.length ? `${name}[${extras.join(",")}]` : name;
    const values = {
      ...pythons.get(python),
      ...data.platforms[platform],
      url: form.dataset.url || address(),
      wrapper: name,
      version: version.version,
      name_and_extras: full,
      requirement: `${full}==${version.version}`,
      view: wrapper.view,
      packages: version.packages.map((one) => `"${one}"`).join(", "),
    };
    for (const code of document.querySelectorAll("code[data-template]"))
      code.textContent = code.dataset.template.replace(/\$\{(\w+)\}/g, (_, key) => values[key]);
  }

  function remember() {
    const chosen = new URLSearchParams(new FormData(form));
    chosen.delete("project");
    history.replaceState(null, "", `#${chosen}`);
  }

  function addCopyButtons() {
    for (const code of document.querySelectorAll("code[data-template]")) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "copy";
      button.textContent = "Copy";
      button.setAttribute("aria-label", `Copy ${code.parentElement.getAttribute("aria-label")}`);
      button.addEventListener("click", async () => {
        button.textContent = (await copy(code)) ? "Copied" : "Press Ctrl+C";
        setTimeout(() => (button.textContent = "Copy"), 2000);
      });
      code.closest("figure").querySelector("figcaption").append(button);
    }
  }

  // The clipboard is for secure contexts only; a site on a plain http intranet is none.
  async function copy(code) {
    if (navigator.clipboard) return navigator.clipboard.writeText(code.textContent).then(() => true, () => false);
    getSelection().selectAllChildren(code);
    return document.execCommand("copy");
  }

  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("change", (event) => {
    if (event.target.name === "version") wanted = event.target.value;
    else if (event.target.name === "wrapper" || event.target.name === "project") wanted = "";
    update();
    remember();
  });
  addEventListener("hashchange", () => {
    if (document.getElementById(location.hash.slice(1))) return; // a place on this page, such as the skip link's
    restore();
    update();
  });
  addCopyButtons();
  guess();
  restore();
  update();
  document.getElementById("example").remove();
  state.hidden = false;
  form.hidden = false;
  document.body.classList.add("picking");
})();
