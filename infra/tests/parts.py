"""Rules that the templates have in common.

The Rust tests in `functions/tests/runtime` compare the templates with the code. Here are the rules
between the templates: parameters, conditions of alarms, roles of schedules and texts of policies.
"""

import pathlib
import re

from samtranslator.yaml_helper import yaml_parse

INFRA = pathlib.Path(__file__).resolve().parents[1]
DOCS = INFRA.parent / "docs"
ALARM = "AWS::CloudWatch::Alarm"
PARTS = ("tokens", "workflows", "messages")
# The parameters that a user must give. All others have a default that deploys in a new account.
REQUIRED = {"tokens": set(), "workflows": {"Stack"}, "messages": {"Stack", "Workflows"}}


def read(path):
    return yaml_parse((INFRA.parent / path).read_text())


def of_type(template, kind):
    return {name: value for name, value in template["Resources"].items() if value["Type"] == kind}


def condition(name, alarm):
    """An alarm exists only if what it watches exists."""
    watched = re.search(r"'Value': \{'(?:Ref|Fn::GetAtt)': \[?'(\w+)'", str(alarm["Properties"].get("Dimensions", "")))
    silent = name.removesuffix("IsSilent")
    if silent != name:
        return f"Has{silent}"
    if watched and watched[1] in ("Completer", "Reaper", "Relay", "Consumer"):
        return f"Has{watched[1]}"
    return "MakesQueue" if watched and watched[1] in ("Messages", "MessagesDeadLetters") else None


def check_alarms(parts):
    """Alarms of functions that a user may leave out exist only with these functions."""
    for part in ("workflows", "messages"):
        for name, alarm in of_type(parts[part], ALARM).items():
            assert alarm.get("Condition") == condition(name, alarm), (part, name)
    topics = ("HasUrgentTopic", "MakesTopic", "SubscribesEmail")
    for part, template in parts.items():
        assert [template["Resources"][name] for name in ("Topic", "Email")] == [
            parts["tokens"]["Resources"][name] for name in ("Topic", "Email")
        ], part
        assert [template["Conditions"][name] for name in topics] == [
            parts["tokens"]["Conditions"][name] for name in topics
        ], part


def check_schedules(parts):
    """The role of a schedule may invoke its function and fill its queue for missed runs."""
    found = 0
    for part, template in parts.items():
        for name, schedule in of_type(template, "AWS::Scheduler::Schedule").items():
            found += 1
            target = schedule["Properties"]["Target"]
            invoked = name.removesuffix("Schedule")
            if invoked in template["Parameters"]:
                assert target["Arn"]["Fn::Sub"].endswith(f":function:${{{invoked}}}"), (part, name)
                assert schedule["Condition"] == f"Has{invoked}", (part, name)
            else:
                assert target["Arn"] == {"Fn::GetAtt": [invoked, "Arn"]}, (part, name)
            role = template["Resources"][f"{name}Role"]
            [invoke, miss, _] = role["Properties"]["Policies"][0]["PolicyDocument"]["Statement"]
            assert invoke["Resource"] == target["Arn"] and invoke["Action"] == ["lambda:InvokeFunction"], name
            assert miss["Resource"] == target["DeadLetterConfig"]["Arn"] and miss["Action"] == ["sqs:SendMessage"], name
    assert found == 5, found


def statements(listed):
    for statement in listed:
        yield statement["Fn::If"][1] if "Fn::If" in statement else statement


def chosen(condition, value):
    """A value that exists only if there is a key."""
    return {"Fn::If": [condition, value, {"Ref": "AWS::NoValue"}]}


def documents(template):
    """The statements of each policy of a template."""
    for name, resource in template["Resources"].items():
        properties = resource.get("Properties", {})
        if "PolicyDocument" in properties:
            yield name, properties["PolicyDocument"]["Statement"]
        for policy in properties.get("Policies", []):
            listed = policy.get("Statement") or policy.get("PolicyDocument", {}).get("Statement")
            if listed:
                yield name, listed


