#!/bin/bash
# The instance may be hibernated, and its Node is deleted meanwhile. A kubelet registers its node when it starts: it is restarted after each resume.
cat >/etc/systemd/system/slipway-resume.service <<'EOF'
[Unit]
Description=Registers the node again after hibernation
After=hibernate.target

[Service]
Type=oneshot
ExecStart=/usr/bin/systemctl restart kubelet

[Install]
WantedBy=hibernate.target
EOF
systemctl daemon-reload
systemctl enable slipway-resume.service
