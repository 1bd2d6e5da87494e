"""An operator and a viewer with the policies that the command prints, in moto with IAM enforcement.

Moto compares each policy with the resource `*`, compares a transaction with its own name, and
ignores conditions. AWS compares the ARN of the table or index, the parts of a transaction, and
`dynamodb:LeadingKeys`. `enforce` does this. Nothing here enforces other conditions, policies of
tables, permission boundaries, and keys.
"""

import json
import tempfile

import boto3
from botocore.exceptions import ClientError
from moto.core.authorization import enable_iam_authentication
from moto.core.exceptions import AccessDeniedError, JsonRESTError
from moto.dynamodb.responses import DynamoHandler
from moto.iam.access_control import IAMPolicyStatement, IAMRequest, PermissionResult

from account import REGION, Command

ACCOUNT = "123456789012"
DRY_RUN = 6
DENIED = 78
# Requests that no person has. Each names the table only where DynamoDB wants it.
OF_NOBODY = {
    "delete_table": {},
    "update_table": {"BillingMode": "PAY_PER_REQUEST"},
    "update_time_to_live": {"TimeToLiveSpecification": {"Enabled": False, "AttributeName": "ttl"}},
    "create_backup": {"BackupName": "copy"},
}


class Denied(JsonRESTError):
    """The answer of DynamoDB. Moto answers in the form of another service."""

    code = 400

    def __init__(self, message):
        super().__init__("AccessDeniedException", message)


def parts(operation, request):
    """The actions of a request, each with its own part of the request."""
    if operation == "TransactWriteItems":
        for part in request["TransactItems"]:
            for kind, item in part.items():
                yield f"{kind}Item", item
    elif operation == "BatchWriteItem":
        for table in request["RequestItems"]:
            yield operation, {"TableName": table}
    else:
        yield operation, request


def leading_key(part):
    """The partition key of an item, or None."""
    item = part.get("Item") or part.get("Key") or {}
    names = (name for name in ("lockToken", "workflow") if name in item)
    return next((item[name]["S"] for name in names), None)


def enforce():
    """Compare the tables and the keys of each request with the policies of its sender."""
    of_moto = IAMPolicyStatement.is_action_permitted
    # Moto's server has threads, but a person sends one request at a time.
    key = None

    def is_permitted(statement, *arguments, **named):
        keys = statement._statement.get("Condition", {}).get("ForAllValues:StringEquals", {})
        if "dynamodb:LeadingKeys" in keys and key not in keys["dynamodb:LeadingKeys"]:
            return PermissionResult.NEUTRAL
        return of_moto(statement, *arguments, **named)

    def authorize(handler, resource="*"):
        nonlocal key
        request = json.loads(handler.raw_body or "{}")
        action = handler._get_action
        try:
            for name, part in parts(action(), request):
                handler._get_action = lambda name=name: name
                key = leading_key(part)
                index = f"/index/{part['IndexName']}" if "IndexName" in part else ""
                place = f"table/{part.get('TableName', '*')}{index}"
                arn = f"arn:aws:dynamodb:{handler.region}:{handler.current_account}:{place}"
                handler._authenticate_and_authorize_action(IAMRequest, arn)
        except AccessDeniedError as error:
            raise Denied(error.message) from error
        finally:
            handler._get_action = action

    IAMPolicyStatement.is_action_permitted = is_permitted
    DynamoHandler._authenticate_and_authorize_normal_action = authorize


class Person:
    """A user of the account with one policy, and the command with the user's credentials."""

    def __init__(self, account, binary, name, policy):
        iam = account.client("iam")
        iam.create_user(UserName=name)
        iam.put_user_policy(UserName=name, PolicyName="tables", PolicyDocument=json.dumps(policy))
        key = iam.create_access_key(UserName=name)["AccessKey"]
        self.command = Command(binary, account)
        self.command.environment["AWS_ACCESS_KEY_ID"] = key["AccessKeyId"]
        self.command.environment["AWS_SECRET_ACCESS_KEY"] = key["SecretAccessKey"]
        # The command keeps its plans there.
        self.state = tempfile.TemporaryDirectory()
        self.command.environment["XDG_STATE_HOME"] = self.state.name
        self.dynamodb = boto3.client(
            "dynamodb",
            endpoint_url=account.endpoint,
            region_name=REGION,
            aws_access_key_id=key["AccessKeyId"],
            aws_secret_access_key=key["SecretAccessKey"],
        )

    def runs(self, *arguments, status=(0,)):
        done = self.command.run(*arguments)
        assert done.returncode in status, (arguments, done)
        return done

    def denied(self, *arguments):
        """The command reports the missing permission."""
        done = self.runs(*arguments, status=(DENIED,))
        assert "not authorized to perform: dynamodb:" in done.stderr, (arguments, done)

    def cannot(self, operation, table, **request):
        try:
            getattr(self.dynamodb, operation)(TableName=table, **request)
        except ClientError as error:
            assert error.response["Error"]["Code"] == "AccessDeniedException", (operation, table, error)
        else:
            raise AssertionError(f"{operation} on {table} was allowed")


