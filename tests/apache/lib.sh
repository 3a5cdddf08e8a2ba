# Functions for bash: Apache RocketMQ from the official artifacts, started and stopped on this machine.
#
# target/apache/VERSION/lib       jars, kept between runs
# target/apache/VERSION/classes   the programs of tests/java that are peers of the tests, compiled against them
# target/apache/VERSION/run-PID   one pair of servers: configuration, store, logs, process ids; gone when it is stopped

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
apache_root=${CARGO_TARGET_DIR:-$top/target}/apache

# Sixteen retries within seconds: each of the 18 delay levels is one second.
short_delays="1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s"

# Java 17 closes what RocketMQ uses for mapped files and to look up its process id.
java_opens="--add-opens=java.base/java.nio=ALL-UNNAMED --add-opens=java.base/sun.nio.ch=ALL-UNNAMED
 --add-opens=java.base/java.lang=ALL-UNNAMED --add-opens=java.base/java.util=ALL-UNNAMED
 --add-exports=java.base/sun.nio.ch=ALL-UNNAMED --add-exports=java.base/jdk.internal.ref=ALL-UNNAMED"

say() { echo "[apache] $*" >&2; }
die() { say "$*"; exit 1; }

# fetch VERSION: brings the jars and compiles the Java peers. Two that did so at once would write the same files.
fetch() {
    mkdir -p "$apache_root"
    (
        ! command -v flock > /dev/null || flock 9
        fetch_alone "$1"
    ) 9> "$apache_root/fetch.lock"
}

# fetch_alone VERSION: without a network the local Maven repository serves.
fetch_alone() {
    local lib=$apache_root/$1/lib classes=$apache_root/$1/classes
    local peers=("$top/tests/java/Peer.java" "$top/tests/java/Members.java")
    if [ ! -e "$lib/complete" ]; then
        local copy=(mvn -q -B -f "$top/tests/apache/pom.xml" "-Drocketmq.version=$1" dependency:copy-dependencies "-DoutputDirectory=$lib")
        say "bringing Apache RocketMQ $1"
        "${copy[@]}" >&2 || "${copy[@]}" -o >&2 || die "Maven cannot bring Apache RocketMQ $1"
        touch "$lib/complete"
    fi
    if [ ! -e "$classes/complete" ] || [ -n "$(find "${peers[@]}" -newer "$classes/complete")" ]; then
        mkdir -p "$classes"
        javac -d "$classes" -cp "$lib/*" "${peers[@]}" >&2 || die "the Java peers do not compile against $1"
        touch "$classes/complete"
    fi
}

# new_home VERSION: prints a fresh folder that belongs to this shell. Servers of shells that are gone are ended first.
new_home() {
    local old
    for old in "$apache_root/$1"/run-*; do
        if [ -d "$old" ] && ! alive "${old##*-}"; then
            say "ending what an earlier run has left in $old"
            remove_home "$old"
        fi
    done
    mkdir -p "$apache_root/$1/run-$$"
    echo "$apache_root/$1/run-$$"
}

