process square {
    input: val number
    output: path 'square'
    script: "echo \$(( $number * $number )) > square"
}

process add {
    input: path 'squares*'
    output: stdout
    script: "awk '{ sum += \$1 } END { print sum }' squares*"
}

process fail {
    errorStrategy 'ignore'
    input: val sum
    script: 'exit 3'
}

workflow {
    sum = add(square(Channel.of(1, 2, 3)).collect()).map { it.trim() }
    sum.view { "the sum is " + it }
    fail(sum)
}
