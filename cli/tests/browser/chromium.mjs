// Chromium, its tabs, and the rules that hold on every page. The other files of this folder are the
// tests: each is run by `cli/tests/browser.rs`, with the addresses of consoles as `NAME=ADDRESS`.

import { strict as assert } from "node:assert";
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { promisify } from "node:util";

// The folder of the npm packages and of the pictures.
const HOME = process.env.BROWSER_HOME;
const SHOTS = join(HOME, "shots");
const require = createRequire(join(HOME, "package.json"));
const { chromium } = require("playwright-core");
const AXE = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

// As long as `until` of the other tests: machines may be busy.
export const PATIENCE = 180_000;
const SIZES = { wide: { width: 1280, height: 900 }, phone: { width: 390, height: 844 } };
const OPTIONS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

// Runs tests in one Chromium with a new profile, and ends the process. Each test receives the
// sessions of all consoles. `BROWSER_ONLY` selects tests by a part of their name.
export async function main(tests) {
  const executablePath = process.env.BROWSER_CHROMIUM;
  const browser = await chromium.launch({ executablePath, args: OPTIONS, headless: true, timeout: PATIENCE });
  const only = process.env.BROWSER_ONLY ?? "";
  const chosen = Object.entries(tests).filter(([name]) => name.includes(only));
  let failed = 0;
  try {
    const sessions = {};
    for (const argument of process.argv.slice(2)) {
      const [name, address] = argument.split(/=(.*)/s);
      sessions[name] = await Session.enter(browser, address);
    }
    for (const [name, test] of chosen) {
      try {
        await test(sessions);
        console.log("ok     " + name);
      } catch (error) {
        failed += 1;
        console.log("FAILED " + name + "\n" + (error.stack ?? error) + "\n");
      }
    }
  } finally {
    await browser.close();
  }
  process.exit(failed === 0 ? 0 : 1);
}

// The command in the place of the consoles.
export async function locker(...words) {
  const [program, ...options] = JSON.parse(process.env.BROWSER_COMMAND);
  // The command refuses variables of its own that it does not know.
  const isOther = ([name]) => !name.startsWith("LOCKER_");
  const env = Object.fromEntries(Object.entries(process.env).filter(isOther));
  const { stdout } = await promisify(execFile)(program, [...options, ...words], { env });
  return stdout;
}

// A console that was entered. Its tabs share the session.
export class Session {
  constructor(browser, origin, cookies) {
    Object.assign(this, { browser, origin, cookies });
  }

  static async enter(browser, address) {
    const context = await browser.newContext();
    const page = await context.newPage();
    await page.goto(address, { timeout: PATIENCE });
    const { origin } = new URL(address);
    assert.equal(page.url(), origin + "/", "the secret is not in the address");
    const session = new Session(browser, origin, await context.cookies());
    await context.close();
    return session;
  }

  // A tab in a mode. A tab that is `still` shows each page as it was read: the script replaces nothing.
  async tab({ script = true, dark = false, phone = false, still = false } = {}) {
    const context = await this.browser.newContext({
      javaScriptEnabled: script,
      colorScheme: dark ? "dark" : "light",
      viewport: phone ? SIZES.phone : SIZES.wide,
    });
    context.setDefaultTimeout(PATIENCE);
    await context.addCookies(this.cookies);
    if (still) await context.addInitScript(() => { window.setInterval = () => 0; });
    return new Tab(this, context, await context.newPage());
  }

  // Runs a test in a tab, which is closed after it.
  async inTab(mode, test) {
    const tab = await this.tab(mode);
    try {
      await test(tab);
      tab.isClean();
    } finally {
      await tab.context.close();
    }
  }
}

