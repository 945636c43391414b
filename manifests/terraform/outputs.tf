output "launcher_role_arn" {
  description = "Role of slipway: serviceAccount.annotations.\"eks.amazonaws.com/role-arn\" with oidc_provider_arn, nothing with Pod Identity."
  value       = aws_iam_role.launcher.arn
}

output "node_role_name" {
  description = "spec.role of EC2NodeClasses."
  value       = aws_iam_role.node.name
}

output "interruption_queue" {
  description = "settings.interruptionQueue."
  value       = aws_sqs_queue.interruption.name
}

output "aws_auth" {
  description = "Entry of mapRoles in the ConfigMap aws-auth, for clusters without access entries. One mapping for the role: a second one replaces the first."
  value = yamlencode([{
    rolearn  = aws_iam_role.node.arn
    username = "system:node:{{EC2PrivateDNSName}}"
    groups   = ["system:bootstrappers", "system:nodes"]
  }])
}
