# The role of slipway itself.

data "aws_caller_identity" "current" {}

data "aws_partition" "current" {}

data "aws_region" "current" {}

locals {
  account   = data.aws_caller_identity.current.account_id
  partition = data.aws_partition.current.partition
  region    = data.aws_region.current.name
  use_oidc  = var.oidc_provider_arn != ""
  # arn:aws:iam::ACCOUNT:oidc-provider/ISSUER
  oidc_issuer = local.use_oidc ? split(":oidc-provider/", var.oidc_provider_arn)[1] : ""
}

data "aws_iam_policy_document" "pod_identity" {
  statement {
    actions = ["sts:AssumeRole", "sts:TagSession"]

    principals {
      type        = "Service"
      identifiers = ["pods.eks.amazonaws.com"]
    }
  }
}

data "aws_iam_policy_document" "oidc" {
  count = local.use_oidc ? 1 : 0

  statement {
    actions = ["sts:AssumeRoleWithWebIdentity"]

    principals {
      type        = "Federated"
      identifiers = [var.oidc_provider_arn]
    }

    condition {
      test     = "StringEquals"
      variable = "${local.oidc_issuer}:aud"
      values   = ["sts.amazonaws.com"]
    }

    condition {
      test     = "StringEquals"
      variable = "${local.oidc_issuer}:sub"
      values   = ["system:serviceaccount:${var.namespace}:${var.service_account}"]
    }
  }
}

resource "aws_iam_role" "launcher" {
  name               = "${var.cluster_name}-karpenter"
  assume_role_policy = local.use_oidc ? data.aws_iam_policy_document.oidc[0].json : data.aws_iam_policy_document.pod_identity.json
  tags               = var.tags
}

# The policy that the sandbox enforces in every end-to-end test.
resource "aws_iam_role_policy" "launcher" {
  name = "KarpenterControllerPolicy-${var.cluster_name}"
  role = aws_iam_role.launcher.id
  policy = templatefile("${path.module}/../iam/launcher.json", {
    Partition         = local.partition
    Region            = local.region
    AccountID         = local.account
    ClusterName       = var.cluster_name
    NodeRole          = aws_iam_role.node.name
    InterruptionQueue = aws_sqs_queue.interruption.name
  })
}

# For the setting commitmentsFromAWS.
resource "aws_iam_role_policy" "commitments" {
  count = var.read_commitments ? 1 : 0

  name   = "KarpenterControllerCommitmentsPolicy-${var.cluster_name}"
  role   = aws_iam_role.launcher.id
  policy = file("${path.module}/../iam/commitments.json")
}

# For standby capacity buffers.
resource "aws_iam_role_policy" "standby" {
  count = var.standby_buffers ? 1 : 0

  name = "KarpenterControllerStandbyPolicy-${var.cluster_name}"
  role = aws_iam_role.launcher.id
  policy = templatefile("${path.module}/../iam/standby.json", {
    Partition   = local.partition
    Region      = local.region
    ClusterName = var.cluster_name
  })
}

resource "aws_eks_pod_identity_association" "launcher" {
  count = !local.use_oidc && var.create_pod_identity_association ? 1 : 0

  cluster_name    = var.cluster_name
  namespace       = var.namespace
  service_account = var.service_account
  role_arn        = aws_iam_role.launcher.arn
  tags            = var.tags
}
