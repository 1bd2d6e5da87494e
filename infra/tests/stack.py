"""Create the stacks of our templates in moto, and check the tables that come out with the command.

    python infra/tests/stack.py target/debug/locker

The serverless transform runs on AWS; here aws-sam-translator, which is the same code, takes its place. Moto's server listens on
loopback. What moto does not do, it is asked for exactly: when it learns to, this test fails, and the exception goes.
"""

import io
import json
import logging
import os
import pathlib
import subprocess
import sys
import warnings
import zipfile

import boto3
from moto.server import ThreadedMotoServer
from samtranslator.translator.transform import transform
from samtranslator.yaml_helper import yaml_parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
REGION = "eu-west-1"
BUCKET = "artifacts"
# The exit status of a check that found something.
PROBLEMS = 5
NO_TTL = "TTL is disabled"
# The types that moto makes nothing of.
UNKNOWN_TO_MOTO = {
    "AWS::ApiGatewayV2::Api",
    "AWS::ApiGatewayV2::Stage",
    "AWS::CloudWatch::Alarm",
    "AWS::Lambda::EventInvokeConfig",
    "AWS::Logs::QueryDefinition",
    "AWS::Scheduler::Schedule",
}


class ManagedPolicies:
    """The ready-made policy that SAM gives a function with an SQS event."""

    def load(self):
        return {
            "AWSLambdaSQSQueueExecutionRole": "arn:aws:iam::aws:policy/service-role/AWSLambdaSQSQueueExecutionRole"
        }


class Account:
    """An empty account in moto."""

    def __init__(self, endpoint):
        self.endpoint = endpoint
        self.left_out = set()
        self.environment = {
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
        }
        os.environ.update(self.environment)
        self.s3 = self.client("s3")
        self.s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        code = io.BytesIO()
        with zipfile.ZipFile(code, "w") as archive:
            archive.writestr("bootstrap", "")
        self.s3.put_object(Bucket=BUCKET, Key="code", Body=code.getvalue())

    def client(self, service):
        return boto3.client(service, endpoint_url=self.endpoint, region_name=REGION)

    def packaged(self, path):
        """What `sam package` makes of a template: code and nested templates are in the bucket."""
        template = yaml_parse(path.read_text())
        template["Globals"]["Function"]["CodeUri"] = f"s3://{BUCKET}/code"
        for resource in template["Resources"].values():
            if resource["Type"] == "AWS::Serverless::Application":
                nested = path.parent / resource["Properties"]["Location"]
                key = nested.name
                self.s3.put_object(Bucket=BUCKET, Key=key, Body=nested.read_bytes())
                resource["Properties"]["Location"] = f"https://{BUCKET}.s3.amazonaws.com/{key}"
                resource["Properties"]["Parameters"]["Api"] = "no-api-in-moto"
        return template

    def create(self, name, path, parameters):
        """Create a stack, and return its outputs."""
        translated = transform(self.packaged(path), {}, ManagedPolicies())
        cloudformation = self.client("cloudformation")
        cloudformation.create_stack(
            StackName=name,
            TemplateBody=json.dumps(translated),
            Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()],
            Capabilities=["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"],
        )
        stacks = cloudformation.describe_stacks()["Stacks"]
        states = {stack["StackName"]: stack["StackStatus"] for stack in stacks}
        assert set(states.values()) == {"CREATE_COMPLETE"}, states
        for stack in stacks:
            self.left_out |= self.not_made(cloudformation, stack["StackId"])
        [stack] = [stack for stack in stacks if stack["StackName"] == name]
        return {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}

    def not_made(self, cloudformation, stack):
        """The types of a stack's template of which moto made nothing."""
        body = cloudformation.get_template(StackName=stack)["TemplateBody"]
        wanted = (yaml_parse(body) if isinstance(body, str) else body)["Resources"]
        resources = cloudformation.describe_stack_resources(StackName=stack)["StackResources"]
        made = {resource.get("LogicalResourceId") for resource in resources}
        # What a condition leaves out is the subscription of an address that was not given.
        return {value["Type"] for key, value in wanted.items() if key not in made and "Condition" not in value}


class Command:
    """The command `locker`, on the tables of the account."""

    def __init__(self, binary, account):
        self.binary = binary
        self.environment = {**account.environment, "AWS_ENDPOINT_URL": account.endpoint, "PATH": os.environ["PATH"]}

    def run(self, *arguments):
        command = [self.binary, *arguments]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=120)

    def problems(self, *arguments):
        """What a check finds."""
        done = self.run(*arguments, "--output", "json")
        assert done.returncode in (0, PROBLEMS), (arguments, done.returncode, done.stderr)
        found = json.loads(done.stdout)
        findings = found.get("findings", [found])
        return [problem for finding in findings for problem in finding["problems"]]


def only_ttl(problems, checks=1):
    """Moto's CloudFormation does not switch TTL on; nothing else may be wrong."""
    assert len(problems) == checks and all(NO_TTL in problem for problem in problems), problems


def check_tokens(command, table):
    only_ttl(command.problems("table", "check", "--table", table))
    once = [command.run("once", "moto/1", "--table", table, "--", "sh", "-c", "date +%s%N") for _ in range(2)]
    assert [done.returncode for done in once] == [0, 0], once
    assert once[0].stdout and once[0].stdout == once[1].stdout, "the second call is a replay"
    scan = command.run("scan", "--table", table)
    assert scan.returncode == 0, scan


def switch_ttl_on(account, tables):
    """What the template asks for, and moto leaves out."""
    for table in tables:
        specification = {"AttributeName": "ttl", "Enabled": True}
        account.client("dynamodb").update_time_to_live(TableName=table, TimeToLiveSpecification=specification)


def main(binary):
    # Moto tells of each request, and of each type that it does not know.
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    try:
        account = Account(f"http://{host}:{port}")
        command = Command(binary, account)

        whole = account.create(
            "whole",
            ROOT / "template.yaml",
            {
                "PaymentsUrl": "https://payments.example.com",
                "JwtIssuer": "https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_a1B2c3D4e",
                "JwtAudience": "client",
            },
        )
        table, workflows = whole["Table"], whole["WorkflowsTable"]
        check_tokens(command, table)
        both = ("--table", table, "--workflows", workflows)
        only_ttl(command.problems("workflow", "table", "check", *both))
        only_ttl(command.problems("doctor", *both), checks=2)
        switch_ttl_on(account, [table, workflows])
        assert command.problems("doctor", *both) == []

        tokens = account.create("tokens", ROOT / "infra" / "tokens.yaml", {})
        check_tokens(command, tokens["Table"])
        switch_ttl_on(account, [tokens["Table"]])
        assert command.problems("doctor", "--table", tokens["Table"]) == []
        assert account.left_out == UNKNOWN_TO_MOTO, account.left_out
    finally:
        server.stop()
    print("two stacks were made, and their tables are what the code needs")


if __name__ == "__main__":
    main(*sys.argv[1:])
