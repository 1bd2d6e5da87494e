"""Create the stacks of our templates in moto, and check their tables with the command.

    python infra/tests/stack.py target/debug/locker

The serverless transform runs on AWS. Here aws-sam-translator, which is the same code, takes its
place. Moto's server listens on loopback. UNKNOWN_TO_MOTO names what moto leaves out: when moto
learns a type, this test fails, and the exception goes.
"""

import ast
import json
import logging
import os
import pathlib
import re
import sys
import warnings

from moto.server import ThreadedMotoServer

import parts
import people
from account import Account, Command

INFRA = pathlib.Path(__file__).resolve().parents[1]
# A key of the user. Moto does not encrypt.
KEY = "arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
KEYS = {f"{it}KmsKeyArn": KEY for it in ("Table", "Queue", "Topic")}
NO_TTL = "TTL is disabled"
# The types that moto makes nothing of.
UNKNOWN_TO_MOTO = {
    "AWS::ApiGatewayV2::Api",
    "AWS::ApiGatewayV2::Integration",
    "AWS::ApiGatewayV2::Route",
    "AWS::ApiGatewayV2::Stage",
    "AWS::CloudWatch::Alarm",
    "AWS::Lambda::EventInvokeConfig",
    "AWS::Lambda::Url",
    "AWS::Logs::QueryDefinition",
    "AWS::Scheduler::Schedule",
    "AWS::SecretsManager::Secret",
}


# What only a stack with packers has.
OF_MESSAGES = {"Messages", "Packer", "PackerLog", "Relay", "RelayLog"}


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


def allowed(document, place=""):
    """The actions on tables that a policy allows, with the conditions. `place`: a part of the ARN."""
    return {
        (action, statement["Resource"], json.dumps(statement.get("Condition")))
        for statement in document["Statement"]
        for action in statement["Action"]
        if action.startswith("dynamodb:") and place in statement["Resource"]
    }


def printed(command, role, *more, **tables):
    """The policy that the command prints for a role."""
    options = [word for name, table in tables.items() for word in (f"--{name}", table)]
    done = command.run("policy", role, "--account", people.ACCOUNT, *more, *options)
    assert done.returncode == 0, done
    return json.loads(done.stdout)


def check_policies(account, outputs, names, of_command=()):
    """The outputs name policies that IAM has. `of_command`: those that the command prints."""
    iam = account.client("iam")
    for name in names:
        policy = iam.get_policy(PolicyArn=outputs[name])["Policy"]
        version = iam.get_policy_version(PolicyArn=policy["Arn"], VersionId=policy["DefaultVersionId"])
        document = version["PolicyVersion"]["Document"]
        assert document["Statement"], name
        if name in of_command:
            ours, table = of_command[name]
            wanted = allowed(ours, f"table/{table}")
            assert wanted and allowed(document) == wanted, (name, allowed(document) ^ wanted)


def check_scanner(account, command, table):
    """The role of the scanner allows the requests that the command prints."""
    iam = account.client("iam")
    names = [role["RoleName"] for role in iam.list_roles()["Roles"]]
    [role] = [name for name in names if name.startswith("tokens-ScannerRole-")]
    found = set()
    for name in iam.list_role_policies(RoleName=role)["PolicyNames"]:
        document = iam.get_role_policy(RoleName=role, PolicyName=name)["PolicyDocument"]
        # Moto returns the text of a Python value if CloudFormation made the policy.
        document = ast.literal_eval(document) if isinstance(document, str) else document
        found |= allowed(document, f"table/{table}")
    wanted = allowed(printed(command, "scanner", table=table))
    assert wanted and found == wanted, found ^ wanted


def check_workflows(account, command):
    """The table of workflows, alone. The functions are names: nothing here invokes them."""
    of_all = {"Stack": "shop", "MostWritesPerSecond": "1000"}
    workflows = account.deploy("workflows", INFRA / "workflows.yaml", {**of_all, **KEYS})
    table = workflows["Table"]
    of_command = {
        "StartPolicy": (printed(command, "function", table="no-tokens", workflows=table), table),
        "CompleterPolicy": (printed(command, "completer", workflows=table), table),
        "ReaperPolicy": (printed(command, "reaper", workflows=table), table),
    }
    check_policies(account, workflows, list(of_command), of_command)
    assert not account.made("workflows") & {"CompleterScheduleRole", "ReaperScheduleRole"}, "no function, no schedule"
    described = account.client("dynamodb").describe_table(TableName=table)["Table"]
    assert described["DeletionProtectionEnabled"] is True, described
    # Commands on workflows need the name of a table of tokens, and do not read it here.
    tables = ("--table", "no-tokens", "--workflows", table)
    only_ttl(command.problems("workflow", "table", "check", *tables))
    switch_ttl_on(account, [table])
    assert command.problems("workflow", "table", "check", *tables) == []

    functions = {"Completer": "shop-completer", "Reaper": "shop-reaper"}
    account.deploy("scheduled", INFRA / "workflows.yaml", {**of_all, **functions, "Stack": "other"})
    assert account.made("scheduled") >= {"CompleterScheduleRole", "ReaperScheduleRole"}, account.made("scheduled")
    return table


