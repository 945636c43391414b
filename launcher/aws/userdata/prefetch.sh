#!/bin/bash
# Pulls the images of the pods that will run here while the node's network starts. slipway writes them to the Node, in
# annotation slipway.dev/prefetch. Nothing waits for this unit, and nothing fails with it: journalctl -u slipway-prefetch
if [ "${1-}" != unit ]; then
  systemd-run --no-block --collect --unit=slipway-prefetch --property=RuntimeMaxSec=900 --property=Nice=10 /bin/bash "$0" unit
  exit 0
fi
set -uf
export LC_ALL=C
limit=3                        # pulls at a time
full=70                        # percent of the images' disk above which nothing more is pulled
config=${KUBELET_ENVIRONMENT:-/etc/eks/kubelet/environment}
kubeconfig=/var/lib/kubelet/kubeconfig
socket=/run/containerd/containerd.sock

until [ -S "$socket" ] && [ -s "$kubeconfig" ] && [ -s "$config" ]; do
  sleep 0.2
  ((SECONDS < 300)) || exit 0
done
flag() { grep -o -- "--$1=[^ \"']*" "$config" | tail -n 1 | cut -d = -f 2-; }
value() { sed -n "s/^ *$1: *\"\{0,1\}\([^\"]*\)\"\{0,1\} *\$/\1/p" "$kubeconfig" | head -n 1; }
node=$(flag hostname-override) providers=$(flag image-credential-provider-config) bin=$(flag image-credential-provider-bin-dir)
mapfile -t login < <(value command; sed -n 's/^ *- "\(.*\)" *$/\1/p' "$kubeconfig")

# The Node as often as it changes: whether it is Ready, and the list.
watch() {
  local token
  token=$("${login[@]}" | jq -r .status.token)
  curl -sSN --cacert "$(value certificate-authority)" -H @<(echo "Authorization: Bearer $token") \
    "$(value server)/api/v1/nodes?watch=true&timeoutSeconds=300&fieldSelector=metadata.name%3D$node" |
    jq --unbuffered -r '.object | "\(any(.status.conditions[]?; .type == "Ready" and .status == "True")) " +
      (.metadata.annotations["slipway.dev/prefetch"] // "" | gsub(","; " "))' |
    while read -r line; do
      echo "$line" >"$seen.new" && mv "$seen.new" "$seen"
    done
}

# A registry's part of an image is matched as the kubelet does: part by part, then the path.
rules='def covers($image): (sub("^https?://"; "") | split("/")) as $p | ($image | split("/")) as $i |
    ($p[0] | split(".")) as $a | ($i[0] | split(".")) as $b | ($a | length) == ($b | length) and
    all(range($a | length) as $n | [$a[$n], $b[$n]];
      .[0] as $glob | .[1] | test("^\($glob | gsub("\\*"; ".*") | gsub("\\?"; "."))$")) and
    ($i[1:] | join("/") | startswith($p[1:] | join("/")));'

# User and password of an image, from the kubelet's credential provider: a line each.
credentials() {
  local provider api
  mapfile -t provider < <(jq -r --arg image "$1" --arg bin "$bin" "$rules"'first(.providers[] | select(.tokenAttributes == null) |
    select(any(.matchImages[]; covers($image)))) | .apiVersion, (.env // [] | .[] | "\(.name)=\(.value)"), "\($bin)/\(.name)", .args[]?' "$providers")
  [ -n "${provider-}" ] || return
  api=${provider[0]}
  jq -n --arg image "$1" --arg api "$api" '{kind: "CredentialProviderRequest", apiVersion: $api, image: $image}' |
    env "${provider[@]:1}" |
    jq -r --arg image "$1" "$rules"'[.auth // {} | to_entries[] | select(.key | covers($image))] | sort_by(.key) | last | .value // empty | .username, .password'
}

# A field of a protobuf message: number, bytes.
field() {
  local n=${#2} head
  printf -v head '\\x%02x' $(($1 << 3 | 2))
  for (( ; n > 127; n >>= 7)); do printf -v head '%s\\x%02x' "$head" $((n & 127 | 128)); done
  printf -v head '%s\\x%02x' "$head" "$n"
  printf '%b%s' "$head" "$2"
}

# One image, through containerd's CRI as the kubelet pulls: gRPC is a length and a message over HTTP/2.
pull() {
  local used body name password failure
  used=$(df --output=pcent /var/lib/containerd | tr -dc 0-9)
  if ((used >= full)); then
    echo "not pulled, the disk is full to $used percent: $1"
    return
  fi
  { read -r name && read -r password; } < <(credentials "$1")
  body=$(field 1 "$(field 1 "$1")")
  [ -z "${password-}" ] || body+=$(field 2 "$(field 1 "$name")$(field 2 "$password")")
  failure=$({
    printf "\\0\\0$(printf '\\x%02x' $((${#body} >> 16 & 255)) $((${#body} >> 8 & 255)) $((${#body} & 255)))"
    printf %s "$body"
  } | curl -sS --http2-prior-knowledge --unix-socket "$socket" -H 'content-type: application/grpc' -H 'te: trailers' -o /dev/null -D - \
    --data-binary @- http://localhost/runtime.v1.ImageService/PullImage 2>&1 | tr -d '\r' | sed -n 's/^grpc-message: //p; /^curl/p')
  echo "${failure:-pulled} after $SECONDS s: $1"
}

seen=$(mktemp) ready=false images='' pulls=()
declare -A known
watch &
watching=$!
while ((SECONDS < 600)); do
  read -r ready images <"$seen"
  [ "$ready" != true ] || break # From here on the kubelet pulls what its pods need.
  kill -0 $watching 2>/dev/null || { sleep 1; watch & watching=$!; }
  for image in $images; do
    (($(jobs -rp | wc -l) <= limit)) || break
    [ -z "${known[$image]-}" ] || continue
    known[$image]=1
    pull "$image" &
    pulls+=($!)
  done
  sleep 0.2
done
kill $watching 2>/dev/null
wait "${pulls[@]}"
