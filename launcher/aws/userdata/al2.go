package userdata

import "strings"

// logged has a script write what it prints to /var/log/user-data.log too, where people and log agents look for it on AL2, as in Karpenter.
const logged = "exec > >(tee /var/log/user-data.log | logger -t user-data -s 2>/dev/console) 2>&1\n"

// bootstrapScript returns AL2's user data: the parts of spec.userData, then the call of the AMI's bootstrap.sh (amazon-eks-ami,
// templates/al2/runtime/bootstrap.sh).
func bootstrapScript(in Input) (string, error) {
	parts, err := customParts(in.Custom, false)
	if err != nil {
		return "", err
	}
	args := []string{
		quote(in.Cluster.Name),
		"--apiserver-endpoint " + quote(in.Cluster.Endpoint),
		"--b64-cluster-ca " + quote(in.Cluster.CertificateAuthority),
	}
	if in.Cluster.IPv6 {
		args = append(args, "--ip-family ipv6")
	}
	kubelet := in.kubelet()
	if len(kubelet.ClusterDNS) > 0 {
		args = append(args, "--dns-cluster-ip "+quote(kubelet.ClusterDNS[0]))
	}
	if kubelet.MaxPods != nil {
		args = append(args, "--use-max-pods false")
	}
	if flags := kubeletFlags(in); len(flags) > 0 {
		args = append(args, "--kubelet-extra-args "+quote(strings.Join(flags, " ")))
	}
	if in.RAID0 {
		args = append(args, "--local-disks raid0")
	}
	script := "#!/bin/bash -xe\n" + logged + "/etc/eks/bootstrap.sh " + strings.Join(args, " \\\n  ") + "\n"
	return archive(append(in.withResume(parts), newPart(shellScriptType, script))), nil
}

// quote returns s as one word for the shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