def check_messages(account, command, table):
    """The queue and the policies of messages, on the table of workflows."""
    parameters = {"Stack": "shop", "Workflows": table, "Relay": "shop-relay", "Consumer": "shop-packer"}
    messages = account.deploy("messages", INFRA / "messages.yaml", parameters)
    of_command = {
        f"{role.title()}Policy": (printed(command, role, workflows=table), table) for role in ("relay", "consumer")
    }
    check_policies(account, messages, ["SendPolicy", "RelayPolicy", "ConsumerPolicy"], of_command)
    assert account.made("messages") >= {"RelayScheduleRole", "ConsumerScheduleRole"}, account.made("messages")
    asked = account.client("sqs").get_queue_attributes(QueueUrl=messages["QueueUrl"], AttributeNames=["All"])
    attributes = asked["Attributes"]
    assert attributes["FifoQueue"] == "true" and attributes["VisibilityTimeout"] == "180", attributes
    assert "deadLetterTargetArn" in attributes["RedrivePolicy"], attributes

    account.deploy("messages-with-keys", INFRA / "messages.yaml", {**parameters, **KEYS})
    without = {**parameters, "Queue": "off", **KEYS}
    without = account.deploy("no-queue", INFRA / "messages.yaml", without)
    assert "QueueUrl" not in without and "SendPolicy" not in without, without
    check_policies(account, without, ["RelayPolicy", "ConsumerPolicy"])


def check_nested(account, command):
    """The template of docs/book/src/deploying.md, which nests both."""
    text = (parts.DOCS / "book/src/deploying.md").read_text()
    [template] = re.findall(r"^```yaml\n(.*?)^```$", text, re.M | re.S)
    account.deploy_text("shop", template, INFRA.parent, {})
    functions = account.client("lambda")
    made = functions.get_function_configuration(FunctionName="shop-completer")
    table = made["Environment"]["Variables"]["LOCKER_WORKFLOWS_TABLE"]
    only_ttl(command.problems("workflow", "table", "check", "--table", "no-tokens", "--workflows", table))
    [source] = functions.list_event_source_mappings(FunctionName="shop-packer")["EventSourceMappings"]
    assert source["EventSourceArn"].endswith(".fifo"), source


def check_keys(account, stack, key):
    """The queues and topics of a stack have this key of the user, or none. Moto ignores it for tables."""
    found = set()
    for resource in account.client("cloudformation").describe_stack_resources(StackName=stack)["StackResources"]:
        kind, name = resource.get("ResourceType"), resource.get("PhysicalResourceId")
        if kind == "AWS::SQS::Queue":
            asked = account.client("sqs").get_queue_attributes(QueueUrl=name, AttributeNames=["All"])
            found.add((kind, asked["Attributes"].get("KmsMasterKeyId")))
        if kind == "AWS::SNS::Topic":
            asked = account.client("sns").get_topic_attributes(TopicArn=name)
            found.add((kind, asked["Attributes"].get("KmsMasterKeyId")))
    assert found and {it for _, it in found} == {key}, (stack, found)


