package userdata

import (
	"errors"
	"fmt"
	"strings"
)

const (
	openScript  = "<powershell>"
	closeScript = "</powershell>"
	// bootstrap is the script of EKS's Windows images that joins the cluster.
	bootstrap = "Start-EKSBootstrap.ps1"
)

// isWindows reports whether user data is a script that EC2Launch runs.
func isWindows(data string) bool {
	return strings.HasPrefix(strings.ToLower(strings.TrimSpace(data)), openScript)
}

// parseWindows reads the call of the bootstrap script, as EC2Launch would run it.
func parseWindows(data string) (Config, error) {
	script, ok := strings.CutSuffix(strings.TrimSpace(data)[len(openScript):], closeScript)
	if !ok || strings.Contains(strings.ToLower(script), closeScript) {
		return Config{}, fmt.Errorf("one script that ends in %s is expected", closeScript)
	}
	cfg := Config{Labels: map[string]string{}}
	for line := range strings.Lines(script) {
		_, arguments, ok := strings.Cut(line, bootstrap)
		if !ok {
			continue
		}
		words, err := powerShellWords(strings.TrimPrefix(arguments, `"`))
		if err != nil {
			return Config{}, fmt.Errorf("%s: %w", bootstrap, err)
		}
		return cfg, cfg.addBootstrap(words)
	}
	return Config{}, fmt.Errorf("no call of %s", bootstrap)
}

// addBootstrap reads the script's parameters, each a name and a value.
func (c *Config) addBootstrap(words []string) error {
	if len(words)%2 != 0 {
		return fmt.Errorf("%s: parameters with a value each are expected, got %q", bootstrap, words)
	}
	for i := 0; i < len(words); i += 2 {
		switch name, value := words[i], words[i+1]; name {
		case "-EKSClusterName":
			c.Cluster = value
		case "-APIServerEndpoint":
			c.Endpoint = value
		case "-Base64ClusterCA":
			c.CertificateAuthority = value
		case "-DNSClusterIP":
		case "-KubeletExtraArgs":
			c.Flags = strings.Fields(value)
		default:
			return fmt.Errorf("%s: a parameter cannot be found that matches parameter name %q", bootstrap, name)
		}
	}
	for _, flag := range c.Flags {
		if err := c.addFlag(flag); err != nil {
			return fmt.Errorf("-KubeletExtraArgs: %w", err)
		}
	}
	return nil
}

// powerShellWords splits a line at its spaces. A word may be in single quotes, which stand for themselves where they are doubled.
func powerShellWords(line string) ([]string, error) {
	var out []string
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		if line[0] != '\'' {
			word, rest, _ := strings.Cut(line, " ")
			out, line = append(out, word), rest
			continue
		}
		var word strings.Builder
		for line = line[1:]; ; {
			part, rest, ok := strings.Cut(line, "'")
			if !ok {
				return nil, errors.New("a quote is not closed")
			}
			word.WriteString(part)
			if line = rest; !strings.HasPrefix(line, "'") {
				break
			}
			word.WriteByte('\'')
			line = line[1:]
		}
		out = append(out, word.String())
	}
	return out, nil
}
