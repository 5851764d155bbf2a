version 1.0

task evicted {
  input { File gate }
  command <<< until grep -q open "~{gate}"; do sleep 0.2; done; echo through >>>
  output { String word = read_string(stdout()) }
  runtime { cpu: 1 memory: "64MB" preemptible: 1 queue: "research" }
}
