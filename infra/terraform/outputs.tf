output "table" {
  description = "Table of lock tokens, for locker --table, and for Locker::new."
  value       = aws_dynamodb_table.locks.name
}

output "table_arn" {
  description = "ARN of that table. A function that takes tokens needs GetItem, PutItem, UpdateItem and DeleteItem on it."
  value       = aws_dynamodb_table.locks.arn
}

output "scanner" {
  description = "Name of the scanner's function."
  value       = aws_lambda_function.scanner.function_name
}