# remove_home HOME: with the homes of more servers in it, if there are any.
remove_home() {
    local part
    for part in "$1"/*/settings; do
        [ ! -e "$part" ] || remove_home "${part%/settings}"
    done
    end_process "$1" broker 0
    end_process "$1" namesrv 0
    rm -rf "$1"
}

# start_servers VERSION HOME [broker.conf line]...: returns when clients can fetch routes.
start_servers() {
    local version=$1 home=$2
    shift 2
    configure "$version" "$home" "$@"
    start_namesrv "$home"
    start_broker "$home"
}

# start_broker HOME: the same broker again, on the same ports and the same store.
start_broker() {
    local home=$1
    . "$home/settings"
    : > "$home/broker.log"
    launch "$home" broker -Xms256m -Xmx1g -XX:MaxDirectMemorySize=512m org.apache.rocketmq.broker.BrokerStartup -c "$home/broker.conf"
    await "$home" broker "boot success"
}

# start_guarded VERSION HOME FOLDER: servers that speak TLS only, with server.pem and server.key of the folder. The broker
# demands certificates that are signed by ca.pem, and signed requests. Whoever is in the accounts below may do what
# tests/scenarios/guarded.rs says.
start_guarded() {
    local version=$1 home=$2 folder=$3
    local auth=org.apache.rocketmq.auth
    if [[ $version = 4.* ]]; then
        configure "$version" "$home" aclEnable=true
        cat > "$home/conf/plain_acl.yml" <<ACL
accounts:
- {accessKey: admin-key, secretKey: admin-secret, admin: true}
- {accessKey: reader-key, secretKey: reader-secret, admin: false, defaultTopicPerm: DENY, defaultGroupPerm: DENY, topicPerms: [guarded=PUB|SUB], groupPerms: [guarded-group=SUB]}
ACL
    else
        configure "$version" "$home" authenticationEnabled=true authorizationEnabled=true \
            authenticationProvider=$auth.authentication.provider.DefaultAuthenticationProvider \
            authenticationMetadataProvider=$auth.authentication.provider.LocalAuthenticationMetadataProvider \
            authorizationProvider=$auth.authorization.provider.DefaultAuthorizationProvider \
            authorizationMetadataProvider=$auth.authorization.provider.LocalAuthorizationMetadataProvider \
            'initAuthenticationUser={"username":"admin-key","password":"admin-secret"}' \
            'innerClientAuthenticationCredentials={"accessKey":"admin-key","secretKey":"admin-secret"}'
    fi
    tls_options "$home" namesrv "$folder" none
    tls_options "$home" broker "$folder" require
    start_namesrv "$home"
    start_broker "$home"
    if [[ $version = 5.* ]]; then
        printf 'accessKey: admin-key\nsecretKey: admin-secret\n' > "$home/conf/tools.yml"
        admin "$home" <<ADMIN
createUser -c DefaultCluster -u reader-key -p reader-secret -t Normal
createAcl -c DefaultCluster -s User:reader-key -r Topic:guarded -a Pub,Sub -d Allow
createAcl -c DefaultCluster -s User:reader-key -r Group:guarded-group -a Sub -d Allow
ADMIN
    fi
}

# tls_options HOME namesrv|broker FOLDER none|require: what is asked of clients comes last.
tls_options() {
    local demands=true
    [ "$4" = require ] || demands=false
    cat > "$1/$2.tls" <<TLS
tls.test.mode.enable=false
tls.server.need.client.auth=$4
tls.server.authClient=$demands
tls.server.trustCertPath=$3/ca.pem
tls.server.certPath=$3/server.pem
tls.server.keyPath=$3/server.key
tls.client.authServer=false
tls.client.certPath=$3/me.pem
tls.client.keyPath=$3/me.key
TLS
    echo "-Dtls.server.mode=enforcing -Dtls.enable=true -Dtls.config.file=$1/$2.tls" > "$1/$2.options"
}

# admin HOME: mqadmin, for the commands in its input. All of them have to succeed, which a broker that has just started
# may need another try for.
admin() {
    local home=$1 commands tries
    commands=$(cat)
    . "$home/settings"
    for tries in 1 2 3; do
        # shellcheck disable=SC2046,SC2086
        java $java_opens $(cat "$home/broker.options" 2> /dev/null) "-Drocketmq.home.dir=$home" "-Duser.home=$home" \
            -Drocketmq.namesrv.addr="$namesrv" -XX:TieredStopAtLevel=1 -cp "$lib/*" "$top/tests/apache/Admin.java" \
            <<< "$commands" > "$home/admin.log" 2>&1
        [ "$(grep -c ' success\.' "$home/admin.log")" != "$(wc -l <<< "$commands")" ] || return 0
    done
    grep -v '|-' "$home/admin.log" >&2
    die "mqadmin fails"
}

start_namesrv() {
    local home=$1
    . "$home/settings"
    : > "$home/namesrv.log"
    launch "$home" namesrv -Xms64m -Xmx256m org.apache.rocketmq.namesrv.NamesrvStartup -c "$home/namesrv.properties"
    await "$home" namesrv "boot success"
}

# end_process HOME broker|namesrv SECONDS: asks it to end, and after that many seconds makes it end.
end_process() {
    local pid tenths=$(($3 * 10))
    pid=$(cat "$1/$2.pid" 2>/dev/null) || return 0
    # A process id may have been given to somebody else since.
    if runs_here "$pid" "$1"; then
        [ "$tenths" = 0 ] || kill -TERM "$pid" 2>/dev/null || true
        while [ "$tenths" -gt 0 ] && alive "$pid"; do
            sleep 0.1
            tenths=$((tenths - 1))
        done
        kill -KILL "$pid" 2>/dev/null || true
        while alive "$pid"; do sleep 0.02; done
    fi
    rm -f "$1/$2.pid"
}

# A process that has ended but that its parent has not asked about is not alive.
alive() {
    kill -0 "$1" 2>/dev/null || return 1
    [ ! -r "/proc/$1/stat" ] || ! grep -q ') Z ' "/proc/$1/stat" 2>/dev/null
}

runs_here() {
    alive "$1" || return 1
    [ ! -r "/proc/$1/cmdline" ] || grep -qF -- "$2" "/proc/$1/cmdline"
}

# launch HOME NAME JAVA-ARGUMENTS…: in the background, nothing of this shell's left open in it.
launch() {
    local home=$1 name=$2
    shift 2
    # shellcheck disable=SC2046,SC2086
    java $java_opens $(cat "$home/$name.options" 2> /dev/null) -XX:+UseSerialGC -XX:TieredStopAtLevel=1 "-Drocketmq.home.dir=$home" "-Duser.home=$home" \
        -Drocketmq.broker.diskSpaceWarningLevelRatio=0.99 -Drocketmq.broker.diskSpaceCleanForciblyRatio=0.98 \
        -cp "$lib/*" "$@" < /dev/null > "$home/$name.log" 2>&1 &
    echo $! > "$home/$name.pid"
    disown # or the shell reports its end
}

# await HOME NAME TEXT: until its log says so.
await() {
    local tenths=1200
    until grep -q "$3" "$1/$2.log" 2> /dev/null; do
        alive "$(cat "$1/$2.pid")" && [ $((tenths -= 1)) -gt 0 ] || { tail -n 20 "$1/$2.log" >&2; die "the $2 of $1 does not start"; }
        sleep 0.1
    done
}

# configure VERSION HOME [broker.conf line]...
configure() {
    local version=$1 home=$2 part namesrv port
    shift 2
    port=$(free_ports)
    namesrv=$((port + 2))
    mkdir -p "$home/conf"
    # 4.9 does not start without these.
    for part in namesrv broker tools; do
        echo '<configuration><appender name="out" class="ch.qos.logback.core.ConsoleAppender"><encoder><pattern>%d %p %t %c{0} - %m%n</pattern></encoder></appender><root level="INFO"><appender-ref ref="out"/></root></configuration>' > "$home/conf/logback_$part.xml"
    done
    cat > "$home/settings" <<SETTINGS
version=$version
lib=$apache_root/$version/lib
namesrv=127.0.0.1:$namesrv
broker=127.0.0.1:$port
SETTINGS
    cat > "$home/namesrv.properties" <<NAMESRV
listenPort=$namesrv
kvConfigPath=$home/kvConfig.json
configStorePath=$home/namesrv.saved.properties
NAMESRV
    # Small files for small machines; room for a busy machine and a full disk; offsets on disk within a second,
    # so that a broker that is killed knows them.
    cat > "$home/broker.conf" <<BROKER
brokerClusterName=DefaultCluster
brokerName=broker-a
brokerId=0
brokerIP1=127.0.0.1
listenPort=$port
namesrvAddr=127.0.0.1:$namesrv
storePathRootDir=$home/store
storePathCommitLog=$home/store/commitlog
mappedFileSizeCommitLog=67108864
mappedFileSizeConsumeQueue=600000
maxIndexNum=500000
maxHashSlotNum=100000
waitTimeMillsInSendQueue=5000
enablePropertyFilter=true
diskMaxUsedSpaceRatio=99
flushConsumerOffsetInterval=1000
messageDelayLevel=$short_delays
BROKER
    printf '%s\n' "$@" >> "$home/broker.conf"
}

# free_ports: prints a port P so that P-2 to P+2 are free. A broker takes P-2 to P+1, the name server P+2. Whoever starts
# servers beside others at the same moment looks for theirs elsewhere, from RMQ_APACHE_PORTS on.
free_ports() {
    local tries=100 base port
    while [ $((tries -= 1)) -gt 0 ]; do
        base=$((${RMQ_APACHE_PORTS:-20000} + RANDOM % 6000)) # below the ports that the system itself gives out
        for port in 0 1 2 3 4; do
            # A connection that is accepted means that somebody listens there.
            if (exec 3<> "/dev/tcp/127.0.0.1/$((base + port))") 2>/dev/null; then continue 2; fi
        done
        echo $((base + 2))
        return
    done
    die "no free ports"
}

# run_tests TARGET [TEST]...: one after the other, for they share the servers. The last line is "N passed, N failed".
# Those whose names begin with "slow_" run only when they are asked for.
run_tests() {
    local target=$1 out counts
    shift
    [ $# -gt 0 ] || set -- --skip slow_
    out=$(mktemp)
    # In the background, for a shell acts on a signal only when what it waits for in the foreground has ended.
    timeout -k 5 900 cargo test --test "$target" -- --test-threads=1 "$@" 2>&1 | tee "$out" &
    wait $! || true
    counts=$(sed -n 's/^test result: .* \([0-9]*\) passed; \([0-9]*\) failed;.*/\1 passed, \2 failed/p' "$out")
    rm -f "$out"
    # No result is a failure too, for instance after a quarter of an hour; so is a name that no test has.
    echo "${counts:=0 passed, 1 failed}"
    case $counts in
        "0 passed, "*) return 1 ;;
        *", 0 failed") return 0 ;;
        *) return 1 ;;
    esac
}

# on_signals: ends what this shell has in the background, and then the shell, whose EXIT trap stops the servers.
on_signals() {
    trap 'kill $(jobs -p) 2>/dev/null; exit 130' INT
    trap 'kill $(jobs -p) 2>/dev/null; exit 143' TERM
}
