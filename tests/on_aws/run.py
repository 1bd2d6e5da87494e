"""First contact with an account. `tests/on-aws` starts it: see the options with --help.

Creates the stacks under a prefix, runs `on_aws` on them, prints what was expected and what was
seen, and removes the stacks. `--moto` starts a simulation of AWS in this process instead.
"""

import argparse
import datetime
import json
import logging
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
import warnings

from report import Report
from stacks import ROOT, STACKS, Stacks

BINARIES = ROOT / "target/debug"
# Kept for the removal, out of the limit of time.
REMOVAL_MINUTES = 10


def options():
    parser = argparse.ArgumentParser(prog="tests/on-aws", description="Run Locker on an AWS account for the first time.")
    parser.add_argument("--prefix", required=True, help="Begin the name of each resource with this")
    parser.add_argument("--moto", action="store_true", help="Use Moto, a simulation, in the place of an account")
    parser.add_argument("--i-pay-up-to-usd", type=float, metavar="USD", help="Allow requests for up to this, at most 5")
    parser.add_argument("--minutes", type=float, default=60, help="Stop after this time, at most 60 (default: 60)")
    parser.add_argument("--messages", type=int, help="Messages to each of three targets (default: 10000; Moto: 40)")
    parser.add_argument("--keys", type=int, help="Keys that each of 20 processes begins (default: 200; Moto: 20)")
    parser.add_argument("--scanner", type=pathlib.Path, help="Run this zip of the scanner for arm64 on Lambda")
    parser.add_argument("--remove-only", action="store_true", help="Remove what an earlier run left, and do no more")
    given = parser.parse_args()
    if not re.fullmatch(r"[a-z][a-z0-9-]{1,19}", given.prefix):
        parser.error("--prefix needs 2 to 20 small letters, digits and hyphens")
    if not 15 <= given.minutes <= 60:
        parser.error("--minutes is 15 to 60")
    if not given.moto and not given.remove_only:
        if given.i_pay_up_to_usd is None:
            parser.error(f"an account is billed: estimated USD {estimate(10000, 200):.2f}; pass --i-pay-up-to-usd 5")
        if not 0 < given.i_pay_up_to_usd <= 5:
            parser.error("--i-pay-up-to-usd is at most 5")
    given.messages = given.messages or (40 if given.moto else 10_000)
    given.keys = given.keys or (20 if given.moto else 200)
    given.limit = 5.0 if given.moto else given.i_pay_up_to_usd
    return given


def estimate(messages, keys):
    """The most that the requests cost, in USD at the prices of us-east-1.

    A message: 12 write units, 3 read units, and 5 requests of its target and its queue. A begun
    key: 4 write units, or 1 if it is refused. The rest, and an hour of alarms: USD 0.10.
    """
    of_a_message = 12 * 0.625 + 3 * 0.125 + 5 * 1.0
    of_a_key = 4 * 0.625 + 19 * 1 * 0.625
    return (3 * messages * of_a_message + keys * of_a_key) / 1e6 + 0.10


def start_moto():
    """Moto in this process. It changes a table without isolation, so its requests take turns."""
    from moto.dynamodb.responses import DynamoHandler
    from moto.server import ThreadedMotoServer

    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    turn, call = threading.RLock(), DynamoHandler.call_action

    def in_turn(handler):
        with turn:
            return call(handler)

    DynamoHandler.call_action = in_turn
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    return f"http://{host}:{port}"


def parts(report, stacks, arguments, seconds):
    """Runs `on_aws`, and ends it and its processes when the time is over."""
    environment = {"PATH": os.environ["PATH"], **stacks.environment()}
    command = [str(BINARIES / "on_aws"), "run", *arguments, *(["--moto"] if stacks.moto else [])]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True)
    late = []

    def stop():
        late.append(True)
        os.killpg(child.pid, signal.SIGKILL)

    timer = threading.Timer(max(seconds, 0), stop)
    timer.start()
    try:
        report.read(child.stdout)
        ended = child.wait()
    finally:
        timer.cancel()
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    if ended != 0:
        report.add("all parts end", "in time, without an error", "stopped by time" if late else f"exit {ended}", False)


