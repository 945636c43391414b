#!/bin/busybox sh
# The agent of default-cni.yaml: the plugins' configuration for this node's range of pods, then routes to the others' ranges.
server=https://$CONTROL_PLANE_ENDPOINT
folder=/var/run/secrets/kubernetes.io/serviceaccount
while true; do
  nodes=$(kubectl --server "$server" --certificate-authority "$folder/ca.crt" --token "$(cat "$folder/token")" get nodes -o \
    jsonpath='{range .items[*]}{.metadata.name}{" "}{.spec.podCIDR}{" "}{.status.addresses[?(@.type=="InternalIP")].address}{"\n"}{end}')
  echo "$nodes" | while read -r name range address; do
    [ -n "$address" ] || continue
    if [ "$name" != "$NODE_NAME" ]; then
      ip route replace "$range" via "$address" || true
      continue
    fi
    [ ! -e /etc/cni/net.d/10-routes.conflist ] || continue
    cat >/etc/cni/net.d/.new <<JSON
{"cniVersion": "0.3.1", "name": "routes", "plugins": [
  {"type": "ptp", "ipMasq": true, "ipam": {"type": "host-local", "dataDir": "/run/cni-ipam-state", "routes": [{"dst": "0.0.0.0/0"}],
    "ranges": [[{"subnet": "$range"}]]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
JSON
    mv /etc/cni/net.d/.new /etc/cni/net.d/10-routes.conflist
  done
  sleep 2
done
