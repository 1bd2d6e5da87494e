locals {
  urgent_actions = length(var.urgent_topic_arns) > 0 ? var.urgent_topic_arns : var.alarm_topic_arns
  of_scanner     = { service = "scanner", stack = var.name }
}

resource "aws_cloudwatch_metric_alarm" "missing_tasks" {
  alarm_name          = "${var.name}-MissingTasks"
  alarm_description   = "Urgent. Tokens are overdue: their work should be done and is not. Run first: locker scan --table ${var.name} --shards ${var.shards}"
  namespace           = "Locker"
  metric_name         = "missingTasks"
  dimensions          = local.of_scanner
  statistic           = "Maximum"
  period              = 300
  evaluation_periods  = 3
  datapoints_to_alarm = 2
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.urgent_actions
  ok_actions          = local.urgent_actions
}

resource "aws_cloudwatch_metric_alarm" "scanner_is_silent" {
  alarm_name          = "${var.name}-ScannerIsSilent"
  alarm_description   = "Urgent. No scan has finished for 15 minutes. Run first: locker scan --table ${var.name} --shards ${var.shards}"
  namespace           = "Locker"
  metric_name         = "scanFinished"
  dimensions          = local.of_scanner
  statistic           = "Maximum"
  period              = 300
  evaluation_periods  = 3
  comparison_operator = "LessThanThreshold"
  threshold           = 1
  treat_missing_data  = "breaching"
  alarm_actions       = local.urgent_actions
  ok_actions          = local.urgent_actions
}

resource "aws_cloudwatch_metric_alarm" "failed_tokens" {
  alarm_name          = "${var.name}-FailedTokens"
  alarm_description   = "Soon. Failed work waits for an operator. Run first: locker ls --state held --table ${var.name} --shards ${var.shards}"
  namespace           = "Locker"
  metric_name         = "tokensHeld"
  dimensions          = local.of_scanner
  statistic           = "Maximum"
  period              = 300
  evaluation_periods  = 1
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
}

resource "aws_cloudwatch_metric_alarm" "scans_were_missed" {
  alarm_name          = "${var.name}-ScansWereMissed"
  alarm_description   = "Soon. The schedule could not invoke the scanner. Run first: locker scan --table ${var.name} --shards ${var.shards}"
  namespace           = "AWS/SQS"
  metric_name         = "ApproximateNumberOfMessagesVisible"
  dimensions          = { QueueName = aws_sqs_queue.missed_scans.name }
  statistic           = "Maximum"
  period              = 300
  evaluation_periods  = 1
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
}
