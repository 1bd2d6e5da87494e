"""The parts of the infrastructure contain what the sample's templates contain.

Each alarm, schedule, queue, table and policy of `infra/tokens.yaml`, `infra/workflows.yaml` and
`infra/messages.yaml` is compared with `template.yaml` and `infra/monitoring.yaml`, so that a copy
cannot differ from its original. Values that are parameters in one file and resources in another
file count as equal.
"""

import pathlib
import re

from samtranslator.yaml_helper import yaml_parse

INFRA = pathlib.Path(__file__).resolve().parents[1]
DOCS = INFRA.parent / "docs"
ALARM = "AWS::CloudWatch::Alarm"
PARTS = ("tokens", "workflows", "messages")

# The alarms that have another name in infra/monitoring.yaml: the sample's consumer is a packer.
# docs/book/src/deploying.md lists them.
RENAMED = {
    "ConsumerErrors": "PackerErrors",
    "ConsumerThrottles": "PackerThrottles",
    "ConsumptionsWereMissed": "PackingsWereMissed",
    "MessagesDeadLettersArrived": "PackingDeadLettersArrived",
    "QueuedMessagesAreOld": "PackingIsOld",
}
# The resources of the same meaning, by their name in a part.
SAME = {
    "Consumer": "Packer",
    "Locks": "Table",
    "Messages": "Packing",
    "MessagesDeadLetters": "PackingDeadLetters",
    "MissedConsumptions": "MissedPackings",
    "AWS::StackName": "Stack",
}
# The alarms of the sample that are in no part: they watch the sample's API, worker and order rows,
# or functions with tokens.
ONLY_IN_THE_SAMPLE = {
    "ApiFails",
    "DeadLettersArrived",
    "InDoubt",
    "LostOwnership",
    "MessagesAreOld",
    "OrderRowsThrottles",
    "OrdersErrors",
    "OrdersThrottles",
    "UnrecordedResults",
    "WorkerErrors",
    "WorkerThrottles",
}
# A part has a schedule for each of these functions of the sample.
SCHEDULES = {
    "CompleterSchedule": ("Completer", "EveryMinute", "MissedCompletions"),
    "ReaperSchedule": ("Reaper", "EveryHour", "MissedReaps"),
    "RelaySchedule": ("Relay", "EveryMinute", "MissedRelays"),
    "ConsumerSchedule": ("Packer", "EveryMinute", "MissedConsumptions"),
}
# A part has a policy with the permissions of these functions of the sample.
POLICIES = {
    "StartPolicy": "Orders",
    "CompleterPolicy": "Completer",
    "ReaperPolicy": "Reaper",
    "RelayPolicy": "Relay",
    "ConsumerPolicy": "Packer",
}
# Lambda needs them to read from a queue. SAM adds a ready-made policy to the sample's functions.
TO_RECEIVE = {"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"}


def read(path):
    return yaml_parse((INFRA.parent / path).read_text())


def of_type(template, kind):
    return {name: value for name, value in template["Resources"].items() if value["Type"] == kind}


def same(value):
    """The value, with resources and parameters of the same meaning under one name."""
    if isinstance(value, dict):
        if "Fn::GetAtt" in value:
            value = {"Ref": value["Fn::GetAtt"][0]}
        return {name: same(field) for name, field in value.items()}
    if isinstance(value, list):
        return [same(entry) for entry in value]
    return SAME.get(value, value) if isinstance(value, str) else value


def urgency_and_command(alarm):
    text = alarm["Properties"]["AlarmDescription"]["Fn::Sub"].replace("${Locks}", "${Table}")
    return text.split(". ")[0], text.split("Run first: ")[1].split(", then")[0]


def condition(name, alarm):
    """An alarm exists only if what it watches exists."""
    watched = re.search(r"'Value': \{'(?:Ref|Fn::GetAtt)': \[?'(\w+)'", str(alarm["Properties"].get("Dimensions", "")))
    silent = name.removesuffix("IsSilent")
    if silent != name:
        return f"Has{silent}"
    if watched and watched[1] in ("Completer", "Reaper", "Relay", "Consumer"):
        return f"Has{watched[1]}"
    return "MakesQueue" if watched and watched[1] in ("Messages", "MessagesDeadLetters") else None


