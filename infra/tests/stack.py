"""Create the stacks of our templates in moto, and check the tables that come out with the command.

    python infra/tests/stack.py target/debug/locker

The serverless transform runs on AWS. Here aws-sam-translator, which is the same code, takes its
place. Moto's server listens on loopback. UNKNOWN_TO_MOTO names what moto leaves out: when moto
learns a type, this test fails, and the exception goes.
"""

import logging
import pathlib
import sys
import warnings

from moto.server import ThreadedMotoServer

from account import Account, Command

INFRA = pathlib.Path(__file__).resolve().parents[1]
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


# What only a stack with packers has.
OF_MESSAGES = {
    "MissedPackings",
    "MissedRelays",
    "Packer",
    "PackerLog",
    "Packing",
    "PackingDeadLetters",
    "Relay",
    "RelayLog",
}


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

        parameters = {
            "PaymentsUrl": "https://payments.example.com",
            "JwtIssuer": "https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_a1B2c3D4e",
            "JwtAudience": "client",
        }
        quiet = account.deploy("quiet", INFRA.parent / "template.yaml", {**parameters, "Packers": "off"})
        assert "PackingQueueUrl" not in quiet and account.queues_of_messages() == [], "nothing of messages is made"
        quiet = ("--table", quiet["Table"], "--workflows", quiet["WorkflowsTable"])
        only_ttl(command.problems("doctor", *quiet), checks=2)

        whole = account.deploy("whole", INFRA.parent / "template.yaml", parameters)
        assert len(account.queues_of_messages()) == 4 and whole["PackingQueueUrl"]
        of_messages = account.made("whole") - account.made("quiet")
        assert OF_MESSAGES <= of_messages, of_messages
        table, workflows = whole["Table"], whole["WorkflowsTable"]
        check_tokens(command, table)
        both = ("--table", table, "--workflows", workflows)
        only_ttl(command.problems("workflow", "table", "check", *both))
        only_ttl(command.problems("doctor", *both), checks=2)
        switch_ttl_on(account, [table, workflows])
        assert command.problems("doctor", *both) == []

        tokens = account.deploy("tokens", INFRA / "tokens.yaml", {})["Table"]
        check_tokens(command, tokens)
        switch_ttl_on(account, [tokens])
        assert command.problems("doctor", "--table", tokens) == []
        assert account.left_out == UNKNOWN_TO_MOTO, account.left_out
    finally:
        server.stop()
    print("the three SAM stacks were created, and their tables are what the code needs")


if __name__ == "__main__":
    main(*sys.argv[1:])
