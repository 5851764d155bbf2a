version 1.0

import "part.wdl" as part

workflow squares {
  input { Array[Int] numbers = [1, 2, 3] }
  scatter (number in numbers) {
    call part.one { input: number = number }
  }
  call total { input: parts = one.result }
  output { Int sum = total.sum }
}

task total {
  input { Array[File] parts }
  command <<<
    cat ~{sep=" " parts} | awk '{ sum += $1 } END { print sum }'
  >>>
  output { Int sum = read_int(stdout()) }
  runtime { cpu: 1 memory: "64MB" }
}