// A tab that records what no page may cause.
export class Tab {
  constructor(session, context, page) {
    Object.assign(this, { session, context, page, problems: [], allowed: [] });
    context.on("request", (request) => {
      const { origin, protocol } = new URL(request.url());
      if (origin !== session.origin && protocol !== "data:") this.problems.push("request to " + request.url());
    });
    page.on("pageerror", (error) => this.problems.push("error of the script: " + error.message));
    page.on("console", (message) => {
      if (!["error", "warning"].includes(message.type())) return;
      if (this.allowed.some((text) => message.text().includes(text))) return;
      this.problems.push("console: " + message.text() + " at " + message.location().url);
    });
  }

  // Expects this text in messages of Chromium's console.
  allow(text) {
    this.allowed.push(text);
  }

  // Begins to record anew.
  forget() {
    Object.assign(this, { problems: [], allowed: [] });
  }

  isClean() {
    assert.deepEqual(this.problems, []);
  }

  async goto(path, status = 200) {
    // Chromium reports each page with such a status as an error.
    if (status >= 400) this.allow("responded with a status of " + status);
    const response = await this.page.goto(this.session.origin + path);
    assert.equal(response.status(), status, path);
  }

  // The address of a link on this page, without the origin.
  async linkTo(text) {
    return this.page.getByRole("link", { name: text, exact: true }).first().getAttribute("href");
  }

  async hasHeading(text) {
    await this.page.getByRole("heading", { level: 1, name: text, exact: true }).waitFor();
    assert.equal(await this.page.locator("h1").count(), 1, "one heading of the first level");
  }

  // The text of the page, without what the script adds, and without the drawing, whose gaps grow.
  async text() {
    const text = await this.page.evaluate(() => {
      const main = document.getElementById("main").cloneNode(true);
      main.querySelectorAll("button.copy, svg").forEach((it) => it.remove());
      return main.textContent;
    });
    return text.replace(/\s+/g, " ");
  }

  async has(parts) {
    const text = await this.text();
    for (const part of parts) assert.ok(text.includes(part), part + " is not in " + text);
  }

  // Nothing is wider than the window: what is, scrolls by itself.
  async fits() {
    const wider = await this.page.evaluate(() => {
      const { clientWidth, scrollWidth } = document.documentElement;
      if (scrollWidth <= clientWidth) return [];
      const isWider = (it) => it.getBoundingClientRect().right > clientWidth && !it.closest(".scroll");
      return ["page of " + scrollWidth + " px", ...[...document.querySelectorAll("body *")].filter(isWider)
        .map((it) => it.tagName + "." + it.className + " " + it.textContent.slice(0, 60))];
    });
    assert.deepEqual(wider, []);
  }

  // The rules of axe, with those that it does not check unless told to.
  async isAccessible() {
    await this.page.evaluate(AXE);
    const found = await this.page.evaluate(async () => {
      const rules = { "color-contrast": { enabled: true }, "target-size": { enabled: true } };
      const { violations, passes } = await window.axe.run(document, { rules });
      const nodes = (it) => it.nodes.map((node) => node.html.slice(0, 200) + ": " + node.failureSummary);
      return {
        violations: violations.map((it) => it.id + ": " + it.help + "\n  " + nodes(it).join("\n  ")),
        passes: passes.map((it) => it.id),
      };
    });
    assert.deepEqual(found.violations, [], found.violations.join("\n"));
    assert.ok(found.passes.includes("color-contrast"), "the contrast was checked");
  }

  // Fills the fields with these labels, presses a button, and waits for the next page.
  async submit(fields, button, status = 200) {
    for (const [label, value] of Object.entries(fields)) {
      const field = this.page.getByLabel(label, { exact: true });
      const kind = await field.evaluate((it) => it.type);
      if (kind === "select-one") await field.selectOption(value);
      else if (kind === "checkbox" || kind === "radio") await field.setChecked(value);
      else await field.fill(value);
    }
    await this.opens(() => this.page.getByRole("button", { name: button, exact: true }).click(), status);
  }

