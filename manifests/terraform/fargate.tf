# slipway itself on Fargate, so that no node group is needed. Fargate's pods get their role by oidc_provider_arn alone.

locals {
  on_fargate = length(var.fargate_subnet_ids) > 0
}

resource "aws_iam_role" "fargate" {
  count = local.on_fargate ? 1 : 0

  name = "${var.cluster_name}-slipway-fargate"
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = "sts:AssumeRole"
      Principal = { Service = "eks-fargate-pods.amazonaws.com" }
    }]
  })
  tags = var.tags
}

resource "aws_iam_role_policy_attachment" "fargate" {
  count = local.on_fargate ? 1 : 0

  role       = aws_iam_role.fargate[0].name
  policy_arn = "arn:${local.partition}:iam::aws:policy/AmazonEKSFargatePodExecutionRolePolicy"
}

resource "aws_eks_fargate_profile" "slipway" {
  count = local.on_fargate ? 1 : 0

  cluster_name           = var.cluster_name
  fargate_profile_name   = "slipway"
  pod_execution_role_arn = aws_iam_role.fargate[0].arn
  subnet_ids             = var.fargate_subnet_ids
  tags                   = var.tags

  selector {
    namespace = var.namespace
    labels    = { "app.kubernetes.io/name" = "slipway" }
  }

  lifecycle {
    precondition {
      condition     = local.use_oidc
      error_message = "Fargate has no Pod Identity: oidc_provider_arn is required with fargate_subnet_ids."
    }
  }
}
