#!/usr/bin/env bash
# What Bitnami's charts start.
exec zkServer.sh start-foreground
