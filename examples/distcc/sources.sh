#!/bin/sh
# Write forty small C files below the directory given, to have something to compile.
set -eu
mkdir -p "$1/c"
for number in $(seq 40); do
    {
        echo "#include <math.h>"
        echo "double part_$number(double x) { double s = 0; for (int i = 1; i < 1000; i++) s += sin(x * i) / i; return s; }"
    } > "$1/c/part_$number.c"
done
