resource "aws_dynamodb_table" "locks" {
  name                        = var.name
  billing_mode                = "PAY_PER_REQUEST"
  hash_key                    = "lockToken"
  deletion_protection_enabled = true

  attribute {
    name = "lockToken"
    type = "S"
  }

  attribute {
    name = "status"
    type = "S"
  }

  attribute {
    name = "expectedCompletion"
    type = "S"
  }

  global_secondary_index {
    name            = "byStatus"
    hash_key        = "status"
    range_key       = "expectedCompletion"
    projection_type = "INCLUDE"
    non_key_attributes = [
      "created", "lockedBy", "attempt", "class", "cause", "resolution", "resolvedBy", "resolvedReason", "within",
    ]
  }

  ttl {
    attribute_name = "ttl"
    enabled        = true
  }

  point_in_time_recovery {
    enabled = true
  }

  lifecycle {
    prevent_destroy = true
  }
}
