#!/bin/sh
# Compile every C file below /src on the workers that the svc plugin lists, then link them into one library.
set -eu
export DISTCC_HOSTS DISTCC_FALLBACK=0 DISTCC_DIR=/tmp/distcc
DISTCC_HOSTS=$(sed 's/$/:3632\/2/' /etc/volcano/worker.host | tr '\n' ' ')
mkdir -p "$DISTCC_DIR" /src/out
for host in $(cat /etc/volcano/worker.host); do
    tries=0
    until python3 -c "import socket,sys; socket.create_connection((sys.argv[1], 3632), 1)" "$host" 2>/dev/null; do
        tries=$((tries + 1))
        [ "$tries" -lt 300 ] || { echo "worker $host does not answer on port 3632"; exit 1; }
        sleep 0.1
    done
done
echo "compiling $(find /src/c -name '*.c' | wc -l) files on $(wc -w </etc/volcano/worker.host) workers"
find /src/c -name '*.c' | sort | xargs -P 8 -I {} sh -c '
    object=/src/out/$(echo "$1" | sed "s|^/src/c/||; s|/|_|g; s|\.c$|.o|")
    distcc gcc -O1 -fPIC -I/src/c -I/src/c/common -c "$1" -o "$object" && echo "CC $1"
' sh {}
gcc -shared -o /src/out/library.so /src/out/*.o
echo "linked $(ls /src/out/*.o | wc -l) objects into library.so"
