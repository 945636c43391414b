// Package karpenterlog is a log format with the keys of Karpenter's log, so that queries and alerts on it go on working: level, time, logger,
// message and error, and objects under their kind, such as "NodeClaim": {"name": "default-x7k2p"} (sigs.k8s.io/karpenter,
// pkg/operator/logging).
package karpenterlog

import (
	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/logs/json"
)

// Name is the format's name for the flag --logging-format.
const Name = "karpenter"

// Register adds the format to component-base's. It returns an error if there is one of that name.
func Register() error { return logsapi.RegisterLogFormat(Name, factory{}, logsapi.LoggingBetaOptions) }

type factory struct{}

// Create implements logsapi.LogFormatFactory.
func (factory) Create(c logsapi.LoggingConfiguration, o logsapi.LoggingOptions) (logr.Logger, logsapi.RuntimeControl) {
	level := zap.NewAtomicLevelAt(levelOf(uint32(c.Verbosity)))
	encoder := zapcore.NewJSONEncoder(zapcore.EncoderConfig{
		MessageKey: "message", LevelKey: "level", TimeKey: "time", NameKey: "logger",
		EncodeLevel: encodeLevel, EncodeTime: zapcore.ISO8601TimeEncoder, EncodeDuration: zapcore.StringDurationEncoder,
	})
	core := zapcore.NewCore(encoder, zapcore.Lock(json.AddNopSync(o.ErrorStream)), level)
	logger := zapr.NewLoggerWithOptions(zap.New(core), zapr.ErrorKey("error"))
	return logger.WithSink(sink{logger.GetSink()}), logsapi.RuntimeControl{
		SetVerbosityLevel: func(v uint32) error {
			level.SetLevel(levelOf(v))
			return nil
		},
		Flush: func() {},
	}
}

// levelOf returns zap's level of a verbosity: its levels are inverted, and have a byte.
func levelOf(verbosity uint32) zapcore.Level { return -zapcore.Level(min(verbosity, 127)) }

// encodeLevel names levels as Karpenter does: everything below INFO is DEBUG.
func encodeLevel(l zapcore.Level, to zapcore.PrimitiveArrayEncoder) {
	zapcore.CapitalLevelEncoder(max(l, zapcore.DebugLevel), to)
}

// sink gives keys Karpenter's names.
type sink struct{ logr.LogSink }

// Info implements logr.LogSink.
func (s sink) Info(level int, message string, pairs ...any) {
	s.LogSink.Info(level, message, renamed(pairs)...)
}

// Error implements logr.LogSink.
func (s sink) Error(err error, message string, pairs ...any) {
	s.LogSink.Error(err, message, renamed(pairs)...)
}

// WithValues implements logr.LogSink.
func (s sink) WithValues(pairs ...any) logr.LogSink {
	return sink{s.LogSink.WithValues(renamed(pairs)...)}
}

// WithName implements logr.LogSink.
func (s sink) WithName(name string) logr.LogSink { return sink{s.LogSink.WithName(name)} }

// renamed returns the pairs with Karpenter's keys, and names of objects as objects.
func renamed(pairs []any) []any {
	out := make([]any, len(pairs))
	copy(out, pairs)
	for i := 0; i+1 < len(out); i += 2 {
		switch key, _ := out[i].(string); key {
		case "nodeClaim":
			out[i], out[i+1] = "NodeClaim", object(out[i+1])
		case "nodePool":
			out[i], out[i+1] = "NodePool", object(out[i+1])
		case "node":
			out[i], out[i+1] = "Node", object(out[i+1])
		case "pod":
			out[i], out[i+1] = "Pod", object(out[i+1])
		case "nodeClass":
			out[i], out[i+1] = "EC2NodeClass", object(out[i+1])
		case "providerID":
			out[i] = "provider-id"
		case "instanceType":
			out[i] = "instance-type"
		case "capacityType":
			out[i] = "capacity-type"
		}
	}
	return out
}

// object returns a name as klog.KObj encodes an object without a namespace; other values stay.
func object(value any) any {
	if name, ok := value.(string); ok {
		return map[string]string{"name": name}
	}
	return value
}
