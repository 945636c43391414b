package controlplane

import (
	"io"
	"os"
	_ "unsafe" // for go:linkname

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	_ "k8s.io/apiserver/pkg/storage/storagebackend/factory" // the variable's owner
)

// etcdClientLogger is the variable that kube-apiserver's etcd clients take their logger from. It is made at the program's
// start, for standard error, and no option leads to it; on a terminal every request that a client gives up would show.
//
//go:linkname etcdClientLogger k8s.io/apiserver/pkg/storage/storagebackend/factory.etcd3ClientLogger
var etcdClientLogger *zap.Logger //nolint:gochecknoglobals // It is Kubernetes' variable, not ours.

// redirectEtcdClients sends the log of this process's etcd clients to a file. Once the file is closed, it drops the log.
func redirectEtcdClients(file *os.File) {
	core := zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.Lock(file), zapcore.WarnLevel)
	etcdClientLogger = zap.New(core, zap.ErrorOutput(zapcore.AddSync(io.Discard))).Named("etcd-client")
}
