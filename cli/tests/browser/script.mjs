// What the script adds: buttons that copy, and a newer page every few seconds.

import { strict as assert } from "node:assert";
import { locker, main } from "./chromium.mjs";

const TOKEN = "/token?key=pay%2F1";
const UPDATED = /^Updated at /;

// The line of the footer about the updates, when it has such a text.
async function awaitLine(tab, text) {
  await tab.page.locator("#updates").filter({ hasText: text }).waitFor();
}

await main({
  "buttons copy the whole text": ({ filled }) => filled.inTab({ still: true }, async (tab) => {
    await tab.context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: filled.origin });
    for (const path of ["/workflow?key=trip%2Fwaits", TOKEN]) {
      await tab.goto(path);
      const codes = tab.page.locator("code[data-copy]");
      const count = await codes.count();
      assert.ok(count > 2, path);
      for (let at = 0; at < count; at += 1) {
        const button = tab.page.locator("button.copy").nth(at);
        await button.click();
        await button.filter({ hasText: "Copied" }).waitFor();
        const copied = await tab.page.evaluate(() => navigator.clipboard.readText());
        assert.equal(copied, await codes.nth(at).textContent());
      }
    }
  }),

  "a button without permission selects the text": ({ filled }) => filled.inTab({ still: true }, async (tab) => {
    await tab.context.addInitScript(() => {
      navigator.clipboard.writeText = () => Promise.reject(new Error("no permission"));
    });
    await tab.goto(TOKEN);
    const button = tab.page.locator("button.copy").first();
    await button.click();
    await button.filter({ hasText: "Selected" }).waitFor();
    const selected = await tab.page.evaluate(() => getSelection().toString());
    assert.equal(selected, await tab.page.locator("code[data-copy]").first().textContent());
  }),

  "a page stays as it is while the reader uses it": ({ filled }) => filled.inTab({}, async (tab) => {
    await tab.page.clock.install();
    await tab.goto(TOKEN);
    let requests = 0;
    tab.context.on("request", () => { requests += 1; });
    const summary = tab.page.locator("#refused summary");
    await summary.focus();
    await tab.page.clock.runFor(60_000);
    assert.equal(requests, 0, "while something has the focus");
    await summary.blur();
    await tab.page.evaluate(() => getSelection().selectAllChildren(document.querySelector("h1")));
    await tab.page.clock.runFor(60_000);
    assert.equal(requests, 0, "while something is selected");
    await tab.page.evaluate(() => getSelection().removeAllRanges());
    await tab.page.clock.runFor(6_000);
    await awaitLine(tab, UPDATED);
  }),

  "a page shows a change by itself and keeps opened details": ({ filled }) => filled.inTab({}, async (tab) => {
    await tab.goto(TOKEN);
    const details = tab.page.locator("#refused");
    await details.locator("summary").click();
    await tab.page.locator("h1").click();
    assert.equal(await details.getAttribute("open"), "");
    const shown = await locker("show", "pay/1", "--output", "json");
    const { revision } = JSON.parse(shown);
    await locker("resolve", "pay/1", "--reason", "paid", "--result", '"ch_1"', "--seen", revision);
    await tab.page.locator("#main .badge").filter({ hasText: "completed" }).first().waitFor();
    await awaitLine(tab, UPDATED);
    assert.equal(await details.getAttribute("open"), "");
    const copy = await tab.page.locator("button.copy").count();
    assert.equal(copy, await tab.page.locator("code[data-copy]").count(), "Copy buttons on the newer page");
  }),

  "a page without its session or its console shows the reason": ({ filled }) => filled.inTab({}, async (tab) => {
    await tab.goto("/");
    tab.allow("responded with a status of 401");
    await tab.context.clearCookies();
    await awaitLine(tab, "The session has ended");
    tab.allow("ERR_INTERNET_DISCONNECTED");
    await tab.context.setOffline(true);
    await awaitLine(tab, "The console does not answer");
  }),
});
