import { CfnOutput, Duration, RemovalPolicy, Stack } from "aws-cdk-lib";
import * as cloudwatch from "aws-cdk-lib/aws-cloudwatch";
import * as actions from "aws-cdk-lib/aws-cloudwatch-actions";
import * as dynamodb from "aws-cdk-lib/aws-dynamodb";
import * as iam from "aws-cdk-lib/aws-iam";
import * as lambda from "aws-cdk-lib/aws-lambda";
import * as destinations from "aws-cdk-lib/aws-lambda-destinations";
import * as logs from "aws-cdk-lib/aws-logs";
import * as scheduler from "aws-cdk-lib/aws-scheduler";
import * as targets from "aws-cdk-lib/aws-scheduler-targets";
import * as sns from "aws-cdk-lib/aws-sns";
import * as sqs from "aws-cdk-lib/aws-sqs";
import { Construct } from "constructs";

/** Settings of {@link LockerTokens}. */
export interface LockerTokensProps {
  /**
   * The scanner's binary, named `bootstrap`, for arm64: a folder that
   * `cargo lambda build --release --arm64 -p locker-functions --bin scanner` made, as `Code.fromAsset` takes it.
   */
  readonly scannerCode: lambda.Code;
  /** Number of shards for unfinished tokens. You can raise it at any time; never lower it. Default: 1. */
  readonly shards?: number;
  /** Where alarms go. Default: nowhere. */
  readonly alarmTopic?: sns.ITopic;
  /** Where urgent alarms go, which wake somebody. Default: where the others go. */
  readonly urgentTopic?: sns.ITopic;
  /** What logs show of keys: the keys, or digests of them. Default: `clear`. */
  readonly keysInLogs?: "clear" | "digest";
  /** How long the scanner's log is kept. Default: one month. */
  readonly logRetention?: logs.RetentionDays;
}

/** A table of lock tokens, and the scanner that reports every five minutes what should be done by now and is not. */
export class LockerTokens extends Construct {
  /** The table: its name is what `Locker::new` and `locker --table` take. */
  readonly table: dynamodb.Table;
  /** The scanner. */
  readonly scanner: lambda.Function;

  constructor(scope: Construct, id: string, props: LockerTokensProps) {
    super(scope, id);
    const shards = props.shards ?? 1;
    this.table = this.makeTable();
    const missed = new sqs.Queue(this, "MissedScans", {
      retentionPeriod: Duration.days(14),
      encryption: sqs.QueueEncryption.SQS_MANAGED,
    });
    this.scanner = this.makeScanner(props, shards, missed);
    this.alarm(props, missed, shards);
    new CfnOutput(this, "Table", {
      description: "Table of lock tokens, for locker --table, and for Locker::new.",
      value: this.table.tableName,
    });
  }

  /** Let a function take and end tokens: exactly the four actions that this needs. */
  grantTokens(grantee: iam.IGrantable): iam.Grant {
    return this.table.grant(
      grantee,
      "dynamodb:GetItem",
      "dynamodb:PutItem",
      "dynamodb:UpdateItem",
      "dynamodb:DeleteItem",
    );
  }

  private makeTable(): dynamodb.Table {
    const text = dynamodb.AttributeType.STRING;
    const table = new dynamodb.Table(this, "Locks", {
      partitionKey: { name: "lockToken", type: text },
      billingMode: dynamodb.BillingMode.PAY_PER_REQUEST,
      timeToLiveAttribute: "ttl",
      pointInTimeRecoverySpecification: { pointInTimeRecoveryEnabled: true },
      deletionProtection: true,
      removalPolicy: RemovalPolicy.RETAIN,
    });
    table.addGlobalSecondaryIndex({
      indexName: "byStatus",
      partitionKey: { name: "status", type: text },
      sortKey: { name: "expectedCompletion", type: text },
      projectionType: dynamodb.ProjectionType.INCLUDE,
      nonKeyAttributes: [
        "created",
        "lockedBy",
        "attempt",
        "class",
        "cause",
        "resolution",
        "resolvedBy",
        "resolvedReason",
        "within",
      ],
    });
    return table;
  }

