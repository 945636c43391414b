package controlplane

import (
	"flag"
	"fmt"
	"os"

	"k8s.io/klog/v2"
)

// logs is klog, the log of everything that is Kubernetes in this process, sent to a file.
type logs struct {
	path  string
	file  *os.File
	state klog.State
}

func redirectLogs(path string) (*logs, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	l := &logs{path: path, file: file, state: klog.CaptureState()}
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	if err := flags.Parse([]string{"-logtostderr=false", "-alsologtostderr=false", "-stderrthreshold=FATAL", "-one_output"}); err != nil {
		return nil, err
	}
	klog.SetOutput(file)
	redirectEtcdClients(file)
	return l, nil
}

// restore sends the log to where it went before and closes the file.
func (l *logs) restore() error {
	klog.Flush()
	l.state.Restore()
	return l.file.Close()
}