def check_tables(report, stacks, given):
    """The command finds nothing to repair in the tables."""
    tables = ["--table", given["table"], "--workflows", given["workflows"]]
    environment = {"PATH": os.environ["PATH"], **stacks.environment()}
    command = [str(BINARIES / "locker"), "doctor", *tables, "--output", "json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    seen = "no problem"
    if done.returncode != 0:
        found = json.loads(done.stdout)["findings"] if done.stdout else [done.stderr]
        seen = "; ".join(str(it.get("problems", it)) if isinstance(it, dict) else it for it in found)
    report.add("locker doctor", "no problem in both tables", seen, done.returncode == 0)


def check_report(stacks, arguments, seconds):
    """A wrong expectation is reported: two runs of each key. Returns the exit code."""
    wrong = Report("on-aws: expected to be wrong")
    parts(wrong, stacks, [*arguments, "--only", "keys", "--keys", "2", "--runs-per-key", "2"], seconds)
    return wrong.exit_code() if [row[3] for row in wrong.rows] == ["wrong"] else 0


def units_of_cloudwatch(stacks, given, began):
    """The write units of the tables and their indexes, as CloudWatch has them."""
    client, total = stacks.client("cloudwatch"), 0.0
    for table in ("table", "workflows", "rows"):
        name = {"Name": "TableName", "Value": given[table]}
        index = {"Name": "GlobalSecondaryIndexName", "Value": "byStatus"}
        for dimensions in ([name],) if table == "rows" else ([name], [name, index]):
            answer = client.get_metric_statistics(
                Namespace="AWS/DynamoDB",
                MetricName="ConsumedWriteCapacityUnits",
                Dimensions=dimensions,
                StartTime=began,
                EndTime=datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=1),
                Period=60,
                Statistics=["Sum"],
            )
            total += sum(point["Sum"] for point in answer["Datapoints"])
    return total


def check_bill(report, stacks, given, began, most):
    counts = {name: round(count) for name, count in report.counts.items()}
    expected = f"at most USD {most:.2f}"
    report.add("the bill, from the requests", expected, f"USD {report.usd:.4f}: {counts}", report.usd <= most)
    if stacks.moto:
        report.add("write units in CloudWatch", "those of the requests", "", "not on Moto")
        report.add("the scanner on Lambda", "one run without an error", "", "not on Moto")
        return
    seen = round(units_of_cloudwatch(stacks, given, began))
    report.add("write units in CloudWatch", counts.get("writeUnits", 0), f"{seen}; the last minutes are late", "not judged")
    if stacks.scanner:
        ok, reply = stacks.invoke_scanner()
        report.add("the scanner on Lambda", "one run without an error", reply, ok)
    else:
        report.add("the scanner on Lambda", "one run without an error", "not run: no --scanner", "not judged")


def run(report, stacks, given):
    began, clock = datetime.datetime.now(datetime.UTC), time.monotonic()

    def left():
        return 60 * (given.minutes - REMOVAL_MINUTES) - (time.monotonic() - clock)

    try:
        made = stacks.create()
        seen = f"{len(STACKS)} in {time.monotonic() - clock:.0f} s"
        report.add("stacks are created", f"{len(STACKS)}", seen, True)
        check_tables(report, stacks, made)
        where = [word for name, value in made.items() for word in (f"--{name}", value)]
        limits = ["--limit-usd", str(given.limit), "--ttl-minutes", str(max(int(left() / 60) - 5, 0))]
        sizes = ["--keys", str(given.keys), "--messages", str(given.messages)]
        parts(report, stacks, [*where, *limits, *sizes], left())
        check_bill(report, stacks, made, began, min(given.limit, estimate(given.messages, given.keys)))
        exit_code = check_report(stacks, where, left())
        report.add("a wrong expectation is reported", "exit code 1", f"exit code {exit_code}", exit_code == 1)
    except (Exception, KeyboardInterrupt) as error:
        report.add("all parts run", "no error", f"{type(error).__name__}: {error}", False)


def remove(report, stacks):
    # A second Ctrl-C does not leave resources behind.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    problems = stacks.remove()
    left = stacks.left()
    seen = "; ".join([*left, *problems]) or "0"
    report.add(f"resources that begin with {stacks.prefix}- after the removal", "0", seen, not left and not problems)


def main():
    given, clock = options(), time.monotonic()
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, signal.default_int_handler)
    stacks = Stacks(given.prefix, start_moto() if given.moto else None, given.scanner)
    report = Report()
    if not given.remove_only:
        where = "Moto" if given.moto else f"account {stacks.account}, {stacks.environment()['AWS_REGION']}"
        cost = estimate(given.messages, given.keys)
        print(f"on-aws: {where}: estimated at most USD {cost:.2f}, {given.minutes:.0f} minutes")
        print("on-aws: functions are processes of this machine; only --scanner runs on Lambda", flush=True)
        if cost > given.limit:
            sys.exit("on-aws: the estimate is above --i-pay-up-to-usd: nothing was created")
        if found := stacks.left():
            sys.exit(f"on-aws: the prefix is in use: {found[:5]}; choose another, or remove them with --remove-only")
        run(report, stacks, given)
    remove(report, stacks)
    print(f"\n{report.table()}\n\non-aws: {time.monotonic() - clock:.0f} s, exit code {report.exit_code()}")
    return report.exit_code()


if __name__ == "__main__":
    sys.exit(main())
