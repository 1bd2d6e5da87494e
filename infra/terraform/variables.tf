variable "name" {
  description = "Name of the table, and the beginning of every other name."
  type        = string
  default     = "locker"
}

variable "scanner_zip" {
  description = "Zip of the scanner for arm64, such as cargo lambda build --release --arm64 --output-format zip makes."
  type        = string
}

variable "shards" {
  description = "Number of shards for unfinished tokens. You can raise it at any time; never lower it."
  type        = number
  default     = 1
  validation {
    condition     = var.shards >= 1 && var.shards <= 1000
    error_message = "Must be from 1 to 1000."
  }
}

variable "alarm_topic_arns" {
  description = "SNS topics for alarms. If empty, alarms reach no one."
  type        = list(string)
  default     = []
}

variable "urgent_topic_arns" {
  description = "SNS topics for urgent alarms, which wake somebody. If empty, they go where the others go."
  type        = list(string)
  default     = []
}

variable "keys_in_logs" {
  description = "What logs show of keys: clear, or digest."
  type        = string
  default     = "clear"
  validation {
    condition     = contains(["clear", "digest"], var.keys_in_logs)
    error_message = "Must be clear or digest."
  }
}

variable "log_retention_days" {
  description = "Days for which the scanner's log is kept."
  type        = number
  default     = 30
}
