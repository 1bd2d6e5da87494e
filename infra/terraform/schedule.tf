data "aws_iam_policy_document" "scheduler" {
  statement {
    actions = ["sts:AssumeRole"]
    principals {
      type        = "Service"
      identifiers = ["scheduler.amazonaws.com"]
    }
  }
}

data "aws_iam_policy_document" "schedule" {
  statement {
    actions   = ["lambda:InvokeFunction"]
    resources = [aws_lambda_function.scanner.arn]
  }
  statement {
    actions   = ["sqs:SendMessage"]
    resources = [aws_sqs_queue.missed_scans.arn]
  }
}

resource "aws_iam_role" "schedule" {
  name_prefix        = "${var.name}-schedule-"
  assume_role_policy = data.aws_iam_policy_document.scheduler.json
}

resource "aws_iam_role_policy" "schedule" {
  role   = aws_iam_role.schedule.id
  policy = data.aws_iam_policy_document.schedule.json
}

resource "aws_scheduler_schedule" "every_five_minutes" {
  name                = "${var.name}-scanner"
  schedule_expression = "rate(5 minutes)"

  flexible_time_window {
    mode = "OFF"
  }

  target {
    arn      = aws_lambda_function.scanner.arn
    role_arn = aws_iam_role.schedule.arn

    retry_policy {
      maximum_retry_attempts       = 2
      maximum_event_age_in_seconds = 300
    }

    dead_letter_config {
      arn = aws_sqs_queue.missed_scans.arn
    }
  }
}