def check_alarms(parts, monitoring):
    """Each alarm is an alarm of infra/monitoring.yaml, and none is forgotten."""
    originals = of_type(monitoring, ALARM)
    found = set()
    for part, template in parts.items():
        for name, alarm in of_type(template, ALARM).items():
            original = originals[RENAMED.get(name, name)]
            found.add(RENAMED.get(name, name))
            assert part == "tokens" or alarm.get("Condition") == condition(name, alarm), (part, name)
            assert urgency_and_command(alarm) == urgency_and_command(original), (part, name)
            ours, theirs = (
                {key: same(value) for key, value in it["Properties"].items() if key != "AlarmDescription"}
                for it in (alarm, original)
            )
            assert ours == theirs, (part, name, ours, theirs)
        assert template["Resources"]["Topic"] == monitoring["Resources"]["Topic"], part
        assert template["Resources"]["Email"] == monitoring["Resources"]["Email"], part
        for name in ("HasUrgentTopic", "MakesTopic", "SubscribesEmail"):
            assert template["Conditions"][name] == monitoring["Conditions"][name], (part, name)
    assert set(originals) - found == ONLY_IN_THE_SAMPLE, set(originals) - found ^ ONLY_IN_THE_SAMPLE


def check_documents(parts):
    """A page of docs/book/src/operating has an entry for each alarm, or deploying.md names the entry."""
    pages = "\n".join(page.read_text() for page in sorted((DOCS / "book/src/operating").glob("*.md")))
    entries = set(re.findall(r"^\| `(\w+)` \| (?:urgent|soon) \|", pages, re.M))
    deploying = (DOCS / "book/src/deploying.md").read_text()
    renamed = dict(re.findall(r"^\| `(\w+)` \| `(\w+)` \|$", deploying, re.M))
    assert renamed == RENAMED, renamed
    for part, template in parts.items():
        for name in of_type(template, ALARM):
            assert renamed.get(name, name) in entries, (part, name)


def check_dashboards(parts, monitoring):
    """The dashboards plot metrics as the sample's dashboard does."""
    plotted = re.compile(r'\["(?:Locker|\.)", "\w+", .*\]|\[\{"expression": .*\}\]')
    original = monitoring["Resources"]["Dashboard"]["Properties"]["DashboardBody"]["Fn::Sub"]
    shown = set()
    for part in ("workflows", "messages"):
        body = parts[part]["Resources"]["Dashboard"]["Properties"]["DashboardBody"]["Fn::Sub"][0]
        lines = set(plotted.findall(body))
        assert lines and lines <= set(plotted.findall(original)), (part, lines)
        shown |= lines
    for line in plotted.findall(original):
        of_parts = re.search("workflow|message|[sS]tepsInDoubt|completer|reaper|relay", line)
        assert not of_parts or line in shown, line


def check_table(parts, sample):
    """The table of workflows is the sample's, and can have a key."""
    ours, theirs = parts["workflows"]["Resources"]["Workflows"], sample["Resources"]["Workflows"]
    encryption = ours["Properties"].pop("SSESpecification")
    key = {"SSEEnabled": True, "SSEType": "KMS", "KMSMasterKeyId": {"Ref": "KmsKeyArn"}}
    assert encryption == {"Fn::If": ["HasKey", key, {"Ref": "AWS::NoValue"}]}, encryption
    assert ours == theirs, (ours, theirs)


def check_schedules(parts, sample):
    """Each schedule is the sample's, and so is the queue for missed invocations."""
    found = set()
    for part, template in parts.items():
        for name, schedule in of_type(template, "AWS::Scheduler::Schedule").items():
            function, event, queue = SCHEDULES[name]
            found.add(name)
            original = dict(sample["Resources"][function]["Properties"]["Events"][event]["Properties"])
            assert original.pop("OmitName")
            ours = dict(schedule["Properties"])
            target = ours.pop("Target")
            for key in ("RetryPolicy", "DeadLetterConfig", "Input"):
                if key in target:
                    ours[key] = target[key]
            assert same(ours) == same(original), (part, name)
            invoked = name.removesuffix("Schedule")
            assert target["Arn"]["Fn::Sub"].endswith(f":function:${{{invoked}}}"), (part, name)
            assert schedule["Condition"] == f"Has{invoked}", (part, name)
            role = template["Resources"][f"{name}Role"]
            [invoke, miss] = role["Properties"]["Policies"][0]["PolicyDocument"]["Statement"]
            assert invoke["Resource"] == target["Arn"] and invoke["Action"] == ["lambda:InvokeFunction"], name
            assert miss["Resource"] == target["DeadLetterConfig"]["Arn"] and miss["Action"] == ["sqs:SendMessage"], name
            assert template["Resources"][queue] == sample["Resources"]["MissedReaps"], (part, queue)
    assert found == set(SCHEDULES), found


