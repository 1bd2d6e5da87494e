// Takes the CDK snippet out of docs/book/src/deploying.md, synthesises it, and checks the template:
//
//   node infra/tests/cdk/synth.js node_modules_folder
const assert = require("node:assert");
const fs = require("node:fs");
const path = require("node:path");
const vm = require("node:vm");

const root = path.resolve(__dirname, "../../..");
const modules = path.resolve(process.argv[2]);
const page = fs.readFileSync(path.join(root, "docs/book/src/deploying.md"), "utf8");
const snippets = [...page.matchAll(/^```js\n(.*?)^```$/gms)].map((it) => it[1]);
assert.strictEqual(snippets.length, 1);

// The snippet names the templates as seen from the root of the repository.
process.chdir(root);
const load = require("node:module").createRequire(path.join(modules, "snippet.js"));
const app = vm.runInNewContext(`${snippets[0]}; app`, { require: load });
const made = app.synth().getStackByName("shop").template;
const types = Object.values(made.Resources).map((it) => it.Type);
const count = (type) => types.filter((it) => it === type).length;
assert.strictEqual(count("AWS::DynamoDB::Table"), 1);
assert.strictEqual(count("AWS::Scheduler::Schedule"), 2);
assert.ok(count("AWS::CloudWatch::Alarm") > 10);
const table = Object.entries(made.Resources).find(([, it]) => it.Type === "AWS::DynamoDB::Table");
const completer = Object.values(made.Resources).find((it) => it.Type === "AWS::Lambda::Function");
assert.deepStrictEqual(JSON.parse(JSON.stringify(completer.Properties.Environment.Variables)), {
  LOCKER_STACK: "shop",
  LOCKER_WORKFLOWS_TABLE: { Ref: table[0] },
});
assert.strictEqual(completer.Properties.Timeout, 60);
const invoked = Object.values(made.Resources).find((it) => it.Type === "AWS::Lambda::EventInvokeConfig");
const queue = Object.entries(made.Resources).find(([name]) => name === "MissedCompletions");
assert.strictEqual(queue[1].Type, "AWS::SQS::Queue");
assert.strictEqual(invoked.Properties.MaximumRetryAttempts, 0);
assert.deepStrictEqual(JSON.parse(JSON.stringify(invoked.Properties.DestinationConfig.OnFailure.Destination)), {
  "Fn::GetAtt": [queue[0], "Arn"],
});
const role = Object.values(made.Resources).find(
  (it) => it.Type === "AWS::IAM::Role" && JSON.stringify(it.Properties.ManagedPolicyArns ?? "").includes("CompleterPolicy"),
);
assert.ok(role, "the function has the policy of a completer");
console.log("the CDK snippet synthesises");
