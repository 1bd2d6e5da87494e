// The ten tasks of `cli/tests/tasks.rs` by clicks. The test reads the lines that begin with `begin`
// and `end`, and answers each with a line: in between it takes what DynamoDB has counted.
//
// Each task begins on a page with the menu. A click on a link or a button counts one, and so does
// each field that is typed in.

import { strict as assert } from "node:assert";
import { once } from "node:events";
import { PATIENCE, locker, main } from "./chromium.mjs";

// The operator's hand, which counts.
class Hand {
  constructor(tab) {
    Object.assign(this, { tab, clicks: 0, units: 0 });
  }

  // What the foot of the page says that it read.
  async add() {
    const used = await this.tab.page.locator("#used").textContent();
    this.units += Number(used.match(/ ([\d.]+) read units/)[1]);
  }

  async click(link, status = 200) {
    this.clicks += 1;
    await this.tab.follow(link, status);
    await this.add();
  }

  async press(button) {
    this.clicks += 1;
    await this.tab.submit({}, button);
    await this.add();
  }

  async type(label, text) {
    this.clicks += 1;
    await this.tab.page.getByLabel(label, { exact: true }).fill(text);
  }

  async choose(label, value) {
    this.clicks += 1;
    await this.tab.page.getByLabel(label, { exact: true }).selectOption(value);
  }

  async find(text, status = 200) {
    await this.type("Find", text);
    this.clicks += 1;
    await this.tab.submit({}, "Find", status);
    await this.add();
  }

  async act(fields, title) {
    for (const [label, value] of Object.entries(fields)) await this.type(label, value);
    await this.press("Show what it would do");
    await this.press(title);
    await this.tab.has(["It is written, and the audit has it"]);
  }
}

const tasks = {
  "what needs me": async (hand, tab) => {
    await hand.click("Needs attention");
    await tab.has(["the ledger is read only", "address unknown", "in doubt", "200", "40"]);
  },

  "why: the timeline of the first": async (hand, tab) => {
    await hand.click("Needs attention");
    await hand.click(/the ledger is read only/);
    await hand.click("buy/0");
    await tab.has(["Timeline", "the ledger is read only"]);
  },

  "which customer": async (hand, tab) => {
    await hand.find("cust7", 404);
    await hand.click("Search everything that is in progress, too");
    await tab.has(["@cust7/mail/7"]);
  },

  "what happened to this order": async (hand, tab) => {
    await hand.find("@cust7/order/4711");
    await hand.click("token @cust7/order/4711");
    await tab.has(["completed"]);
  },

  "release safely": async (hand) => {
    await hand.click("In doubt");
    await hand.click("It did not happen");
    await hand.act({ Reason: "the bank has no charge" }, /^Release token /);
  },

  "correct a wrong resolve": async (hand) => {
    await hand.click("Audit");
    await hand.click(/^token .+pay/);
    await hand.click("correct");
    await hand.act({ "Result, as JSON": '"ch_7"', Reason: "mistyped" }, /^Correct token /);
  },

  "act on the 200": async (hand, tab) => {
    await hand.click("Needs attention");
    await hand.click(/the ledger is read only/);
    await hand.click("Plan an act on the whole group");
    await hand.type("Reason", "the ledger is back");
    await hand.type("Records per second", "1000");
    await hand.press("Show the plan");
    await tab.has(["200 of 200 found"]);
    await hand.press("Apply the plan: retry 200 records");
    await tab.page.locator("#main").filter({ hasText: "Finished: 200 done" }).waitFor();
  },

  "after an outage": async (hand, tab) => {
    await hand.click("Needs attention");
    await tab.has(["address unknown"]);
    assert.ok(!(await tab.text()).includes("the ledger is read only"), "no group of the outage is left");
  },

  "who did what": async (hand, tab) => {
    await hand.click("Audit");
    await hand.choose("Acts of", "1d");
    await hand.press("Show");
    await tab.has(["the ledger is back (plan ", "grace"]);
  },

  "is the machinery alive": async (hand, tab) => {
    await hand.click("Health");
    await tab.has(["scanner", "completer", "relay"]);
  },
};

// What has to be before a task.
const before = {
  "correct a wrong resolve": async () => {
    const list = JSON.parse(await locker("ls", "--need", "inDoubt", "--output", "json"));
    const { lockToken: key, revision } = list.tokens[0];
    await locker("resolve", key, "--reason", "the books", "--result", '"ch_6"', "--seen", revision);
  },
};

process.stdin.setEncoding("utf8");

async function tell(line) {
  console.log(line);
  await once(process.stdin, "data");
}

await main(Object.fromEntries(Object.entries(tasks).map(([name, task]) => [name, async ({ console: session }) => {
  // The script reads some pages again every 5 seconds, which would be counted by chance. The page of
  // a plan needs it.
  await session.inTab({ still: name !== "act on the 200" }, async (tab) => {
    await before[name]?.();
    await tab.goto("/workflow?key=none", 404);
    const hand = new Hand(tab);
    await tell("begin");
    const began = performance.now();
    await task(hand, tab);
    const seconds = (performance.now() - began) / 1000;
    assert.ok(seconds < PATIENCE / 1000, "in time");
    await tell("end " + JSON.stringify({ name, clicks: hand.clicks, seconds, units: hand.units }));
  });
}])));