  private makeScanner(props: LockerTokensProps, shards: number, missed: sqs.Queue): lambda.Function {
    const scanner = new lambda.Function(this, "Scanner", {
      runtime: lambda.Runtime.PROVIDED_AL2023,
      architecture: lambda.Architecture.ARM_64,
      handler: "bootstrap",
      code: props.scannerCode,
      memorySize: 256,
      timeout: Duration.seconds(60),
      loggingFormat: lambda.LoggingFormat.JSON,
      applicationLogLevelV2: lambda.ApplicationLogLevel.INFO,
      logGroup: new logs.LogGroup(this, "ScannerLog", {
        retention: props.logRetention ?? logs.RetentionDays.ONE_MONTH,
      }),
      environment: {
        LOCKER_TABLE: this.table.tableName,
        LOCKER_SHARDS: String(shards),
        LOCKER_STACK: Stack.of(this).stackName,
        LOCKER_KEYS_IN_LOGS: props.keysInLogs ?? "clear",
      },
      // The next run is the retry.
      retryAttempts: 0,
      maxEventAge: Duration.minutes(5),
      onFailure: new destinations.SqsDestination(missed),
    });
    scanner.addToRolePolicy(
      new iam.PolicyStatement({ actions: ["dynamodb:GetItem"], resources: [this.table.tableArn] }),
    );
    // It writes down when it ran, and nothing else.
    scanner.addToRolePolicy(
      new iam.PolicyStatement({
        actions: ["dynamodb:PutItem"],
        resources: [this.table.tableArn],
        conditions: { "ForAllValues:StringEquals": { "dynamodb:LeadingKeys": ["locker runs scanner"] } },
      }),
    );
    scanner.addToRolePolicy(
      new iam.PolicyStatement({
        actions: ["dynamodb:Query"],
        resources: [`${this.table.tableArn}/index/byStatus`],
      }),
    );
    new scheduler.Schedule(this, "EveryFiveMinutes", {
      schedule: scheduler.ScheduleExpression.rate(Duration.minutes(5)),
      target: new targets.LambdaInvoke(scanner, {
        retryAttempts: 2,
        maxEventAge: Duration.minutes(5),
        deadLetterQueue: missed,
      }),
    });
    return scanner;
  }

  private alarm(props: LockerTokensProps, missed: sqs.Queue, shards: number): void {
    const tables = `--table ${this.table.tableName} --shards ${shards}`;
    const scan = `Run first: locker scan ${tables}`;
    const gauge = (metricName: string) =>
      new cloudwatch.Metric({
        namespace: "Locker",
        metricName,
        dimensionsMap: { service: "scanner", stack: Stack.of(this).stackName },
        statistic: "Maximum",
        period: Duration.minutes(5),
      });
    const above = {
      threshold: 0,
      comparisonOperator: cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
      treatMissingData: cloudwatch.TreatMissingData.NOT_BREACHING,
      evaluationPeriods: 1,
    };
    const urgent = [
      new cloudwatch.Alarm(this, "MissingTasks", {
        ...above,
        metric: gauge("missingTasks"),
        evaluationPeriods: 3,
        datapointsToAlarm: 2,
        alarmDescription: `Urgent. Tokens are overdue: their work should be done and is not. ${scan}`,
      }),
      new cloudwatch.Alarm(this, "ScannerIsSilent", {
        metric: gauge("scanFinished"),
        threshold: 1,
        comparisonOperator: cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
        treatMissingData: cloudwatch.TreatMissingData.BREACHING,
        evaluationPeriods: 3,
        alarmDescription: `Urgent. No scan has finished for 15 minutes. ${scan}`,
      }),
    ];
    const soon = [
      new cloudwatch.Alarm(this, "FailedTokens", {
        ...above,
        metric: gauge("tokensHeld"),
        alarmDescription: `Soon. Failed work waits for an operator. Run first: locker ls --state held ${tables}`,
      }),
      new cloudwatch.Alarm(this, "ScansWereMissed", {
        ...above,
        metric: missed.metricApproximateNumberOfMessagesVisible({ statistic: "Maximum" }),
        alarmDescription: `Soon. The schedule could not invoke the scanner. ${scan}`,
      }),
    ];
    const tell = (alarms: cloudwatch.Alarm[], topic?: sns.ITopic) => {
      if (topic !== undefined) {
        const action = new actions.SnsAction(topic);
        alarms.forEach((alarm) => {
          alarm.addAlarmAction(action);
          alarm.addOkAction(action);
        });
      }
    };
    tell(urgent, props.urgentTopic ?? props.alarmTopic);
    tell(soon, props.alarmTopic);
  }
}