def check_keys(templates):
    """Tables, queues and topics can have a key of the user, and the policies may use it."""
    table = {"SSEEnabled": True, "SSEType": "KMS", "KMSMasterKeyId": {"Ref": "TableKmsKeyArn"}}
    expected = {
        "AWS::DynamoDB::Table": {"SSESpecification": chosen("HasTableKey", table)},
        "AWS::SQS::Queue": {
            "KmsMasterKeyId": chosen("HasQueueKey", {"Ref": "QueueKmsKeyArn"}),
            "SqsManagedSseEnabled": {"Fn::If": ["HasQueueKey", {"Ref": "AWS::NoValue"}, True]},
        },
        "AWS::SNS::Topic": {"KmsMasterKeyId": chosen("HasTopicKey", {"Ref": "TopicKmsKeyArn"})},
    }
    for path, template in templates.items():
        for name, resource in template["Resources"].items():
            for field, value in expected.get(resource["Type"], {}).items():
                assert resource["Properties"].get(field) == value, (path, name, field)
        for name, listed in documents(template):
            # The packer's other policy is that of a consumer, which may use the key of the tables.
            if (path, name) == ("template", "Packer"):
                continue
            actions = {action for statement in statements(listed) for action in statement["Action"]}
            keys = [it["Fn::If"] for it in listed if "Fn::If" in it and it["Fn::If"][0] in ("HasTableKey", "HasQueueKey")]
            found = {(condition, action) for condition, statement, _ in keys for action in statement["Action"]}
            needed = set()
            if any(action.startswith("dynamodb:") for action in actions):
                needed |= {("HasTableKey", "kms:Decrypt")}
            if "sqs:ReceiveMessage" in actions:
                needed |= {("HasQueueKey", "kms:Decrypt")}
            # SAM allows the scanner to send to its queue for missed runs.
            if "sqs:SendMessage" in actions or name == "Scanner":
                needed |= {("HasQueueKey", "kms:Decrypt"), ("HasQueueKey", "kms:GenerateDataKey")}
            assert found == needed, (path, name, found ^ needed)


def check_policies(templates):
    """No policy is wide, and a key may be used through one service only."""
    found = 0
    for path, template in templates.items():
        for name, policy in of_type(template, "AWS::IAM::ManagedPolicy").items():
            for statement in statements(policy["Properties"]["PolicyDocument"]["Statement"]):
                found += 1
                assert statement["Effect"] == "Allow" and "*" not in str(statement), (path, name, statement)
                if any(action.startswith("kms:") for action in statement["Action"]):
                    assert "kms:ViaService" in statement["Condition"]["StringEquals"], (path, name)
    assert found > 10, found


def check_parameters(parts, sample):
    """A parameter of the same name is the same parameter. Defaults deploy in a new account."""
    seen = {}
    for part, template in {**parts, "template": sample}.items():
        for name, parameter in template["Parameters"].items():
            assert "Description" in parameter, (part, name)
            # Descriptions differ where a parameter is for more resources. Only tokens may do without a Stack.
            same = {key: value for key, value in parameter.items() if key != "Description"}
            assert name == "Stack" or seen.setdefault(name, same) == same, (part, name)
        if part in REQUIRED:
            required = {name for name, value in template["Parameters"].items() if "Default" not in value}
            assert required == REQUIRED[part], (part, required)
            assert template["Parameters"].get("ReservedConcurrency", {}).get("Default", "none") == "none", part
    for part in ("workflows", "messages"):
        assert "Transform" not in parts[part], part
        assert "ReservedConcurrentExecutions" not in str(parts[part]), part


def check_conditions(templates):
    """`ForAllValues` is true for a request without the key, so `Null` refuses such a request."""
    found = 0

    def walk(value, path):
        nonlocal found
        if isinstance(value, dict):
            for operator, keys in value.items():
                if isinstance(operator, str) and operator.startswith("ForAllValues:"):
                    found += 1
                    for key in keys:
                        assert value.get("Null", {}).get(key) == "false", (path, operator, key)
                walk(keys, path)
        elif isinstance(value, list):
            for entry in value:
                walk(entry, path)

    for path, template in templates.items():
        walk(template, path)
    assert found > 0, "no template has such a condition"


def check():
    parts = {part: read(f"infra/{part}.yaml") for part in PARTS}
    sample = read("template.yaml")
    templates = {**parts, "template": sample, "monitoring": read("infra/monitoring.yaml")}
    check_conditions(templates)
    check_alarms(parts)
    check_schedules(parts)
    check_policies(templates)
    check_keys(templates)
    check_parameters(parts, sample)


if __name__ == "__main__":
    check()