def check_sandbox(account):
    """The provider of a trial charges each key once, and never after a refund."""
    outputs = account.deploy("trial", INFRA.parent / "template.yaml", {"Trial": "on", "Packers": "off"})
    assert outputs["ApiUrl"], outputs
    # Moto runs functions in Docker only, so the code of the function runs here.
    made = {it["LogicalResourceId"]: it.get("PhysicalResourceId") for it in account.resources("-Sandbox-")}
    secret = "sandbox-Token"
    token = account.client("secretsmanager").get_secret_value(SecretId=secret)["SecretString"]
    os.environ |= {"CHARGES": made["Charges"], "TOKEN": secret, "AWS_ENDPOINT_URL": account.endpoint}
    code = parts.read("infra/sandbox.yaml")["Resources"]["Provider"]["Properties"]["Code"]["ZipFile"]
    provider = {}
    exec(compile(code, "sandbox.yaml", "exec"), provider)
    del os.environ["AWS_ENDPOINT_URL"]

    def ask(method, path, body="", bearer=token, **headers):
        headers = {"authorization": f"Bearer {bearer}", **headers}
        request = {"http": {"method": method}}
        event = {"headers": headers, "rawPath": path, "body": body, "requestContext": request}
        answer = provider["handler"](event, None)
        return answer["statusCode"], json.loads(answer["body"])

    key = {"idempotency-key": "@ada/order/1"}
    assert ask("POST", "/charges", bearer="wrong", **key) == (401, {})
    assert ask("GET", "/charges/%40ada%2Forder%2F1") == (404, {})
    charged = ask("POST", "/charges", **key)
    assert charged[0] == 200 and charged == ask("POST", "/charges", **key) == ask("GET", "/charges/%40ada%2Forder%2F1")
    refund = {"refund": charged[1]["charge"].replace("ch_", "re_")}
    assert ask("POST", "/refunds", json.dumps({"chargeKey": "@ada/order/1"})) == (200, refund)
    assert ask("POST", "/charges", **key)[0] == 422
    assert ask("POST", "/refunds", json.dumps({"chargeKey": "@ada/order/2"})) == (200, {"refund": None})
    assert ask("POST", "/charges", **{"idempotency-key": "@ada/order/2"})[0] == 422


def check_sample(account, outputs):
    """The functions of the sample have the names that its parts expect, and the tables of its parts."""
    functions = account.client("lambda")
    for name in ("completer", "reaper", "relay", "packer"):
        made = functions.get_function_configuration(FunctionName=f"whole-{name}")
        assert made["Environment"]["Variables"]["LOCKER_WORKFLOWS_TABLE"] == outputs["WorkflowsTable"], made
    [source] = functions.list_event_source_mappings(FunctionName="whole-packer")["EventSourceMappings"]
    assert source["EventSourceArn"].split(":")[-1] == outputs["PackingQueueUrl"].split("/")[-1], source


def main(binary):
    parts.check()
    # Moto tells of each request, and of each type that it does not know.
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    try:
        account = Account(f"http://{host}:{port}")
        command = Command(binary, account)

        parameters = {
            "PaymentsUrl": "https://payments.example.com",
            "JwtIssuer": "https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_a1B2c3D4e",
            "JwtAudience": "client",
        }
        quiet = account.deploy("quiet", INFRA.parent / "template.yaml", {**parameters, **KEYS, "Packers": "off"})
        assert "PackingQueueUrl" not in quiet and account.queues_of_messages() == [], "nothing of messages is made"
        quiet = ("--table", quiet["Table"], "--workflows", quiet["WorkflowsTable"])
        only_ttl(command.problems("doctor", *quiet), checks=2)

        account.deploy("tokens-without-keys", INFRA / "tokens.yaml", {})
        check_sandbox(account)
        whole = account.deploy("whole", INFRA.parent / "template.yaml", parameters)
        assert len(account.queues_of_messages()) == 4 and whole["PackingQueueUrl"]
        of_messages = account.made("whole") - account.made("quiet")
        assert OF_MESSAGES <= of_messages, of_messages
        check_sample(account, whole)
        table, workflows = whole["Table"], whole["WorkflowsTable"]
        check_tokens(command, table)
        both = ("--table", table, "--workflows", workflows)
        only_ttl(command.problems("workflow", "table", "check", *both))
        only_ttl(command.problems("doctor", *both), checks=2)
        switch_ttl_on(account, [table, workflows])
        assert command.problems("doctor", *both) == []

        outputs = account.deploy("tokens", INFRA / "tokens.yaml", KEYS)
        tokens = outputs["Table"]
        of_command = {"TokenPolicy": (printed(command, "function", table=tokens), tokens)}
        check_policies(account, outputs, list(of_command), of_command)
        check_scanner(account, command, tokens)
        check_tokens(command, tokens)
        switch_ttl_on(account, [tokens])
        assert command.problems("doctor", "--table", tokens) == []

        workflows = check_workflows(account, command)
        assert command.problems("doctor", "--table", tokens, "--workflows", workflows) == []
        check_messages(account, command, workflows)
        check_nested(account, command)
        people.play(account, binary, command, tokens, workflows, printed)
        for stack in ("quiet", "tokens", "workflows", "messages-with-keys"):
            check_keys(account, stack, KEY)
        for stack in ("whole", "tokens-without-keys", "scheduled", "messages"):
            check_keys(account, stack, None)
        assert account.left_out == UNKNOWN_TO_MOTO, account.left_out
    finally:
        server.stop()
    print("the stacks were created, alone and nested, and their tables are what the code needs")


if __name__ == "__main__":
    main(*sys.argv[1:])
