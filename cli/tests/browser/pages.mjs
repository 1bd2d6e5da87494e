// Every page with a script and without, light and dark, wide and on a phone: in modes that have each
// pair of these, and three pages in all eight.

import { strict as assert } from "node:assert";
import { Session, main } from "./chromium.mjs";

const inPlan = ["The plan is shown before anything is written", "Reason", "Records per second"];

// A page: its console, its path and the links that lead from there to it, its heading, and parts of
// its text.
const PAGES = [
  {
    name: "attention",
    inAllModes: true,
    path: "/",
    heading: "Needs attention",
    has: ["in doubt", "quarantined", "dead", "held", "no reply of the bank", "it is no order", "scanner"],
  },
  {
    name: "attention-well",
    console: "empty",
    path: "/",
    heading: "Needs attention",
    has: ["nothing needs an operator", "scanner", "reaper", "relay"],
  },
  {
    name: "group",
    path: "/",
    links: ["no reply of the bank"],
    heading: /^Group \w+$/,
    has: ["pay/1", "1 listed, and there are no more.", "ls --group"],
  },
  {
    name: "group-of-messages",
    path: "/",
    links: ["it is no order"],
    heading: /^Group \w+$/,
    has: ["message", "locker"],
  },
  {
    name: "workflow-waits",
    inAllModes: true,
    path: "/workflow?key=trip%2Fwaits",
    heading: "Workflow trip/waits",
    has: ["waits for", "event:paid", "trip/charged", "workflow compensate trip/waits", "Not possible now: "],
  },
  {
    name: "workflow-sleeps",
    path: "/workflow?key=trip%2Fsleeps",
    heading: "Workflow trip/sleeps",
    has: ["night", "timer"],
  },
  {
    name: "workflow-failed",
    path: "/workflow?key=trip%2Ffails",
    heading: "Workflow trip/fails",
    has: ["failed", "compensation:charge", "no seat is left", "No act is possible now."],
  },
  {
    name: "workflow-completed",
    path: "/workflow?key=trip%2Fends",
    heading: "Workflow trip/ends",
    has: ["completed", "No act is possible now."],
  },
  {
    name: "workflow-quarantine",
    path: "/workflow?key=stuck%2F1",
    heading: "Workflow stuck/1",
    has: ["quarantine", "the number 7 is wrong", "workflow retry stuck/1 --step call"],
  },
  {
    name: "workflow-data",
    path: "/workflow/data?key=trip%2Fwaits",
    heading: "Data of workflow trip/waits",
    has: ["classified receipt", "classified body"],
  },
  {
    name: "token-in-doubt",
    path: "/token?key=pay%2F1",
    heading: "Token pay/1",
    has: ["in doubt", "no reply of the bank", "release pay/1 --seen", "only a held token has a failure to close"],
  },
  {
    name: "token-held",
    path: "/token?key=pay%2F2",
    heading: "Token pay/2",
    has: ["held", "the card is unknown", "close pay/2 --seen"],
  },
  {
    name: "token-completed",
    path: "/token?key=pay%2F3",
    heading: "Token pay/3",
    has: ["completed", "No act is possible now."],
  },
  {
    name: "token-related",
    path: "/token?key=request%2F1",
    heading: "Token request/1",
    has: ["Related work", "token inner/1"],
  },
  {
    name: "token-long",
    path: "/find?text=long%2F&all=yes",
    links: [/^long\//],
    heading: /^Token long\/<img\/src=x\/onerror=alert\(1\)>/,
    has: ["held", "release 'long/<img"],
  },
  {
    name: "token-data",
    path: "/token/data?key=pay%2F3",
    heading: "Data of token pay/3",
    has: ["classified answer"],
  },
  {
    name: "find",
    path: "/find?text=trip%2F&all=yes",
    heading: "Find trip/",
    has: ["trip/waits", "trip/sleeps"],
  },
  {
    name: "find-nothing",
    path: "/find?text=nowhere",
    status: 404,
    heading: "Find nowhere",
    has: ["Nothing was found"],
  },
  {
    name: "audit",
    path: "/audit",
    heading: "Audit",
    has: ["ada", "released", "the bank has no charge", "token pay/2"],
  },
  {
    name: "health",
    path: "/health",
    heading: "Health",
    has: ["table, index and TTL", "Table of workflows", "Backlog", "quarantined"],
  },
  {
    name: "not-found",
    path: "/workflow?key=gone",
    status: 404,
    heading: "Not found",
    has: ["There is no workflow gone."],
  },
  {
    name: "no-such-page",
    path: "/nothing",
    status: 404,
    heading: "Not found",
    has: ["there is no such page"],
  },
  {
    name: "no-key",
    path: "/token",
    status: 400,
    heading: "Could not show this",
    has: ["the key is missing"],
  },
  {
    name: "refused",
    console: "noData",
    path: "/token/data?key=pay%2F3",
    status: 403,
    heading: "Could not show this",
    has: ["started with --no-data"],
  },
  {
    name: "in-doubt",
    console: "acting",
    path: "/doubt",
    heading: "In doubt",
    has: ["token pay/1", "was there an operation with the idempotency key", "It did not happen", "I do not know"],
  },
  {
    name: "in-doubt-read-only",
    path: "/doubt",
    heading: "In doubt",
    has: ["token inner/1", "no reply of the inner bank", "What may be done"],
  },
  {
    name: "in-doubt-well",
    console: "empty",
    path: "/doubt",
    heading: "In doubt",
    has: ["No token and no step"],
  },
  {
    name: "workflows",
    path: "/workflows",
    heading: "Workflows",
    has: ["trip/waits", "event:paid", "timer night", "stuck/1", "there are no more"],
  },
  {
    name: "workflows-well",
    console: "empty",
    path: "/workflows",
    heading: "Workflows",
    has: ["Each workflow has ended."],
  },
  {
    name: "messages",
    console: "acting",
    path: "/messages",
    heading: "Messages",
    has: ["it is no order", "packer", "No message is archived."],
  },
  {
    name: "messages-well",
    console: "empty",
    path: "/messages",
    heading: "Messages",
    has: ["No message is dead", "No message is archived."],
  },
  {
    name: "message",
    console: "acting",
    path: "/messages",
    links: ["it is no order", /^[0-9a-f]{8,}/],
    heading: /^Message \w+/,
    has: ["received by", "packer", "it is no order", "redrive", "bytes"],
  },
  {
    name: "message-data",
    console: "acting",
    path: "/messages",
    links: ["it is no order", /^[0-9a-f]{8,}/, "Show inputs, results and bodies"],
    heading: /^Data of message \w+/,
    has: ["classified order"],
  },
  {
    name: "group-to-act-on",
    console: "acting",
    path: "/",
    links: ["no reply of the bank"],
    heading: /^Group \w+$/,
    has: ["pay/1", "Plan an act on the whole group"],
  },
  {
    name: "token-to-act-on",
    console: "acting",
    path: "/token?key=pay%2F1",
    heading: "Token pay/1",
    has: ["An act opens a form.", "release", "resolve"],
  },
  {
    name: "workflow-to-act-on",
    console: "acting",
    path: "/workflow?key=stuck%2F1",
    heading: "Workflow stuck/1",
    has: ["An act opens a form.", "retry", "skip"],
  },
  {
    name: "act-resolve",
    console: "acting",
    inAllModes: true,
    path: "/act?work=token+pay%2F1&verb=resolve",
    heading: "Resolve token pay/1",
    has: ["Result, as JSON", "Reason", "Show what it would do", "grace"],
  },
  {
    name: "act-long",
    console: "acting",
    path: "/find?text=long%2F&all=yes",
    links: [/^long\//, "release"],
    heading: /^Release token long\/<img\/src=x\/onerror=alert\(1\)>/,
    has: ["Give the provider another key."],
  },
  {
    name: "act-step",
    console: "acting",
    path: "/act?work=workflow+stuck%2F1&verb=retry&step=call",
    heading: "Retry call of workflow stuck/1",
    has: ["Reason", "Give the provider another key."],
  },
  {
    name: "act-event",
    console: "acting",
    path: "/act?work=workflow+trip%2Fwaits&verb=signal&step=event%3Apaid",
    heading: "Signal paid to workflow trip/waits",
    has: ["Value of the event, as JSON", "Id of the event (optional)"],
  },
  {
    name: "act-message",
    console: "acting",
    path: "/messages",
    links: ["it is no order", /^[0-9a-f]{8,}/, "correct"],
    heading: /^Correct message \w+/,
    has: ["Body", "Reason"],
  },
  {
    name: "act-gone",
    console: "acting",
    path: "/act?work=token+gone&verb=release",
    status: 404,
    heading: "Not found",
    has: ["There is no token gone."],
  },
  {
    name: "act-read-only",
    path: "/act?work=token+pay%2F1&verb=release",
    status: 403,
    heading: "Could not show this",
    has: ["start it with --allow-changes"],
  },
  {
    name: "plan-tokens",
    console: "acting",
    path: "/plan/new?need=held",
    heading: "Act on all held tokens",
    has: [...inPlan, "release", "resolve", "close"],
  },
  {
    name: "plan-workflows",
    console: "acting",
    path: "/plan/new?need=quarantined",
    heading: "Act on all quarantined workflows",
    has: [...inPlan, "compensate", "Step"],
  },
  {
    name: "plan-messages",
    console: "acting",
    path: "/plan/new?need=dead",
    heading: "Act on all dead messages",
    has: [...inPlan, "redrive", "Canaries"],
  },
  {
    name: "plan-read-only",
    path: "/plan/new?need=held",
    status: 403,
    heading: "Could not show this",
    has: ["start it with --allow-changes"],
  },
];

const ALL = [true, false].flatMap((script) =>
  [false, true].flatMap((dark) => [false, true].map((phone) => ({ script, dark, phone }))));
// Each pair of values is in one of them.
const PAIRS = ALL.filter(({ script, dark, phone }) => (dark === phone) === script);

async function open(tab, { path, links = [], status }) {
  await tab.goto(path, links.length ? 200 : status);
  for (const [at, link] of links.entries()) {
    await tab.goto(await tab.linkTo(link), at + 1 < links.length ? 200 : status);
  }
}

async function check(tab, page, { script, dark, phone }) {
  await open(tab, page);
  await tab.hasHeading(page.heading);
  await tab.has(page.has);
  // Without its box a label names nothing, and a placeholder is no name.
  const labels = () => [...document.querySelectorAll("label")].map((it) => it.checkVisibility());
  assert.ok((await tab.page.evaluate(labels)).every((is) => is), "each label is rendered");
  assert.equal(await tab.page.locator("img, iframe, object, script:not([src])").count(), 0, "foreign markup");
  await tab.fits();
  const copy = await tab.page.locator("button.copy").count();
  const toCopy = await tab.page.locator("code[data-copy]").count();
  assert.equal(copy, script ? toCopy : 0, "one Copy button for each text to copy");
  if (!script) return;
  await tab.isAccessible();
  await tab.shot(page.name + (phone ? "-phone" : "-wide") + (dark ? "-dark" : "-light"));
}

// One tab for each console and mode: a new one for each page would take most of the time.
const tabs = new Map();

async function inTab(session, mode, test) {
  const key = session.origin + JSON.stringify(mode);
  if (!tabs.has(key)) tabs.set(key, await session.tab({ ...mode, still: true }));
  const tab = tabs.get(key);
  tab.forget();
  await test(tab);
  tab.isClean();
}

// The text with a script and without. Its durations are replaced, and it is read again if a state
// changed between the two.
async function isTheSame(session, page) {
  const texts = [];
  for (let reading = 0; reading < 3; reading += 1) {
    for (const script of [true, false]) {
      await inTab(session, { script, dark: false, phone: false }, async (tab) => {
        await open(tab, page);
        const text = await tab.text();
        texts[Number(script)] = text.replace(/\d+[dhms]( \d+[hms])?\b/g, "0").replace(/\d+/g, "0");
      });
    }
    if (texts[0] === texts[1]) return;
  }
  assert.equal(texts[0], texts[1]);
}

const tests = {};
for (const page of PAGES) {
  const sessionOf = (sessions) => sessions[page.console ?? "filled"];
  for (const mode of page.inAllModes ? ALL : PAIRS) {
    const { script, dark, phone } = mode;
    const words = [script ? "script" : "no script", dark ? "dark" : "light", phone ? "phone" : "wide"];
    tests[page.name + ": " + words.join(", ")] = (sessions) =>
      inTab(sessionOf(sessions), mode, (tab) => check(tab, page, mode));
  }
  tests[page.name + ": the same text without a script"] = (sessions) => isTheSame(sessionOf(sessions), page);
}
for (const script of [true, false]) {
  const words = script ? "script" : "no script";
  tests["the form Find: " + words] = ({ filled }) => filled.inTab({ script }, async (tab) => {
    await tab.goto("/health");
    await tab.submit({ Find: "<b>no reply" }, "Find", 404);
    await tab.hasHeading("Find <b>no reply");
    await tab.submit({ Find: "no reply" }, "Find");
    await tab.has(["pay/1", "inner/1"]);
  });
  tests["the form of the audit: " + words] = ({ filled }) => filled.inTab({ script }, async (tab) => {
    await tab.goto("/audit");
    await tab.submit({ "Acts of": "1d" }, "Show");
    assert.equal(tab.page.url(), filled.origin + "/audit?since=1d");
    await tab.has(["the bank has no charge"]);
  });
}
tests["a browser without the session"] = async ({ filled }) => {
  await new Session(filled.browser, filled.origin, []).inTab({}, async (tab) => {
    await tab.goto("/", 401);
    const text = await tab.page.textContent("body");
    assert.ok(text.includes("terminal"), "it names the address in the terminal: " + text);
  });
};
await main(tests);
