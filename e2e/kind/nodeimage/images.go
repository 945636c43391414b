package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// searchPath of the programs in an image.
const searchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// file of an image: from is a path on this host, or link what it points to.
type file struct{ name, from, link string }

// podImages makes the archives of what runs as pods: for every node, and for the control plane's.
func (b *build) podImages(ctx context.Context) error {
	tags, err := b.tags(ctx)
	if err != nil {
		return err
	}
	network, err := b.iptables(ctx)
	if err != nil {
		return err
	}
	program := func(name string) []file { return []file{{name: "usr/local/bin/" + name, from: b.path("bin", name)}} }
	routes, err := b.routes()
	if err != nil {
		return err
	}
	node := map[string]content{
		tags["pause"]:               {files: []file{{name: "pause", from: b.path("bin", "pause")}}, entrypoint: []string{"/pause"}},
		tags["kube-proxy"]:          {files: append(network, program("kube-proxy")...)},
		"slipway.dev/node-routes:1": {files: routes, entrypoint: []string{"/usr/local/bin/node-routes"}},
	}
	// containerd's configuration in kind's module names its own version of pause.
	node["registry.k8s.io/pause:3.10"] = node[tags["pause"]]
	control := map[string]content{
		tags["etcd"]:    {files: program("etcd")},
		tags["coredns"]: {files: []file{{name: "coredns", from: b.path("bin", "coredns")}}, entrypoint: []string{"/coredns"}},
	}
	for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		control[tags[name]] = content{files: program(name)}
	}
	if err := b.archive("node.tar", node); err != nil {
		return err
	}
	return b.archive("control-plane.tar", control)
}

// tags are the names that kubeadm gives the images, by program.
func (b *build) tags(ctx context.Context) (map[string]string, error) {
	out, err := output(ctx, b.path("bin", "kubeadm"), "config", "images", "list", "--kubernetes-version", b.version)
	if err != nil {
		return nil, err
	}
	tags := map[string]string{}
	for image := range strings.FieldsSeq(out) {
		path, _, _ := strings.Cut(image, ":")
		tags[filepath.Base(path)] = image
	}
	for _, name := range []string{"pause", "etcd", "coredns", "kube-proxy", "kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		if tags[name] == "" {
			return nil, fmt.Errorf("kubeadm names no image of %s: %s", name, out)
		}
	}
	return tags, nil
}

// iptables is Debian's, with its extensions and the libraries of all of them, for kube-proxy.
func (b *build) iptables(ctx context.Context) ([]file, error) {
	root := b.path("rootfs")
	extensions, err := filepath.Glob(filepath.Join(root, "usr/lib/*-linux-gnu/xtables/*.so"))
	if err != nil || len(extensions) == 0 {
		return nil, errors.Join(err, errors.New("no extensions of iptables in the root file system"))
	}
	parts := []string{"/usr/sbin/xtables-nft-multi"}
	for _, path := range extensions {
		parts = append(parts, strings.TrimPrefix(path, root))
	}
	out, err := output(ctx, "chroot", append([]string{root, "ldd"}, parts...)...)
	if err != nil {
		return nil, err
	}
	for word := range strings.FieldsSeq(out) {
		// What ldd is asked about stands with a colon behind it.
		if strings.HasPrefix(word, "/") && !strings.HasSuffix(word, ":") && !slices.Contains(parts, word) {
			parts = append(parts, word)
		}
	}
	found := make([]file, 0, len(parts))
	for _, path := range parts {
		found = append(found, file{name: path[1:], from: filepath.Join(root, path)})
	}
	for _, command := range []string{"iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore"} {
		found = append(found, file{name: "usr/sbin/" + command, link: "xtables-nft-multi"})
	}
	return found, nil
}

// routes is the image of the agent of default-cni.yaml.
func (b *build) routes() ([]file, error) {
	script, err := files.ReadFile("files/node-routes.sh")
	if err != nil {
		return nil, err
	}
	path := b.path("node-routes.sh")
	if err := os.WriteFile(path, script, 0o755); err != nil {
		return nil, err
	}
	found := []file{
		{name: "usr/local/bin/node-routes", from: path},
		{name: "usr/local/bin/kubectl", from: b.path("bin", "kubectl")},
		{name: "bin/busybox", from: filepath.Join(b.path("rootfs"), "bin/busybox")},
	}
	for _, applet := range []string{"sh", "cat", "mv", "sleep", "ip"} {
		found = append(found, file{name: "bin/" + applet, link: "busybox"})
	}
	return found, nil
}

// content of an image.
type content struct {
	files      []file
	entrypoint []string
}

// archive writes images as ctr and docker read them.
func (b *build) archive(to string, contents map[string]content) error {
	images := map[name.Reference]v1.Image{}
	for tag, c := range contents {
		reference, err := name.NewTag(tag)
		if err != nil {
			return err
		}
		if images[reference], err = c.image(); err != nil {
			return fmt.Errorf("%s: %w", tag, err)
		}
	}
	if err := os.MkdirAll(b.path("images"), 0o755); err != nil {
		return err
	}
	return tarball.MultiRefWriteToFile(b.path("images", to), images)
}

func (c content) image() (v1.Image, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range c.files {
		if err := f.write(w); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(out.Bytes())), nil },
		tarball.WithCompressionLevel(gzip.BestSpeed))
	if err != nil {
		return nil, err
	}
	return configured(layer, v1.Config{Env: []string{searchPath}, Entrypoint: c.entrypoint, WorkingDir: "/"})
}

func (f file) write(w *tar.Writer) error {
	if f.link != "" {
		return w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: f.name, Linkname: f.link, Mode: 0o777})
	}
	data, err := os.ReadFile(f.from)
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: 0o755, Size: int64(len(data))}); err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}

// configured is an image of one layer.
func configured(layer v1.Layer, config v1.Config) (v1.Image, error) {
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	current, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	current = current.DeepCopy()
	current.OS, current.Architecture, current.Config = "linux", runtime.GOARCH, config
	return mutate.ConfigFile(image, current)
}

// nodeImage packs the root file system as kind's Dockerfile does: one layer, init as kind starts it.
func (b *build) nodeImage(ctx context.Context) error {
	layerFile := b.path("rootfs.tar")
	if err := runVisibly(ctx, "tar", "--create", "--numeric-owner", "--one-file-system", "--exclude=./dev/*", "--exclude=./proc/*", "--exclude=./sys/*",
		"--file", layerFile, "--directory", b.path("rootfs"), "."); err != nil {
		return err
	}
	defer func() { _ = os.Remove(layerFile) }()
	layer, err := tarball.LayerFromFile(layerFile, tarball.WithCompressionLevel(gzip.BestSpeed))
	if err != nil {
		return err
	}
	image, err := configured(layer, v1.Config{
		Env: []string{searchPath, "container=docker"}, StopSignal: "SIGRTMIN+3",
		Entrypoint: []string{"/usr/local/bin/entrypoint", "/sbin/init"},
	})
	if err != nil {
		return err
	}
	tag, err := name.NewTag(b.name + ":" + b.version)
	if err != nil {
		return err
	}
	archive := b.path("node-image.tar")
	if err := tarball.WriteToFile(archive, tag, image); err != nil {
		return err
	}
	fmt.Printf("%s: docker load --input %s, kind create cluster --image %s\n", tag, archive, tag)
	return nil
}
