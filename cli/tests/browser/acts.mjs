// The acts of the console, with a script or without: the name of the console is the mode. Each test
// has records of its own.

import { strict as assert } from "node:assert";
import { PATIENCE, locker, main } from "./chromium.mjs";

const SHOW = "Show what it would do";

async function stateOf(key) {
  return JSON.parse(await locker("show", key, "--output", "json")).state;
}

// The dry run of the form that is open, and the act.
async function act(tab, fields, title) {
  await tab.submit(fields, SHOW);
  await tab.hasHeading("Dry run: " + title);
  await tab.has(["Nothing was written. This would happen:"]);
  await tab.submit({}, title[0].toUpperCase() + title.slice(1));
  await tab.hasHeading("Done: " + title);
  await tab.has(["It is written, and the audit has it"]);
}

// Waits until the page has a text. Without a script the reader reads it again.
async function awaitText(tab, text) {
  const until = Date.now() + PATIENCE;
  while ((await tab.text()).search(text) < 0) {
    assert.ok(Date.now() < until, text + " is not in " + await tab.text());
    if (tab.isScripted) await tab.page.waitForTimeout(200);
    else await tab.opens(() => tab.page.reload());
  }
}

// The page of a plan, from the page of a group.
async function planGroup(tab, path, cause, fields, title) {
  await tab.goto(path);
  await tab.follow(cause);
  await tab.follow("Plan an act on the whole group");
  await tab.submit(fields, "Show the plan");
  await tab.hasHeading("Plan: " + title);
  await tab.has(["The dry run wrote nothing. The plan is stored on this machine, and no result of it.", "locker apply "]);
}

