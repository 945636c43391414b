package userdata

import (
	"fmt"
	"strings"
)

// powershell is the tag around a script in the user data of Windows (EC2 user guide, "Run commands when you launch an EC2 Windows instance").
const powershell = "powershell>"

// startBootstrap returns the user data of Windows: the lines of spec.userData, then the call of the AMI's Start-EKSBootstrap.ps1 (EKS user guide,
// "Bootstrap script configuration parameters"). EC2 runs one script: spec.userData is lines of PowerShell without the tags around them.
func startBootstrap(in Input) (string, error) {
	if strings.Contains(strings.ToLower(in.Custom), powershell) {
		return "", fmt.Errorf("spec.userData: lines of PowerShell are expected, without the tags <powershell> and </powershell> around them")
	}
	args := []string{
		"-EKSClusterName " + quotePowerShell(in.Cluster.Name),
		"-APIServerEndpoint " + quotePowerShell(in.Cluster.Endpoint),
		"-Base64ClusterCA " + quotePowerShell(in.Cluster.CertificateAuthority),
	}
	if flags := kubeletFlags(in); len(flags) > 0 {
		args = append(args, "-KubeletExtraArgs "+quotePowerShell(strings.Join(flags, " ")))
	}
	if dns := in.kubelet().ClusterDNS; len(dns) > 0 {
		args = append(args, "-DNSClusterIP "+quotePowerShell(dns[0]))
	}
	custom := in.Custom
	if custom != "" && !strings.HasSuffix(custom, "\n") {
		custom += "\n"
	}
	return "<" + powershell + "\n" + custom + `& "$env:ProgramFiles\Amazon\EKS\Start-EKSBootstrap.ps1" ` + strings.Join(args, " ") + "\n</" + powershell + "\n", nil
}

// quotePowerShell returns s as one literal word of PowerShell, which takes the typographic quotes for quotes as well (about_Quoting_Rules).
func quotePowerShell(s string) string {
	return "'" + strings.NewReplacer("'", "''", "\u2018", "\u2018\u2018", "\u2019", "\u2019\u2019", "\u201a", "\u201a\u201a", "\u201b", "\u201b\u201b").Replace(s) + "'"
}
