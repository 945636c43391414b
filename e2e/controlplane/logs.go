package controlplane

import (
	"flag"
	"fmt"
	"io"
	"os"

	"k8s.io/klog/v2"
)

// logs redirects klog, the log of all Kubernetes code in this process, to a file.
type logs struct {
	path string
	file *os.File
}

func redirectLogs(path string) (*logs, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log: %w", err)
	}
	l := &logs{path: path, file: file}
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	if err := flags.Parse([]string{"-logtostderr=false", "-alsologtostderr=false", "-stderrthreshold=FATAL", "-one_output"}); err != nil {
		return nil, err
	}
	klog.SetOutput(file)
	redirectEtcdClients(file)
	return l, nil
}

// end closes the file and drops what is logged afterwards: kube-apiserver's connections to etcd live longer, and log errors.
func (l *logs) end() error {
	klog.Flush()
	klog.SetOutput(io.Discard)
	return l.file.Close()
}
