#!/bin/sh
# start-redis.sh redis|sentinel ADDRESS [PRIMARY]: starts it with a configuration in /data, where both write down what
# a fail-over has changed: a server that began again with the first one would take a former primary for the primary.
# Who is the PRIMARY itself follows nobody.
set -eu
kind=$1 address=$2 primary=${3:-}
if [ ! -f "/data/$kind.conf" ]; then
    sed "s/PASSWORD/$REDIS_PASSWORD/g; s/ADDRESS/$address/g" "/etc/fastpath/$kind.conf" >"/data/$kind.new"
    case $primary in "" | "$address") ;; *) echo "replicaof $primary 6379" >>"/data/$kind.new" ;; esac
    mv "/data/$kind.new" "/data/$kind.conf"
fi
case $kind in
    redis) exec redis-server /data/redis.conf ;;
    sentinel) exec redis-server /data/sentinel.conf --sentinel ;;
esac
