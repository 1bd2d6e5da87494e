// The console by the keyboard alone, with a script and without. `tabTo` checks that each element on
// the way has a visible focus.

import { strict as assert } from "node:assert";
import { main } from "./chromium.mjs";

const tests = {
  "the first link skips the menu": async (tab) => {
    await tab.goto("/");
    await tab.page.keyboard.press("Tab");
    assert.equal((await tab.focused()).text, "Skip to the content");
    await tab.page.keyboard.press("Enter");
    await tab.page.waitForURL("**/#main");
    await tab.page.keyboard.press("Tab");
    assert.ok((await tab.focused()).isInMain, "the next element is in the content");
  },

  "the menu opens its pages": async (tab) => {
    await tab.goto("/");
    for (const name of ["Audit", "Health", "Needs attention"]) {
      await tab.tabTo("a", name);
      await tab.enter();
      await tab.hasHeading(name);
    }
  },

  "Find leads to a workflow": async (tab) => {
    await tab.goto("/");
    await tab.tabTo("input", "Find");
    await tab.page.keyboard.type("trip/waits");
    await tab.enter();
    await tab.hasHeading("Find trip/waits");
    await tab.tabTo("a", "workflow trip/waits");
    await tab.enter();
    await tab.hasHeading("Workflow trip/waits");
  },

  "a group opens, and its workflow, and its details": async (tab) => {
    await tab.goto("/");
    await tab.tabTo("a", /number .+ is wrong/);
    await tab.enter();
    await tab.hasHeading(/^Group /);
    await tab.tabTo("a", "stuck/1");
    await tab.enter();
    await tab.hasHeading("Workflow stuck/1");
    const summary = (await tab.page.locator("#refused summary").textContent()).trim();
    await tab.tabTo("summary", summary);
    await tab.page.keyboard.press("Enter");
    await tab.page.locator("#refused[open]").waitFor();
  },

  "the form of the audit": async (tab) => {
    await tab.goto("/audit");
    await tab.page.keyboard.press("Tab");
    for (let pressed = 0; (await tab.focused()).tag !== "select"; pressed += 1) {
      assert.ok(pressed < 20, "the select is reached");
      await tab.page.keyboard.press("Tab");
    }
    await tab.page.keyboard.press("ArrowUp");
    await tab.tabTo("button", "Show");
    await tab.enter();
    assert.ok(tab.page.url().endsWith("/audit?since=1d"), tab.page.url());
  },

  "Tab reaches each element in one round": async (tab) => {
    for (const path of ["/", "/workflow?key=trip%2Fwaits", "/token?key=pay%2F1", "/health"]) {
      await tab.isReachedByTab(path);
    }
  },
};

const modes = [[true, false], [false, false], [true, true], [false, true]];
await main(Object.fromEntries(Object.entries(tests).flatMap(([name, test]) => modes.map(([script, phone]) => {
  const words = (script ? "script" : "no script") + ", " + (phone ? "phone" : "wide");
  return [name + ": " + words, ({ filled }) => filled.inTab({ script, phone }, test)];
}))));
