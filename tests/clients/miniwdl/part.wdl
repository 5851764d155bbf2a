version 1.0

workflow one {
  input { Int number }
  call square { input: number = number }
  output { File result = square.result }
}

task square {
  input { Int number }
  command <<<
    set -e
    echo "~{number} on $(hostname)" >&2
    echo $(( ~{number} * ~{number} )) > square.txt
  >>>
  output { File result = "square.txt" }
  runtime { cpu: 1 memory: "64MB" maxRetries: 1 }
}
