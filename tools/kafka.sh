#!/usr/bin/env bash
# Fetches a Kafka broker and Spark's connector to Kafka by Maven, for the slow tests and `make bench ARGS=spark-live`:
# `tools/kafka.sh` puts them into var/kafka/broker and var/kafka/connector and says where. Quick when they are there.
#
# Maven reads `mvn`'s own settings. The connector is the one that spark/jobs/kafka.py names, beside which no newer one fits
# the PySpark of requirements.txt.
set -euo pipefail
cd "$(dirname "$0")/.."

broker=org.apache.kafka:kafka_2.13:4.1.0
connector=$(sed -n 's/^PACKAGE = "\(.*\)"$/\1/p' spark/jobs/kafka.py)
# What the connector needs and Spark has not; all else comes with PySpark, in its own versions.
needed=spark-sql-kafka-0-10_2.13,spark-token-provider-kafka-0-10_2.13,kafka-clients,commons-pool2
folder=var/kafka

# fetch NAME GROUP:ARTIFACT:VERSION [OPTION...]
fetch() {
    local to=$folder/$1 wanted="$*" group artifact version pom
    if [[ ! -f $to/stamp || $(<"$to/stamp") != "$wanted" ]]; then
        command -v mvn >/dev/null || { tools/ready_for.sh kafka >&2; exit 1; }
        IFS=: read -r group artifact version <<<"$2"
        rm -rf "$to"
        mkdir -p "$to"
        pom=$to/pom.xml
        cat >"$pom" <<XML
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>fastpath</groupId><artifactId>$1</artifactId><version>1</version>
  <dependencies><dependency>
    <groupId>$group</groupId><artifactId>$artifact</artifactId><version>$version</version>
  </dependency></dependencies>
</project>
XML
        mvn -q -B -f "$pom" dependency:copy-dependencies -DoutputDirectory=. -DincludeScope=runtime "${@:3}" >&2 ||
            { echo "Maven could not fetch $2; the reason is above" >&2; exit 1; }
        printf '%s\n' "$wanted" >"$to/stamp"
    fi
    echo "$PWD/$to"
}

mkdir -p var
exec 9>var/kafka.lock
flock 9
fetch broker "$broker"
fetch connector "$connector" "-DincludeArtifactIds=$needed"
