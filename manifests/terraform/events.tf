# EC2's events, through EventBridge and SQS.

locals {
  events = {
    ScheduledChange     = { source = "aws.health", type = "AWS Health Event" }
    SpotInterruption    = { source = "aws.ec2", type = "EC2 Spot Instance Interruption Warning" }
    Rebalance           = { source = "aws.ec2", type = "EC2 Instance Rebalance Recommendation" }
    InstanceStateChange = { source = "aws.ec2", type = "EC2 Instance State-change Notification" }
    CapacityReservation = { source = "aws.ec2", type = "EC2 Capacity Reservation Instance Interruption Warning" }
  }
}

resource "aws_sqs_queue" "interruption" {
  name                      = var.cluster_name
  message_retention_seconds = 300
  sqs_managed_sse_enabled   = true
  tags                      = var.tags
}

data "aws_iam_policy_document" "queue" {
  statement {
    sid       = "EventsOfThisAccount"
    actions   = ["sqs:SendMessage"]
    resources = [aws_sqs_queue.interruption.arn]

    principals {
      type        = "Service"
      identifiers = ["events.amazonaws.com"]
    }

    condition {
      test     = "ArnLike"
      variable = "aws:SourceArn"
      values   = ["arn:${local.partition}:events:${local.region}:${local.account}:rule/*"]
    }
  }

  statement {
    sid       = "DenyHTTP"
    effect    = "Deny"
    actions   = ["sqs:*"]
    resources = [aws_sqs_queue.interruption.arn]

    principals {
      type        = "*"
      identifiers = ["*"]
    }

    condition {
      test     = "Bool"
      variable = "aws:SecureTransport"
      values   = ["false"]
    }
  }
}

resource "aws_sqs_queue_policy" "interruption" {
  queue_url = aws_sqs_queue.interruption.url
  policy    = data.aws_iam_policy_document.queue.json
}

resource "aws_cloudwatch_event_rule" "interruption" {
  for_each = local.events

  name_prefix   = "Karpenter${each.key}-"
  description   = "${each.value.type}, for slipway in ${var.cluster_name}"
  event_pattern = jsonencode({ source = [each.value.source], detail-type = [each.value.type] })
  tags          = var.tags
}

resource "aws_cloudwatch_event_target" "interruption" {
  for_each = local.events

  rule      = aws_cloudwatch_event_rule.interruption[each.key].name
  target_id = "KarpenterInterruptionQueueTarget"
  arn       = aws_sqs_queue.interruption.arn
}
