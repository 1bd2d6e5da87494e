resource "aws_sqs_queue" "missed_scans" {
  name                      = "${var.name}-missed-scans"
  message_retention_seconds = 1209600
  sqs_managed_sse_enabled   = true
}

resource "aws_cloudwatch_log_group" "scanner" {
  name              = "/aws/lambda/${var.name}-scanner"
  retention_in_days = var.log_retention_days
}

data "aws_iam_policy_document" "lambda" {
  statement {
    actions = ["sts:AssumeRole"]
    principals {
      type        = "Service"
      identifiers = ["lambda.amazonaws.com"]
    }
  }
}

data "aws_iam_policy_document" "scanner" {
  statement {
    actions   = ["dynamodb:GetItem"]
    resources = [aws_dynamodb_table.locks.arn]
  }
  # It writes down when it ran, and nothing else.
  statement {
    actions   = ["dynamodb:PutItem"]
    resources = [aws_dynamodb_table.locks.arn]
    condition {
      test     = "ForAllValues:StringEquals"
      variable = "dynamodb:LeadingKeys"
      values   = ["locker runs scanner"]
    }
  }
  statement {
    actions   = ["dynamodb:Query"]
    resources = ["${aws_dynamodb_table.locks.arn}/index/byStatus"]
  }
  statement {
    actions   = ["logs:CreateLogStream", "logs:PutLogEvents"]
    resources = ["${aws_cloudwatch_log_group.scanner.arn}:*"]
  }
  statement {
    actions   = ["sqs:SendMessage"]
    resources = [aws_sqs_queue.missed_scans.arn]
  }
}

resource "aws_iam_role" "scanner" {
  name_prefix        = "${var.name}-scanner-"
  assume_role_policy = data.aws_iam_policy_document.lambda.json
}

resource "aws_iam_role_policy" "scanner" {
  role   = aws_iam_role.scanner.id
  policy = data.aws_iam_policy_document.scanner.json
}

resource "aws_lambda_function" "scanner" {
  function_name    = "${var.name}-scanner"
  role             = aws_iam_role.scanner.arn
  filename         = var.scanner_zip
  source_code_hash = filebase64sha256(var.scanner_zip)
  runtime          = "provided.al2023"
  architectures    = ["arm64"]
  handler          = "bootstrap"
  memory_size      = 256
  timeout          = 60

  environment {
    variables = {
      LOCKER_TABLE        = aws_dynamodb_table.locks.name
      LOCKER_SHARDS       = tostring(var.shards)
      LOCKER_STACK        = var.name
      LOCKER_KEYS_IN_LOGS = var.keys_in_logs
    }
  }

  logging_config {
    log_format            = "JSON"
    application_log_level = "INFO"
    log_group             = aws_cloudwatch_log_group.scanner.name
  }
}

# The next run is the retry.
resource "aws_lambda_function_event_invoke_config" "scanner" {
  function_name                = aws_lambda_function.scanner.function_name
  maximum_retry_attempts       = 0
  maximum_event_age_in_seconds = 300

  destination_config {
    on_failure {
      destination = aws_sqs_queue.missed_scans.arn
    }
  }
}