def dry_run(person, *act):
    """The id of a dry run, which changes nothing."""
    done = person.runs(*act, "--output", "json", status=(DRY_RUN,))
    return json.loads(done.stdout)["seen"]


def play(account, binary, command, table, workflows, policy):
    """A viewer looks and cannot act. An operator looks and acts. Neither can do more."""
    tokens, both = ("--table", table), ("--table", table, "--workflows", workflows)
    places = {"table": table, "workflows": workflows}
    viewer = Person(account, binary, "viewer", policy(command, "viewer", **places))
    operator = Person(account, binary, "operator", policy(command, "operator", **places))
    no_data = policy(command, "viewer", "--no-data", **places)
    no_data = Person(account, binary, "viewer-without-data", no_data)
    scanner = Person(account, binary, "scanner", policy(command, "scanner", table=table))
    # A command that is killed leaves a token that is overdue after a second.
    key = "people/killed"
    command.run("once", key, "--expect", "1s", *tokens, "--", "sh", "-c", "kill -9 $$")
    resolve = ("resolve", key, "--reason", "it was sent by hand", "--result", '{"exit":0}', *tokens)
    block = ("workflow", "cancel", "people/never", "--not-started", "--reason", "a test", *both)
    other = "another-table"
    create_other = {
        "AttributeDefinitions": [{"AttributeName": "lockToken", "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": "lockToken", "KeyType": "HASH"}],
        "BillingMode": "PAY_PER_REQUEST",
    }
    enforce()
    with enable_iam_authentication():
        for person in (viewer, operator):
            for look in (("ls",), ("status",), ("show", key), ("audit",), ("workflow", "table", "check")):
                person.runs(*look, *both, status=(0, 5))
            person.runs("table", "check", *tokens)
            for operation, request in OF_NOBODY.items():
                person.cannot(operation, table, **request)
            person.cannot("scan", workflows)
            person.cannot("create_table", other, **create_other)
            person.cannot("query", other, KeyConditionExpression="lockToken = :it")
            person.denied("ls", "--table", other)
        no_data.runs("ls", *both)
        no_data.runs("status", *both, status=(0, 5))
        no_data.denied("show", key, *tokens)

        for act in (resolve, block):
            seen = dry_run(viewer, *act)
            viewer.denied(*act, "--seen", seen)
            # The id is the same as before, so nothing was changed.
            assert dry_run(operator, *act) == seen, act
            operator.runs(*act, "--seen", seen)
        viewer.denied("once", "people/new", *tokens, "--", "true")
        operator.runs("once", "people/new", *tokens, "--", "true")
        viewer.cannot("scan", table)
        redact = ("plan", "redact", "--prefix", "people/", "--reason", "a request to erase data", *tokens)
        viewer.denied(*redact)
        operator.runs(*redact, "--seen", dry_run(operator, *redact))
        assert "not kept: an operator erased it" in viewer.runs("show", key, *tokens).stdout
        item = {"lockToken": {"S": key}}
        viewer.cannot("put_item", table, Item=item)
        viewer.cannot("delete_item", table, Key=item)
        viewer.cannot("update_item", table, Key=item)
        [problem] = viewer.command.problems("doctor", *tokens)
        assert "shows how to print the permissions" in problem, problem
        assert operator.command.problems("doctor", *both) == []
        assert key in viewer.runs("audit", *both).stdout

        scanner.runs("scan", *tokens, status=(0, 5))
        scanner.cannot("put_item", table, Item=item)
        scanner.dynamodb.put_item(TableName=table, Item={"lockToken": {"S": "locker runs scanner"}})
