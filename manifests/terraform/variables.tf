variable "cluster_name" {
  description = "Name of the EKS cluster."
  type        = string

  validation {
    condition     = can(regex("^[0-9A-Za-z][A-Za-z0-9_-]*$", var.cluster_name)) && length(var.cluster_name) <= 46
    error_message = "A name of an EKS cluster is expected, of 46 characters at most: names of roles end at 64, and KarpenterNodeRole-NAME is one."
  }
}

variable "namespace" {
  description = "Namespace that slipway runs in."
  type        = string
  default     = "kube-system"
}

variable "service_account" {
  description = "Name of slipway's service account."
  type        = string
  default     = "slipway"
}

variable "oidc_provider_arn" {
  description = "ARN of the cluster's IAM OIDC provider, for IAM roles for service accounts. Fargate has no Pod Identity and needs it. Empty: Pod Identity."
  type        = string
  default     = ""
}

variable "create_pod_identity_association" {
  description = "Whether to associate the role with the service account by EKS Pod Identity. The cluster needs the agent's add-on."
  type        = bool
  default     = true
}

variable "create_access_entry" {
  description = "Whether to let the nodes in by an access entry. Clusters with aws-auth alone map the role there instead, see the output aws_auth."
  type        = bool
  default     = true
}

variable "create_spot_service_linked_role" {
  description = "Whether to create AWSServiceRoleForEC2Spot: once for each account, before its first spot instance."
  type        = bool
  default     = false
}

variable "read_commitments" {
  description = "Whether to let the launcher read Savings Plans and Reserved Instances, for the setting commitmentsFromAWS."
  type        = bool
  default     = false
}

variable "standby_buffers" {
  description = "Whether to let the launcher stop and start its own instances, for standby capacity buffers."
  type        = bool
  default     = false
}

variable "fargate_subnet_ids" {
  description = "Private subnets with a NAT gateway, to run slipway itself on Fargate. Empty: no Fargate profile."
  type        = list(string)
  default     = []
}

variable "tags" {
  description = "Tags of all resources."
  type        = map(string)
  default     = {}
}
