#!/bin/sh
# The control plane's images are for its nodes alone, which kind names so.
set -eu
images=/kind/images/node.tar
case "$(hostname)" in *control-plane*) images="$images /kind/images/control-plane.tar" ;; esac
for archive in $images; do
  ctr --namespace k8s.io images import --no-unpack "$archive" 2>/dev/null || ctr --namespace k8s.io images import "$archive"
  rm -f "$archive"
done
