"""What the construct of the CDK and the module of Terraform make, in the form of CloudFormation."""

import json

import hcl2
from samtranslator.yaml_helper import yaml_parse

# What a reader of an alarm relies on.
ALARM = (
    "Namespace",
    "MetricName",
    "Statistic",
    "Period",
    "EvaluationPeriods",
    "DatapointsToAlarm",
    "ComparisonOperator",
    "Threshold",
    "TreatMissingData",
)


def of_type(template, kind):
    return {name: value["Properties"] for name, value in template["Resources"].items() if value["Type"] == kind}


def only(found):
    [value] = found.values() if isinstance(found, dict) else found
    return value


def shape(table):
    """A table's properties that have to be equal, in an order of their own."""
    index = only(table["GlobalSecondaryIndexes"])
    return {
        "keys": table["KeySchema"],
        "attributes": sorted((each["AttributeName"], each["AttributeType"]) for each in table["AttributeDefinitions"]),
        "index": (index["IndexName"], index["KeySchema"], index["Projection"]),
        "ttl": table["TimeToLiveSpecification"],
        "recovery": table["PointInTimeRecoverySpecification"],
        "protected": table["DeletionProtectionEnabled"],
        "billing": table["BillingMode"],
    }


def alarms(template):
    """The alarms of a template by their metric, with what they say up to the names of tables."""
    found = {}
    for alarm in of_type(template, "AWS::CloudWatch::Alarm").values():
        text = json.dumps(alarm["AlarmDescription"])
        alarm = {"DatapointsToAlarm": alarm["EvaluationPeriods"], **alarm}
        found[alarm["MetricName"]] = {name: alarm[name] for name in ALARM} | {
            "dimensions": sorted(dimension["Name"] for dimension in alarm["Dimensions"]),
            "says": text[: text.index(" --table")].rpartition('"')[2],
        }
    return found


def template(path):
    return yaml_parse(path.read_text())


def plain(value):
    """A value without the quotes and the marks of the parser."""
    if isinstance(value, dict):
        return {plain(key): plain(each) for key, each in value.items() if not str(key).startswith("__")}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return value.strip('"') if isinstance(value, str) else value


def camel(name):
    return "".join(part.capitalize() for part in name.split("_"))


def terraform(folder):
    """The table and the alarms of the module, as a template."""
    resources = {}
    for path in sorted(folder.glob("*.tf")):
        with path.open() as file:
            parsed = plain(hcl2.load(file))
        for resource in parsed.get("resource", []):
            for kind, named in resource.items():
                for name, properties in named.items():
                    resources[kind, name] = properties
    made = {"Table": {"Type": "AWS::DynamoDB::Table", "Properties": table(resources["aws_dynamodb_table", "locks"])}}
    for (kind, name), properties in resources.items():
        if kind == "aws_cloudwatch_metric_alarm":
            made[camel(name)] = {"Type": "AWS::CloudWatch::Alarm", "Properties": alarm(properties)}
    return {"Resources": made, "Outputs": {"Table": {"Value": {"Ref": "Table"}}}}


def table(properties):
    index = only(properties["global_secondary_index"])
    key = [{"AttributeName": properties["hash_key"], "KeyType": "HASH"}]
    index_keys = [("hash_key", "HASH"), ("range_key", "RANGE")]
    return {
        "BillingMode": properties["billing_mode"],
        "DeletionProtectionEnabled": properties["deletion_protection_enabled"],
        "PointInTimeRecoverySpecification": {
            "PointInTimeRecoveryEnabled": only(properties["point_in_time_recovery"])["enabled"]
        },
        "AttributeDefinitions": [
            {"AttributeName": each["name"], "AttributeType": each["type"]} for each in properties["attribute"]
        ],
        "KeySchema": key,
        "GlobalSecondaryIndexes": [
            {
                "IndexName": index["name"],
                "KeySchema": [{"AttributeName": index[name], "KeyType": kind} for name, kind in index_keys],
                "Projection": {
                    "ProjectionType": index["projection_type"],
                    "NonKeyAttributes": index["non_key_attributes"],
                },
            }
        ],
        "TimeToLiveSpecification": {
            "AttributeName": only(properties["ttl"])["attribute_name"],
            "Enabled": only(properties["ttl"])["enabled"],
        },
    }


def alarm(properties):
    dimensions = properties["dimensions"]
    # A local that two alarms share.
    dimensions = ["service", "stack"] if dimensions == "${local.of_scanner}" else dimensions
    made = {camel(name): value for name, value in properties.items()}
    return made | {"Dimensions": [{"Name": name} for name in dimensions]}
