#!/usr/bin/env bash
# What Bitnami's charts ask: whether the server answers `srvr` and serves.
set -e
port="${ZOO_PORT_NUMBER:-2181}"
zebu word "127.0.0.1:$port" srvr | grep -q '^Mode: '
