"""An account in moto, and the command on its tables."""

import io
import json
import os
import subprocess
import zipfile

import boto3
from moto.cloudformation import parsing
from moto.cloudformation.models import Stack
from samtranslator.translator.transform import transform
from samtranslator.yaml_helper import yaml_parse

REGION = "eu-west-1"
BUCKET = "artifacts"
# The exit status of a check that found something.
PROBLEMS = 5


def removes_no_value(clean_json=parsing.clean_json):
    """CloudFormation removes AWS::NoValue from lists. Moto leaves an empty entry."""

    def cleaned(value, resources):
        value = clean_json(value, resources)
        return [entry for entry in value if entry is not None] if isinstance(value, list) else value

    parsing.clean_json = cleaned


def has_outputs_of_nested_stacks():
    """Templates read the outputs of nested stacks. Moto does not support this."""

    def attribute(stack, name):
        kind, output = name.split(".")
        assert kind == "Outputs", name
        return stack.output_map[output].value

    Stack.get_cfn_attribute = attribute


class ManagedPolicies:
    """The ready-made policy that SAM gives a function with an SQS event."""

    def load(self):
        return {
            "AWSLambdaSQSQueueExecutionRole": "arn:aws:iam::aws:policy/service-role/AWSLambdaSQSQueueExecutionRole"
        }


class Account:
    """An empty account in moto."""

    def __init__(self, endpoint):
        removes_no_value()
        has_outputs_of_nested_stacks()
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
        """What `sam package` and the transform make of a template: code and nested templates are in the bucket."""
        return self.package(yaml_parse(path.read_text()), path.parent, path.stem)

    def package(self, template, folder, stem):
        """The same of a template whose paths are seen from the folder."""
        if "Function" in template.get("Globals", {}):
            template["Globals"]["Function"]["CodeUri"] = f"s3://{BUCKET}/code"
        for name, resource in template["Resources"].items():
            properties = resource.get("Properties", {})
            if "CodeUri" in properties:
                properties["CodeUri"] = f"s3://{BUCKET}/code"
            # CloudFormation ends the names that it makes for FIFO queues with .fifo; moto does not.
            if resource["Type"] == "AWS::SQS::Queue" and properties.get("FifoQueue"):
                properties.setdefault("QueueName", {"Fn::Sub": f"${{AWS::StackName}}-{stem}-{name}.fifo"})
            if resource["Type"] == "AWS::CloudFormation::Stack":
                properties["TemplateURL"] = self.uploaded(folder / properties["TemplateURL"])
                if "Api" in properties.get("Parameters", {}):
                    properties["Parameters"]["Api"] = "no-api-in-moto"
        # Moto's CloudFormation makes no secrets. Each is made here, and references are replaced with it.
        of_type = {name: it["Type"] for name, it in template["Resources"].items()}
        for name in [name for name, kind in of_type.items() if kind == "AWS::SecretsManager::Secret"]:
            text = json.dumps(template).replace(json.dumps({"Ref": name}), json.dumps(self.secret(f"{stem}-{name}")))
            template = json.loads(text)
        # Moto has no function URLs, and fails on an output that reads one.
        for output in template.get("Outputs", {}).values():
            if "FunctionUrl" in str(output["Value"]):
                output["Value"] = "https://no-function-url-in-moto.example.com/"
        # CloudFormation transforms each template, nested templates too.
        return transform(template, {}, ManagedPolicies()) if "Transform" in template else template

    def secret(self, name):
        """The ARN of a secret, which is made if there is none."""
        manager = self.client("secretsmanager")
        listed = manager.list_secrets(Filters=[{"Key": "name", "Values": [name]}])["SecretList"]
        return listed[0]["ARN"] if listed else manager.create_secret(Name=name, SecretString="a token")["ARN"]

    def uploaded(self, path):
        """The address of a nested template."""
        self.s3.put_object(Bucket=BUCKET, Key=path.name, Body=json.dumps(self.packaged(path)))
        return f"https://{BUCKET}.s3.amazonaws.com/{path.name}"

    def deploy(self, name, path, parameters):
        """Create a stack of a template in a file, and return its outputs."""
        return self.create(name, self.packaged(path), parameters)

    def deploy_text(self, name, text, folder, parameters):
        """Create a stack of a template in a document, and return its outputs."""
        return self.create(name, self.package(yaml_parse(text), folder, name), parameters)

    def create(self, name, template, parameters):
        """Create a stack, and return its outputs."""
        cloudformation = self.client("cloudformation")
        cloudformation.create_stack(
            StackName=name,
            TemplateBody=json.dumps(template),
            Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()],
            Capabilities=["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"],
        )
        stacks = cloudformation.describe_stacks()["Stacks"]
        states = {stack["StackName"]: stack["StackStatus"] for stack in stacks}
        assert set(states.values()) == {"CREATE_COMPLETE"}, states
        for stack in stacks:
            self.left_out |= self.not_made(cloudformation, stack["StackId"])
        [stack] = [stack for stack in stacks if stack["StackName"] == name]
        return {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])}

    def queues_of_messages(self):
        """The queues that only a stack with packers has."""
        urls = self.client("sqs").list_queues().get("QueueUrls", [])
        return [url for url in urls if "-Messages" in url]

    def resources(self, part):
        """What moto made of the stack whose name has this part."""
        cloudformation = self.client("cloudformation")
        [stack] = [it for it in cloudformation.describe_stacks()["Stacks"] if part in it["StackName"]]
        made = cloudformation.describe_stack_resources(StackName=stack["StackName"])["StackResources"]
        return [it for it in made if "LogicalResourceId" in it]

    def made(self, stack):
        """The logical ids of what moto made of a stack."""
        resources = self.client("cloudformation").describe_stack_resources(StackName=stack)["StackResources"]
        return {resource.get("LogicalResourceId") for resource in resources}

    def not_made(self, cloudformation, stack):
        """The types of a stack's template of which moto made nothing."""
        body = cloudformation.get_template(StackName=stack)["TemplateBody"]
        wanted = (yaml_parse(body) if isinstance(body, str) else body)["Resources"]
        resources = cloudformation.describe_stack_resources(StackName=stack)["StackResources"]
        made = {resource.get("LogicalResourceId") for resource in resources}
        # What a condition leaves out is the subscription of an address that was not given, and what packers need.
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
