// Writes the template of a stack with the construct, and a function that takes tokens.

import { App, DefaultStackSynthesizer, Stack } from "aws-cdk-lib";
import * as lambda from "aws-cdk-lib/aws-lambda";
import * as s3 from "aws-cdk-lib/aws-s3";
import * as sns from "aws-cdk-lib/aws-sns";

import { LockerTokens } from "../lib/locker-tokens";

const app = new App({ outdir: process.argv[2] });
const stack = new Stack(app, "Cdk", {
  synthesizer: new DefaultStackSynthesizer({ generateBootstrapVersionRule: false }),
});
const code = lambda.Code.fromBucketV2(s3.Bucket.fromBucketName(stack, "Artifacts", "artifacts"), "code");
const tokens = new LockerTokens(stack, "Tokens", {
  scannerCode: code,
  alarmTopic: new sns.Topic(stack, "Alarms"),
});
const shop = new lambda.Function(stack, "Shop", {
  runtime: lambda.Runtime.PROVIDED_AL2023,
  handler: "bootstrap",
  code,
});
tokens.grantTokens(shop);
app.synth();
