#!/usr/bin/env bash
# Says whether the tests of one kind can run here: `tools/ready_for.sh browser|curl|redis|prometheus|compiler|postgres|mariadb|webservers|mosquitto|systemd|languages|kafka|helm|bare|engine` exits 0, or prints the
# one line that says what only apt-get has, and exits 1. With --packages it prints the packages instead.
set -euo pipefail
cd "$(dirname "$0")/.."

need=$1
case $need in
    browser) packages="chromium libatomic1" what="Chromium" ;;
    curl) packages="curl" what="curl" ;;
    prometheus) packages="prometheus" what="Prometheus" ;;
    postgres) packages="postgresql" what="PostgreSQL" ;;
    mariadb) packages="mariadb-server" what="MariaDB" ;;
    compiler) packages="gcc libc6-dev" what="a C compiler, for the floor of the benchmarks" ;;
    webservers) packages="nginx libnginx-mod-stream apache2 haproxy" what="nginx with its stream module, Apache and HAProxy" ;;
    mosquitto) packages="mosquitto-clients" what="mosquitto_pub and mosquitto_sub" ;;
    systemd) packages="systemd" what="systemd-analyze" ;;
    # What is missing here, by Debian's packages: each program of docs/examples/languages runs where its own is.
    languages)
        packages= what="every compiler and interpreter of docs/examples/languages (those whose own is here have run)"
        for each in g++:g++ go:golang javac:default-jdk-headless php:php-cli ruby:ruby rustc:rustc; do
            command -v "${each%:*}" >/dev/null || packages+=" ${each#*:}"
        done
        packages=${packages# }
        ;;
    kafka) packages="maven" what="Maven, which fetches a broker of Kafka" ;;
    helm) packages= what="helm" ;;
    bare) packages="debootstrap iproute2" what="root, debootstrap and ip" ;;
    engine) packages="debootstrap iproute2 buildah" what="root, debootstrap, ip and Buildah" ;;
    redis) packages="redis-server iproute2 iptables" what="redis-server, and ip and iptables for networks" ;;
esac
if [[ ${2:-} == --packages ]]; then
    echo "$packages"
    exit
fi

browser_ready() {
    shopt -s nullglob
    # Playwright's driver is a Node that needs a library which a bare Debian does not have.
    local drivers=(.venv/lib/python3*/site-packages/playwright/driver/node)
    command -v chromium chromium-browser google-chrome >/dev/null && "${drivers[0]:-false}" --version >/dev/null 2>&1
}

curl_ready() {
    command -v curl >/dev/null
}

redis_ready() {
    command -v redis-server >/dev/null && command -v ip >/dev/null
}

prometheus_ready() {
    command -v prometheus >/dev/null && command -v promtool >/dev/null
}

postgres_ready() {
    shopt -s nullglob
    # Debian keeps the server's programs out of PATH.
    local servers=(/usr/lib/postgresql/*/bin/postgres)
    [[ -x ${servers[0]:-} ]] || command -v postgres >/dev/null
}

mariadb_ready() {
    # Debian keeps the server where not everybody's PATH leads.
    local program PATH=$PATH:/usr/sbin:/sbin
    for program in mariadbd mariadb-install-db mariadb-admin; do command -v "$program" >/dev/null || return 1; done
}

webservers_ready() {
    # Debian keeps them where not everybody's PATH leads.
    local program PATH=$PATH:/usr/sbin:/sbin
    for program in nginx apache2 haproxy; do command -v "$program" >/dev/null || return 1; done
    [[ -f /usr/lib/nginx/modules/ngx_stream_module.so ]]
}

mosquitto_ready() {
    command -v mosquitto_pub >/dev/null && command -v mosquitto_sub >/dev/null
}

systemd_ready() {
    command -v systemd-analyze >/dev/null
}

helm_ready() {
    command -v helm >/dev/null
}

bare_ready() {
    [[ $(id -u) == 0 ]] && command -v debootstrap >/dev/null && command -v ip >/dev/null
}

engine_ready() {
    bare_ready && command -v buildah >/dev/null
}

kafka_ready() {
    # What is fetched once is there.
    [[ -f var/kafka/broker/stamp && -f var/kafka/connector/stamp ]] || command -v mvn >/dev/null
}

languages_ready() {
    [[ -z $packages ]]
}

compiler_ready() {
    command -v cc >/dev/null || command -v gcc >/dev/null || command -v clang >/dev/null
}

"${need}_ready" && exit
if [[ $need == helm ]]; then
    echo "the helm tests need helm in PATH, which Debian has not: go install helm.sh/helm/v3/cmd/helm@latest"
    exit 1
fi
echo "the $need tests need $what. As root: apt-get update && apt-get install -y $packages"
exit 1