  // Follows a link that is this, or that is the first with this text.
  async follow(link, status = 200) {
    const isText = typeof link === "string" || link instanceof RegExp;
    const found = isText ? this.page.getByRole("link", { name: link, exact: true }).first() : link;
    await this.opens(() => found.click(), status);
  }

  // Does what opens another page, and waits for that page.
  async opens(act, status = 200) {
    if (status >= 400) this.allow("responded with a status of " + status);
    const isPage = (it) => it.request().isNavigationRequest() && it.status() !== 303;
    const [response] = await Promise.all([
      this.page.waitForResponse(isPage),
      this.page.waitForEvent("load"),
      act(),
    ]);
    assert.equal(response.status(), status, response.url());
  }

  // Checks a page that an address alone does not open, in each colour and width, and takes its
  // pictures.
  async isWell(name, isScripted) {
    const size = this.page.viewportSize();
    for (const phone of [false, true]) {
      await this.page.setViewportSize(phone ? SIZES.phone : SIZES.wide);
      await this.fits();
      for (const colorScheme of isScripted ? ["light", "dark"] : []) {
        await this.page.emulateMedia({ colorScheme });
        await this.isAccessible();
        await this.shot(name + (phone ? "-phone-" : "-wide-") + colorScheme);
      }
    }
    await this.page.emulateMedia({ colorScheme: null });
    await this.page.setViewportSize(size);
  }

  // The element with the focus. It has to be visible, with a frame.
  async focused() {
    const focused = await this.page.evaluate(() => {
      const it = document.activeElement;
      const [style, box] = [getComputedStyle(it), it.getBoundingClientRect()];
      return {
        tag: it.tagName.toLowerCase(),
        text: (it.getAttribute("aria-label") ?? it.labels?.[0]?.textContent ?? it.textContent).trim(),
        isInMain: document.getElementById("main").contains(it),
        isFramed: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2,
        isSeen: box.width > 0 && box.bottom > 0 && box.right > 0 && box.left < innerWidth && box.top < innerHeight,
      };
    });
    if (focused.tag !== "body") {
      assert.ok(focused.isFramed, "no frame: " + JSON.stringify(focused));
      assert.ok(focused.isSeen, "not in the window: " + JSON.stringify(focused));
    }
    return focused;
  }

  // Presses Tab until an element with such a text has the focus.
  async tabTo(tag, text, most = 200) {
    const isText = (found) => (text instanceof RegExp ? text.test(found) : found === text);
    const seen = new Set();
    for (let pressed = 0; pressed < most; pressed += 1) {
      await this.page.keyboard.press("Tab");
      const focused = await this.focused();
      seen.add(focused.tag + " " + focused.text.slice(0, 60));
      if (focused.tag === tag && isText(focused.text)) return focused;
    }
    return assert.fail(tag + " " + text + " is not among " + [...seen].join("; "));
  }

  // One round of Tab on a page reaches each element that has an effect.
  async isReachedByTab(path) {
    await this.goto(path);
    const elements = await this.page.evaluate(() => {
      const found = [...document.querySelectorAll("a[href], button, input, textarea, select, summary, [tabindex='0']")];
      return found.filter((it) => it.checkVisibility()).length;
    });
    let reached = 0;
    for (await this.page.keyboard.press("Tab"); (await this.focused()).tag !== "body"; reached += 1) {
      assert.ok(reached <= elements, path + " has only " + elements);
      await this.page.keyboard.press("Tab");
    }
    assert.equal(reached, elements, path);
  }

  // Presses Enter on a link or a button, and waits for the next page.
  async enter() {
    const next = this.page.waitForEvent("load");
    await this.page.keyboard.press("Enter");
    await next;
  }

  // A picture, if `BROWSER_PICTURES=yes` asks for pictures. Playwright makes the folder.
  async shot(name) {
    if (process.env.BROWSER_PICTURES !== "yes") return;
    await this.page.screenshot({ path: join(SHOTS, name + ".png"), fullPage: true });
  }
}
