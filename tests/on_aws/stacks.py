"""Creates the resources of a run under its prefix, and removes them."""

import io
import json
import pathlib
import sys
import time
import zipfile

import boto3
import botocore.exceptions

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "infra/tests"))

import account as simulated  # noqa: E402
from samtranslator.translator.transform import transform  # noqa: E402
from samtranslator.yaml_helper import yaml_parse  # noqa: E402

# Write units a second, a bound of the cost next to `--i-pay-up-to-usd`. A new table takes 4,000.
MOST_WRITES = "2000"
# The order of creation. The removal is in the opposite order.
STACKS = ("tokens", "workflows", "messages", "targets")


class Stacks:
    """The stacks of one prefix."""

    def __init__(self, prefix, endpoint=None, scanner=None):
        self.prefix = prefix
        self.moto = simulated.Account(endpoint) if endpoint else None
        self.scanner = scanner
        self.session = boto3.Session()
        identity = self.client("sts").get_caller_identity()
        self.account = identity["Account"]
        # The names of buckets are common to all accounts.
        self.bucket = f"{prefix}-code-{self.account}"

    def client(self, service):
        return self.moto.client(service) if self.moto else self.session.client(service)

    def environment(self):
        """The credentials and the endpoint, for other processes."""
        if self.moto:
            return {**self.moto.environment, "AWS_ENDPOINT_URL": self.moto.endpoint}
        credentials = self.session.get_credentials().get_frozen_credentials()
        found = {
            "AWS_ACCESS_KEY_ID": credentials.access_key,
            "AWS_SECRET_ACCESS_KEY": credentials.secret_key,
            "AWS_SESSION_TOKEN": credentials.token,
            "AWS_REGION": self.session.region_name,
        }
        return {name: value for name, value in found.items() if value}

    def create(self):
        """Creates all stacks, and returns the options of `on_aws`."""
        self.make_bucket()
        bound = {"MostWritesPerSecond": MOST_WRITES}
        tokens = self.deploy("tokens", ROOT / "infra/tokens.yaml", bound)
        workflows = self.deploy("workflows", ROOT / "infra/workflows.yaml", {**bound, "Stack": self.prefix})
        of_messages = {"Stack": self.prefix, "Workflows": workflows["Table"]}
        messages = self.deploy("messages", ROOT / "infra/messages.yaml", of_messages)
        targets = self.deploy("targets", ROOT / "tests/on_aws/targets.yaml", bound)
        self.tokens = tokens
        tables = [tokens["Table"], workflows["Table"]]
        if self.moto:
            # Moto's CloudFormation does not switch TTL on.
            for table in tables:
                specification = {"AttributeName": "ttl", "Enabled": True}
                self.client("dynamodb").update_time_to_live(TableName=table, TimeToLiveSpecification=specification)
        return {
            "table": tables[0],
            "workflows": tables[1],
            "queue": messages["QueueUrl"],
            "rows": targets["Rows"],
            "topic": targets["Topic"],
            "topic-queue": targets["TopicQueue"],
            "bus": targets["Bus"],
            "bus-queue": targets["BusQueue"],
        }

    def make_bucket(self):
        """The bucket for the code of the scanner and for the templates."""
        s3, region = self.client("s3"), self.environment()["AWS_REGION"]
        place = {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
        s3.create_bucket(Bucket=self.bucket, **place)
        code = io.BytesIO()
        with zipfile.ZipFile(code, "w") as archive:
            archive.writestr("bootstrap", "")
        body = self.scanner.read_bytes() if self.scanner else code.getvalue()
        s3.put_object(Bucket=self.bucket, Key="code", Body=body)

    def template(self, path):
        """A template whose code is in the bucket."""
        if self.moto:
            template = self.moto.packaged(path)
            has_transform = "Transform" in template
            return transform(template, {}, simulated.ManagedPolicies()) if has_transform else template
        template = yaml_parse(path.read_text())
        if "Function" in template.get("Globals", {}):
            template["Globals"]["Function"]["CodeUri"] = f"s3://{self.bucket}/code"
        return template

    def deploy(self, part, path, parameters):
        """Creates a stack, and returns its outputs."""
        body, key = json.dumps(self.template(path)), f"{part}.json"
        self.client("s3").put_object(Bucket=self.bucket, Key=key, Body=body)
        region = self.environment()["AWS_REGION"]
        formation, name = self.client("cloudformation"), f"{self.prefix}-{part}"
        formation.create_stack(
            StackName=name,
            TemplateURL=f"https://{self.bucket}.s3.{region}.amazonaws.com/{key}",
            Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()],
            Capabilities=["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"],
        )
        formation.get_waiter("stack_create_complete").wait(StackName=name, WaiterConfig={"Delay": 5})
        [stack] = formation.describe_stacks(StackName=name)["Stacks"]
        return {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])}

    def remove(self):
        """Removes everything with the prefix. Returns what could not be removed."""
        problems = []
        actions = (
            self.unprotect_tables,
            self.delete_stacks,
            self.delete_tables,
            self.delete_policies,
            self.delete_logs,
            self.delete_bucket,
        )
        for action in actions:
            try:
                action()
            except Exception as error:  # The rest is removed in any case.
                problems.append(f"{action.__name__}: {error}")
        return problems

    def tables(self):
        """The tables that CloudFormation named for these stacks, and no others."""
        ours = tuple(f"{self.prefix}-{name}-" for name in ("tokens-Locks", "workflows-Workflows", "targets-Rows"))
        pages = self.client("dynamodb").get_paginator("list_tables").paginate()
        return [name for page in pages for name in page["TableNames"] if name.startswith(ours)]

    def unprotect_tables(self):
        """Without backups, no system backup of a deleted table is kept."""
        dynamodb = self.client("dynamodb")
        for table in self.tables():
            active = dynamodb.get_waiter("table_exists")
            active.wait(TableName=table, WaiterConfig={"Delay": 2})
            dynamodb.update_table(TableName=table, DeletionProtectionEnabled=False)
            active.wait(TableName=table, WaiterConfig={"Delay": 2})
            off = {"PointInTimeRecoveryEnabled": False}
            dynamodb.update_continuous_backups(TableName=table, PointInTimeRecoverySpecification=off)

    def delete_stacks(self):
        formation = self.client("cloudformation")
        for part in reversed(STACKS):
            name = f"{self.prefix}-{part}"
            formation.delete_stack(StackName=name)
            formation.get_waiter("stack_delete_complete").wait(StackName=name, WaiterConfig={"Delay": 5})

    def delete_tables(self):
        """The templates retain their tables."""
        dynamodb = self.client("dynamodb")
        for table in self.tables():
            for _ in range(60):
                try:
                    dynamodb.delete_table(TableName=table)
                    break
                except botocore.exceptions.ClientError as error:
                    if error.response["Error"]["Code"] == "ResourceNotFoundException":
                        break
                    if error.response["Error"]["Code"] != "ResourceInUseException":
                        raise
                    time.sleep(5)
            dynamodb.get_waiter("table_not_exists").wait(TableName=table, WaiterConfig={"Delay": 5})

    def delete_policies(self):
        """Moto leaves the policies of a deleted stack behind."""
        iam = self.client("iam")
        ours = tuple(f"{self.prefix}-{stack}-" for stack in STACKS)
        for page in iam.get_paginator("list_policies").paginate(Scope="Local"):
            for policy in page["Policies"]:
                if policy["PolicyName"].startswith(ours):
                    iam.delete_policy(PolicyArn=policy["Arn"])

    def delete_logs(self):
        """A function that was invoked after its log group was deleted makes the group again."""
        logs = self.client("logs")
        for start in (f"{self.prefix}-tokens-", f"/aws/lambda/{self.prefix}-tokens-"):
            for group in logs.describe_log_groups(logGroupNamePrefix=start)["logGroups"]:
                logs.delete_log_group(logGroupName=group["logGroupName"])

    def delete_bucket(self):
        s3 = self.client("s3")
        try:
            objects = s3.list_objects_v2(Bucket=self.bucket).get("Contents", [])
        except s3.exceptions.NoSuchBucket:
            return
        for entry in objects:
            s3.delete_object(Bucket=self.bucket, Key=entry["Key"])
        s3.delete_bucket(Bucket=self.bucket)

    def left(self):
        """The names of the resources that have the prefix."""
        found = []
        lists = [
            ("dynamodb", "list_tables", {}, "TableNames", None),
            ("cloudformation", "describe_stacks", {}, "Stacks", "StackName"),
            ("sqs", "list_queues", {"QueueNamePrefix": f"{self.prefix}-"}, "QueueUrls", None),
            ("sns", "list_topics", {}, "Topics", "TopicArn"),
            ("iam", "list_policies", {"Scope": "Local"}, "Policies", "PolicyName"),
            ("iam", "list_roles", {}, "Roles", "RoleName"),
            ("lambda", "list_functions", {}, "Functions", "FunctionName"),
            ("logs", "describe_log_groups", {}, "logGroups", "logGroupName"),
            ("cloudwatch", "describe_alarms", {}, "MetricAlarms", "AlarmName"),
            ("cloudwatch", "list_dashboards", {}, "DashboardEntries", "DashboardName"),
        ]
        for service, operation, options, entries, name in lists:
            for page in self.client(service).get_paginator(operation).paginate(**options):
                for entry in page.get(entries, []):
                    found.append((service, entry[name] if name else entry))
        found += [("bus", it["Name"]) for it in self.client("events").list_event_buses()["EventBuses"]]
        found += [("bucket", it["Name"]) for it in self.client("s3").list_buckets()["Buckets"]]
        start = f"{self.prefix}-"
        last = [(kind, full, full.removeprefix("/aws/lambda/").split(":")[-1].split("/")[-1]) for kind, full in found]
        return sorted(f"{kind} {full}" for kind, full, short in last if short.startswith(start))

    def invoke_scanner(self):
        """One run of the scanner on Lambda: whether it succeeded, and its reply."""
        reply = self.client("lambda").invoke(FunctionName=self.tokens["Scanner"], Payload=b"{}")
        return "FunctionError" not in reply, reply["Payload"].read().decode()[:200]