const tests = {
  "an act on a token": async (tab) => {
    await tab.goto("/token?key=pay%2F2");
    await tab.follow("resolve");
    await tab.hasHeading("Resolve token pay/2");
    await tab.submit({ "Result, as JSON": "sent", Reason: "the bank <b>paid</b>" }, SHOW, 409);
    await tab.has(["Nothing was written.", "is not JSON"]);
    await tab.isWell("act-refused", tab.isScripted);
    assert.equal(await tab.page.getByLabel("Result, as JSON", { exact: true }).inputValue(), "sent");
    assert.equal(await tab.page.getByLabel("Reason", { exact: true }).inputValue(), "the bank <b>paid</b>");
    assert.equal(await stateOf("pay/2"), "held");
    await tab.submit({ "Result, as JSON": '"sent"' }, SHOW);
    await tab.hasHeading("Dry run: resolve token pay/2");
    await tab.has(["the bank <b>paid</b>", "grace", '"sent"']);
    await tab.isWell("act-dry-run", tab.isScripted);
    assert.equal(await stateOf("pay/2"), "held");
    await tab.submit({}, "Resolve token pay/2");
    await tab.hasHeading("Done: resolve token pay/2");
    await tab.isWell("act-done", tab.isScripted);
    assert.equal(await stateOf("pay/2"), "completed");
    await tab.follow("Audit");
    await tab.has(["grace", "the bank <b>paid</b>"]);
  },

  "an event": async (tab) => {
    await tab.goto("/workflow?key=trip%2Fwaits");
    const events = tab.page.getByRole("region", { name: "Events", exact: true });
    await tab.follow(events.getByRole("link", { name: "signal", exact: true }));
    const fields = { "Value of the event, as JSON": "7", "Id of the event (optional)": "cash-1", Reason: "in cash" };
    await act(tab, fields, "signal paid to workflow trip/waits");
    await tab.follow("workflow trip/waits");
    await tab.has(["given", "cash-1"]);
  },

  "an act on a step in quarantine": async (tab) => {
    await tab.goto("/");
    await tab.follow(/number .+ is wrong/);
    await tab.follow("stuck/1");
    const steps = tab.page.getByRole("region", { name: "Steps", exact: true });
    await tab.follow(steps.getByRole("link", { name: "retry", exact: true }));
    await act(tab, { Reason: "the number is right" }, "retry call of workflow stuck/1");
    await tab.has(["it runs again, and gives the provider the key stuck/1 call as before"]);
    await tab.follow("workflow stuck/1");
    await tab.has(["grace: the number is right"]);
  },

  "in doubt: it happened, it did not happen, I do not know": async (tab) => {
    const answer = async (name, text) => {
      await tab.goto("/doubt");
      const card = tab.page.getByRole("region", { name, exact: true });
      return card.getByRole("link", { name: text, exact: true });
    };
    await tab.follow(await answer("token pay/1", "It happened"));
    await act(tab, { "Result, as JSON": '"ch_1"', Reason: "the bank has it" }, "resolve token pay/1");
    await tab.follow(await answer("token inner/1", "It did not happen"));
    await act(tab, { Reason: "the bank has no charge" }, "release token inner/1");
    await tab.follow(await answer("token request/1", "I do not know"));
    await tab.hasHeading("Token request/1");
    assert.ok(tab.page.url().endsWith("#acts"), tab.page.url());
    await tab.goto("/doubt");
    const text = await tab.text();
    assert.ok(text.includes("request/1") && !text.includes("pay/1") && !text.includes("inner/1"), text);
  },

  "a record that changed since its dry run": async (tab) => {
    await tab.goto("/token?key=stale%2F1");
    await tab.follow("release");
    await tab.submit({ Reason: "never printed" }, SHOW);
    const { revision } = JSON.parse(await locker("show", "stale/1", "--output", "json"));
    await locker("close", "stale/1", "--reason", "lost", "--seen", revision);
    await tab.submit({}, "Release token stale/1", 409);
    await tab.has(["Nothing was written"]);
    await tab.isWell("act-stale", tab.isScripted);
    assert.equal(await stateOf("stale/1"), "failed");
    const audit = await locker("audit", "--output", "json");
    assert.ok(!audit.includes("never printed"), "the act is not in the audit: " + audit);
  },

  "two tabs with the same dry run": async (tab) => {
    const other = new tab.constructor(tab.session, tab.context, await tab.context.newPage());
    for (const it of [tab, other]) {
      await it.goto("/act?work=workflow+trip%2Fsleeps&verb=cancel");
      await it.submit({ Reason: "no longer needed" }, SHOW);
    }
    await tab.submit({}, "Cancel workflow trip/sleeps");
    await tab.hasHeading("Done: cancel workflow trip/sleeps");
    await other.submit({}, "Cancel workflow trip/sleeps", 409);
    await other.has(["Nothing was written"]);
    other.isClean();
  },

  "a plan for a group": async (tab) => {
    await planGroup(tab, "/", "relay denied", { Reason: "relay repaired" }, "release 12 records");
    await tab.has(["12 of 12 found", "100 per second", "relay repaired", "mail/1"]);
    await tab.isWell("plan", tab.isScripted);
    assert.equal(await stateOf("mail/12"), "held");
    await tab.submit({}, "Apply the plan: release 12 records");
    await awaitText(tab, "Finished: 12 done.");
    await tab.has(["12 of 12, 12 done"]);
    await tab.isWell("plan-finished", tab.isScripted);
    assert.equal(await tab.page.getByRole("button", { name: /^(Apply|Continue|Stop)/ }).count(), 0);
    await tab.follow("Audit");
    await tab.has(["relay repaired (plan "]);
  },

  // The plan is so long that no machine finishes it before the stop.
  "a plan that is stopped and continued": async (tab) => {
    const fields = { Reason: "paper is there", "Records per second": "1" };
    await planGroup(tab, "/", "no paper", fields, "release 300 records");
    await tab.submit({}, "Apply the plan: release 300 records");
    await tab.has(["The plan is being applied."]);
    await tab.isWell("plan-runs", tab.isScripted);
    await awaitText(tab, /[1-9]\d* done/);
    await tab.submit({}, "Stop");
    await awaitText(tab, "Not finished: ");
    await tab.has(["not begun", "Continue the plan here, or by"]);
    await tab.isWell("plan-stopped", tab.isScripted);
    await tab.submit({}, "Continue the plan: release 300 records");
    await tab.has(["The plan is being applied."]);
    await tab.submit({}, "Stop");
    await awaitText(tab, "Not finished: ");
  },

  "a plan that is refused": async (tab) => {
    await tab.goto("/plan/new?need=held");
    await tab.page.getByRole("radio", { name: /^resolve:/ }).check();
    await tab.submit({ Reason: "by the books" }, "Show the plan", 409);
    await tab.has(["Nothing was written.", "A resolve takes a result."]);
    await tab.isWell("plan-refused", tab.isScripted);
    assert.ok(await tab.page.getByRole("radio", { name: /^resolve:/ }).isChecked(), "the act is kept");
    assert.equal(await tab.page.getByLabel("Reason", { exact: true }).inputValue(), "by the books");
  },

  "dead messages are archived, restored and redriven by plans": async (tab) => {
    const apply = async (verb) => {
      await tab.submit({}, "Apply the plan: " + verb + " 4 records");
      await awaitText(tab, "Finished: 4 done");
      await tab.goto("/messages");
    };
    await tab.goto("/messages");
    await tab.follow("there is no such box");
    await tab.follow("Plan an act on the whole group");
    await tab.page.getByRole("radio", { name: /^archive:/ }).check();
    await tab.submit({ Reason: "of the old shop" }, "Show the plan");
    await apply("archive");
    await tab.has(["Archived", "there is no such box", "of the old shop"]);
    await tab.isWell("messages-archived", tab.isScripted);
    await tab.follow("Restore all archived messages");
    await tab.submit({ Reason: "after all" }, "Show the plan");
    await apply("restore");
    await tab.has(["No message is archived."]);
    const canaries = "Canaries: messages that are redriven first (0: none)";
    const fields = { Reason: "the boxes are back", [canaries]: "0" };
    await planGroup(tab, "/messages", "there is no such box", fields, "redrive 4 records");
    await apply("redrive");
    assert.ok(!(await tab.text()).includes("there is no such box"), "no message of the group is dead");
  },

  "the keyboard alone, from Needs attention to Done": async (tab) => {
    const follow = async (link) => {
      await tab.tabTo("a", link);
      await tab.enter();
    };
    await tab.goto("/");
    await follow("the cable is cut");
    await follow("keys/1");
    await follow("release");
    await tab.hasHeading("Release token keys/1");
    await tab.tabTo("input", "Reason");
    await tab.page.keyboard.type("the cable is repaired");
    await tab.enter();
    await tab.hasHeading("Dry run: release token keys/1");
    await tab.tabTo("button", "Release token keys/1");
    await tab.enter();
    await tab.hasHeading("Done: release token keys/1");
    await follow("token keys/1");
    await tab.has(["the cable is repaired"]);
  },

  "Tab reaches each element of a form": async (tab) => {
    for (const path of ["/act?work=token+request%2F1&verb=resolve", "/doubt"]) await tab.isReachedByTab(path);
  },
};

await main(Object.fromEntries(Object.entries(tests).map(([name, test]) => [name, (sessions) => {
  const [[mode, session]] = Object.entries(sessions);
  const isScripted = mode === "script";
  return session.inTab({ script: isScripted }, (tab) => test(Object.assign(tab, { isScripted })));
}])));