def statements(listed):
    for statement in listed:
        yield statement["Fn::If"][1] if "Fn::If" in statement else statement


def place(resource):
    """The table, index or queue that a statement is for. The sample's sender has its own policy."""
    text = resource.get("Fn::Sub", "")
    for suffix, name in (("/index/byStatus", "byStatus"), ("table/${Workflows}", "Workflows")):
        if text.endswith(suffix):
            return name
    return same(resource).get("Ref")


def granted(listed, places):
    return {
        (action, place(statement["Resource"]))
        for statement in statements(listed)
        for action in statement["Action"]
        if place(statement["Resource"]) in places and action not in TO_RECEIVE
    }


def check_policies(parts, sample):
    """Each policy has the sample's permissions on the table, its index and the queue."""
    found = set()
    for part in ("workflows", "messages"):
        for name, policy in of_type(parts[part], "AWS::IAM::ManagedPolicy").items():
            listed = policy["Properties"]["PolicyDocument"]["Statement"]
            for statement in statements(listed):
                text = str(statement)
                assert statement["Effect"] == "Allow" and "*" not in text, (part, name, text)
                # The queue for missed runs, and a key through one service only.
                action, resource = statement["Action"], place(statement["Resource"])
                if resource.startswith("Missed"):
                    assert action == ["sqs:SendMessage"], (part, name)
                elif resource.endswith("KmsKeyArn"):
                    assert "kms:ViaService" in statement["Condition"]["StringEquals"], (part, name)
                else:
                    assert resource in ("Workflows", "byStatus", "Packing"), (part, name, resource)
            if name == "SendPolicy":
                assert granted(listed, {"Packing"}) == {("sqs:SendMessage", "Packing")}
                continue
            found.add(name)
            places = {"Workflows", "byStatus"} | ({"Packing"} if part == "messages" else set())
            original = sample["Resources"][POLICIES[name]]["Properties"]["Policies"][0]["Statement"]
            ours, theirs = granted(listed, places), granted(original, places)
            assert ours == theirs, (part, name, ours ^ theirs)
    assert found == set(POLICIES), found


def check_queue(parts, sample):
    """The queue for messages is the sample's, with a timeout and a key as parameters."""
    resources = parts["messages"]["Resources"]
    for name, original in (("Messages", "Packing"), ("MessagesDeadLetters", "PackingDeadLetters")):
        ours = dict(resources[name]["Properties"])
        theirs = dict(sample["Resources"][original]["Properties"])
        timeout, usual = ours.pop("VisibilityTimeout", None), theirs.pop("VisibilityTimeout", None)
        assert timeout is None or parts["messages"]["Parameters"][timeout["Ref"]]["Default"] == usual, name
        key = {"Fn::If": ["HasKey", {"Ref": "KmsKeyArn"}, {"Ref": "AWS::NoValue"}]}
        assert ours.pop("KmsMasterKeyId") == key, name
        managed = theirs.pop("SqsManagedSseEnabled")
        assert ours.pop("SqsManagedSseEnabled") == {"Fn::If": ["HasKey", {"Ref": "AWS::NoValue"}, managed]}, name
        assert same(ours) == same(theirs), (name, ours, theirs)


def check_parameters(parts, sample):
    """A parameter of the same name is the same parameter. Defaults deploy in a new account."""
    for part in ("workflows", "messages"):
        template = parts[part]
        assert "Transform" not in template, part
        assert "ReservedConcurrentExecutions" not in str(template), part
        for name, parameter in template["Parameters"].items():
            assert "Description" in parameter, (part, name)
            if name in sample["Parameters"]:
                assert parameter == sample["Parameters"][name], (part, name)
    both = set(parts["workflows"]["Parameters"]) & set(parts["messages"]["Parameters"])
    for name in both - {"KmsKeyArn"}:
        assert parts["workflows"]["Parameters"][name] == parts["messages"]["Parameters"][name], name


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
    sample, monitoring = read("template.yaml"), read("infra/monitoring.yaml")
    check_conditions({**parts, "template": sample, "monitoring": monitoring})
    check_alarms(parts, monitoring)
    check_documents(parts)
    check_dashboards(parts, monitoring)
    check_table(parts, sample)
    check_schedules(parts, sample)
    check_policies(parts, sample)
    check_queue(parts, sample)
    check_parameters(parts, sample)


if __name__ == "__main__":
    check()
